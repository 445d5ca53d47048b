package diff

import (
	"fmt"
	"math"
	"slices"
)

// decide lists the findings and gives the verdict.
func (c *comparison) decide() {
	res := c.result
	c.find()
	switch {
	case res.Advisory:
		c.conclude(Inconclusive, ReasonAdvisory, "One run a side shows effects, but not whether they are more than noise.")
	case c.hasWarning(WarnZeroVariance):
		c.conclude(Inconclusive, ReasonZeroVariance, "The runs of a side do not differ, so that chance cannot be judged.")
	case c.hasWarning(WarnNoCommon):
		c.conclude(Inconclusive, ReasonNotComparable, "The sides have next to no functions in common.")
	case c.meanLogRatio() < -math.Log(farLess):
		c.conclude(Inconclusive, ReasonNotComparable, "Head took less than a %s of base's CPU: it did not do the same work.", "fifth")
	case c.failing() != nil:
		c.decideFailing(*c.failing())
	case res.Total.Tested && res.Total.P <= res.TotalAlpha && c.excuseTotal() == "":
		// No single function, and find has said what moved.
		c.decideTotal()
	default:
		c.decideBounds()
	}
	res.Stop = c.stop()
}

func (c *comparison) conclude(v Verdict, code, format string, args ...any) {
	c.result.Verdict = v
	c.result.Reason = Reason{Code: code, Text: fmt.Sprintf(format, args...)}
}

// find lists the findings, failing first.
func (c *comparison) find() {
	res := c.result
	if res.Advisory {
		return
	}
	for _, d := range res.Functions {
		switch {
		case !d.Tested:
		case d.Q <= res.FunctionAlpha:
			f := c.finding(d, Regression, Fails, d.P, d.Q)
			failEffect, excuse := c.options.limits(d.Function).FailEffect, c.options.excuse(d.Function, d.CI.Low)
			switch {
			case d.Shifted:
				f.Kind, f.Severity, f.Text = CostShift, Warns, d.domain.text(c.options)
			case excuse != "":
				f.Severity, f.Text = Warns, excuse
			case d.LayoutQ > res.FunctionAlpha:
				f.Severity, f.Text = Warns, layoutText
			case d.Effect < failEffect:
				f.Severity = Warns
				f.Text = fmt.Sprintf("the growth is significant, and smaller than the %.2f pp that fail the gate", 100*failEffect)
			}
			res.Findings = append(res.Findings, f)
		case d.QImprove <= res.FunctionAlpha && d.Effect <= -c.options.FailEffect:
			f := c.finding(d, Improvement, Informs, d.PImprove, d.QImprove)
			if d.Shifted {
				f.Kind, f.Text = CostShift, d.domain.text(c.options)
			}
			res.Findings = append(res.Findings, f)
		}
	}
	c.findFamilies()
	c.findUniform()
	c.explain()
	slices.SortStableFunc(res.Findings, byBlame)
}

func (c *comparison) finding(d Delta, kind Kind, severity Severity, p, q float64) Finding {
	f := Finding{
		Kind: kind, Severity: severity,
		Function: d.Name, SystemName: d.SystemName, File: d.File, Line: d.Line, Object: d.Object, kernel: d.Kernel,
		Effect: d.Effect, CI: d.CI, P: p, Q: q, ShareBase: d.ShareBase, ShareHead: d.ShareHead,
		Runs: c.matrix.runs(), DF: d.DF, Touched: d.Touched,
	}
	if d.Was != "" {
		f.Text = "base calls it " + d.Was
	}
	return f
}

// findUniform adds a change of the total that no function accounts for.
func (c *comparison) findUniform() {
	res, t := c.result, c.result.Total
	explained := func(kind Kind) bool {
		return slices.ContainsFunc(res.Findings, func(f Finding) bool { return f.Kind == kind && f.Severity != Warns })
	}
	f := Finding{Kind: Uniform, Effect: t.Effect, CI: t.CI, ShareBase: 1, ShareHead: 1 + t.Effect, Runs: c.matrix.runs(), DF: t.DF}
	switch {
	case !t.Tested:
		return
	case t.P <= res.TotalAlpha && !explained(Regression):
		f.Severity, f.P, f.Q = Warns, t.P, t.P
		if c.trusted() && !t.AnchorMoved {
			f.Severity = Fails
		}
	case t.PImprove <= res.TotalAlpha && !explained(Improvement):
		f.Severity, f.P, f.Q = Informs, t.PImprove, t.PImprove
	default:
		return
	}
	if excuse := c.excuseTotal(); excuse != "" && f.Severity != Informs {
		f.Severity, f.Text = Warns, excuse
		res.Findings = append(res.Findings, f)
		return
	}
	f.Text = "no single function accounts for it"
	if t.ReferenceEffect*t.Effect > 0 && math.Abs(t.ReferenceEffect) > math.Abs(t.Effect)/2 {
		f.Text = "all functions share it"
	}
	res.Findings = append(res.Findings, f)
}

// failing returns the first finding on a function or a group that fails the
// gate.
func (c *comparison) failing() *Finding {
	for i, f := range c.result.Findings {
		if f.Kind == Regression && f.Severity == Fails {
			return &c.result.Findings[i]
		}
	}
	return nil
}

// decideFailing fails for a function, unless it was judged by its absolute CPU
// and the machine may have changed.
func (c *comparison) decideFailing(f Finding) {
	t := c.result.Total
	moved := t.HasAnchor && t.AnchorEffect > 0 && (t.AnchorP < 0.1 || t.AnchorEffect >= c.options.TotalMinEffect)
	if !c.reference.Stable && (!c.trusted() || moved) {
		for i := range c.result.Findings {
			if c.result.Findings[i].Severity == Fails {
				c.result.Findings[i].Severity = Warns
				c.result.Findings[i].Text = "judged by absolute CPU, and the machine may have changed"
			}
		}
		c.conclude(Inconclusive, ReasonMachine, "Most functions moved, and nothing tells whether the program or the machine changed.")
		return
	}
	c.conclude(Fail, ReasonRegression, "%s costs %+.2f pp of the baseline's CPU more (%.0f %% interval %+.2f to %+.2f).",
		f.Subject(), 100*f.Effect, 100*c.options.Confidence, 100*f.CI.Low, 100*f.CI.High)
}

// decideTotal judges a total that is up while no function is to blame.
func (c *comparison) decideTotal() {
	t := c.result.Total
	switch {
	case c.sampled:
		c.conclude(Inconclusive, ReasonTotalSampled, "The samples add up to %+.1f %% CPU, but its exact amount was not measured.", 100*t.Effect)
	case !c.trusted():
		c.conclude(Inconclusive, ReasonUnanchored, "The total is up by %.1f %%, and nothing tells a slower program from a slower machine.", 100*t.Effect)
	case t.AnchorMoved:
		c.conclude(Inconclusive, ReasonMachine, "The total is up by %.1f %%, and the calibration kernel by %.1f %%: the machine changed.", 100*t.Effect, 100*t.AnchorEffect)
	default:
		c.conclude(Fail, ReasonUniform, "The total is up by %.1f %% (%.0f %% interval %+.1f to %+.1f) and no single function accounts for it.",
			100*t.Effect, 100*c.options.Confidence, 100*t.CI.Low, 100*t.CI.High)
	}
}

// decideBounds passes when every upper bound rules out what matters.
func (c *comparison) decideBounds() {
	res, o := c.result, c.options
	widest := -1
	for i, d := range res.Functions {
		if !d.Shifted && d.Upper >= o.limits(d.Function).Equivalence && o.excuse(d.Function, d.CI.Low) == "" && (widest < 0 || d.Upper > res.Functions[widest].Upper) {
			widest = i
		}
	}
	t := res.Total
	switch {
	case widest >= 0:
		d := res.Functions[widest]
		c.conclude(Inconclusive, ReasonWide, "Growth of %s by %.2f pp cannot be ruled out (bound %.2f pp).",
			d.Name, 100*o.limits(d.Function).Equivalence, 100*d.Upper)
	case t.Upper-c.excused() >= o.TotalEquivalence && o.excuse(Function{}, t.CI.Low) == "":
		c.conclude(Inconclusive, ReasonWide, "Growth of the total by %.1f %% cannot be ruled out (bound %.1f %%).",
			100*o.TotalEquivalence, 100*t.Upper)
	default:
		c.conclude(Pass, ReasonRuledOut, "Growth of any function by %.2f pp and of the total by %.1f %% is ruled out.",
			100*o.Equivalence, 100*o.TotalEquivalence)
	}
}

func (c *comparison) hasWarning(code string) bool {
	return slices.ContainsFunc(c.warnings, func(w Warning) bool { return w.Code == code })
}

// stop says whether a sequence ends here: at the first fail or pass, when
// nothing hints at a regression, and at the last look.
func (c *comparison) stop() Stop {
	res, o := c.result, c.options
	switch {
	case res.Verdict == Fail:
		return StopFail
	case res.Verdict == Pass:
		return StopPass
	case o.Look == 0 || o.Look == len(o.Looks):
		return StopExhausted
	}
	least := 1.0
	if res.Total.Tested {
		least = res.Total.P
	}
	for _, d := range res.Functions {
		if d.Tested {
			least = math.Min(least, d.P)
		}
	}
	for _, g := range res.Groups {
		if g.Growth {
			least = math.Min(least, g.P)
		}
	}
	if !res.Advisory && least >= o.FutilityP {
		return StopFutile
	}
	return StopContinue
}
