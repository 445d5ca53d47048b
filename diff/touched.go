package diff

// markTouched finds the functions that Options.Touched holds for and their
// direct call neighbours: those that Count saw beside a touched function, or
// where Count was not told what is touched, those that the contexts show.
func (c *comparison) markTouched() {
	if c.options.Touched == nil {
		return
	}
	functions := c.matrix.functions
	c.touched, c.weighted = make([]bool, len(functions)), make([]bool, len(functions))
	for f, function := range functions {
		c.touched[f] = c.options.Touched(function)
		c.weighted[f] = c.touched[f]
	}
	t := c.calls
	if t == nil {
		return
	}
	touched, beside := make([]bool, len(t.frames)), make([]bool, len(t.frames))
	for id, function := range t.frames {
		touched[id] = c.options.Touched(function)
	}
	for r, run := range t.runs {
		for i, f := range run.counts.frames {
			beside[t.ids[r][i]] = beside[t.ids[r][i]] || f.beside
		}
	}
	t.each(func(_, leaf, frame int, x context) {
		if x.direct > 0 {
			beside[leaf] = beside[leaf] || touched[frame]
			beside[frame] = beside[frame] || touched[leaf]
		}
	})
	for id, f := range t.self {
		if f >= 0 {
			c.touched[f] = c.touched[f] || touched[id]
			c.weighted[f] = c.weighted[f] || touched[id] || beside[id]
		}
	}
}

// weight returns the weight of function f in the Benjamini-Hochberg procedure.
func (c *comparison) weight(f int) float64 {
	w := 1.0
	if c.options.Weight != nil {
		w = c.options.Weight(c.matrix.functions[f])
	}
	if c.weighted != nil && c.weighted[f] {
		w *= TouchedWeight
	}
	return w
}
