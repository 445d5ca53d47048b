package capture

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/tollgate-dev/tollgate/symbol"
	"github.com/tollgate-dev/tollgate/unwind"
)

// kernelMapping is the name of the kernel's mapping in a profile.
const kernelMapping = "[kernel.kallsyms]"

// builder assembles the profile of one run.
type builder struct {
	profile   *profile.Profile
	tables    *tables
	kernel    *kernelSymbols
	period    int64
	functions map[functionKey]*profile.Function
	locations map[locationKey]*profile.Location
	frames    map[uint64]frameLocation // what userLocation found
	mappings  map[any]*profile.Mapping
	cgroups   map[uint64]string
	labels    map[labels]*sampleLabels

	unsymbolized uint64 // target samples whose leaf has no function name
}

type frameLocation struct {
	location *profile.Location
	named    bool
}

type functionKey struct {
	name, system, file string
	start              int64
}

// locationKey is an address in an object, or a name in the kernel, or a
// synthetic name.
type locationKey struct {
	object *object
	addr   uint64
	name   string
	module string
}

// newProfile returns an empty profile of samples taken at frequency Hz.
func newProfile(frequency int, startTime, duration int64) *profile.Profile {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	return &profile.Profile{
		SampleType:        []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		DefaultSampleType: "cpu",
		PeriodType:        cpu,
		Period:            1e9 / int64(frequency),
		TimeNanos:         startTime,
		DurationNanos:     duration,
	}
}

func newBuilder(p *profile.Profile, t *tables, k *kernelSymbols) *builder {
	return &builder{
		profile: p, tables: t, kernel: k, period: p.Period,
		functions: map[functionKey]*profile.Function{},
		locations: map[locationKey]*profile.Location{},
		frames:    map[uint64]frameLocation{},
		mappings:  map[any]*profile.Mapping{},
		cgroups:   map[uint64]string{},
		labels:    map[labels]*sampleLabels{},
	}
}

// wanted returns the file offsets that stacks mention, by object.
func (b *builder) wanted(list []*stack) map[*object][]uint64 {
	b.tables.mu.Lock()
	defer b.tables.mu.Unlock()
	seen := map[uint64]struct{}{}
	out := map[*object][]uint64{}
	for _, s := range list {
		for _, frame := range s.user {
			if _, known := seen[frame]; known {
				continue
			}
			seen[frame] = struct{}{}
			if f := b.tables.file(uint16(frame >> fileShift)); f != nil && f.object != nil {
				out[f.object] = append(out[f.object], frame&offsetMask)
			}
		}
	}
	return out
}

// build adds all stacks to the profile. Symbols must have been resolved.
func (b *builder) build(list []*stack) error {
	b.tables.mu.Lock()
	defer b.tables.mu.Unlock()
	// The first mapping is the profile's main program.
	if main := b.mainObject(list); main != nil {
		b.mapping(main)
	}
	for _, s := range list {
		b.add(s)
	}
	b.mainMapping(list)
	if err := b.profile.CheckValid(); err != nil {
		return fmt.Errorf("build profile: %w", err)
	}
	return nil
}

// mainMapping puts the program that most target samples ran in first, where
// pprof looks for the name of what was profiled. Libraries do not count: a
// program may spend all of its time in one.
func (b *builder) mainMapping(list []*stack) {
	weight := map[*object]uint64{}
	var first *object
	for _, s := range list {
		if !s.target {
			continue
		}
		counted := map[*object]bool{}
		for _, frame := range s.user {
			f := b.tables.file(uint16(frame >> fileShift))
			if f == nil || f.object == nil || counted[f.object] || strings.Contains(filepath.Base(f.object.path), ".so") {
				continue
			}
			counted[f.object] = true
			weight[f.object] += s.count
			if first == nil || weight[f.object] > weight[first] {
				first = f.object
			}
		}
	}
	at := slices.Index(b.profile.Mapping, b.mappings[first])
	if first == nil || at < 0 {
		return
	}
	main := b.profile.Mapping[at]
	b.profile.Mapping = slices.Insert(slices.Delete(b.profile.Mapping, at, at+1), 0, main)
	for i, m := range b.profile.Mapping {
		m.ID = uint64(i + 1)
	}
}

// mainObject is the file in which the target spent most.
func (b *builder) mainObject(list []*stack) *object {
	counts := map[*object]uint64{}
	var main *object
	for _, s := range list {
		if !s.target || len(s.user) == 0 {
			continue
		}
		f := b.tables.file(uint16(s.user[0] >> fileShift))
		if f == nil || f.object == nil {
			continue
		}
		if counts[f.object] += s.count; main == nil || counts[f.object] > counts[main] {
			main = f.object
		}
	}
	return main
}

func (b *builder) add(s *stack) {
	sample := &profile.Sample{
		Value:    []int64{int64(s.count), int64(s.count) * b.period},
		Location: make([]*profile.Location, 0, len(s.kernel)+len(s.user)+1),
	}
	named := false
	for i, addr := range s.kernel {
		location, ok := b.kernelLocation(addr)
		sample.Location = append(sample.Location, location)
		named = named || i == 0 && ok
	}
	for i, frame := range s.user {
		found, known := b.frames[frame]
		if !known {
			found.location, found.named = b.userLocation(frame)
			b.frames[frame] = found
		}
		sample.Location = append(sample.Location, found.location)
		named = named || i == 0 && len(s.kernel) == 0 && found.named
	}
	if root := rootName(s.reason); root != "" {
		sample.Location = append(sample.Location, b.synthetic(root))
		named = named || len(s.kernel)+len(s.user) == 0
	}
	if len(sample.Location) == 0 {
		sample.Location = append(sample.Location, b.synthetic("[no stack]"))
	}
	if s.target && !named {
		b.unsymbolized += s.count
	}
	b.label(sample, s)
	b.profile.Sample = append(b.profile.Sample, sample)
}

// rootName is the synthetic outermost frame of a stack that ends early, which
// keeps such samples apart from complete ones; "" for those that end where
// they should.
func rootName(reason unwind.StopReason) string {
	switch reason {
	case unwind.StopComplete, unwind.StopKernelThread:
		return ""
	case unwind.StopNoMM:
		return "[exit]"
	case unwind.StopInExec:
		return "[exec]"
	}
	return "[truncated: " + reason.String() + "]"
}

// sampleLabels are labels as a profile has them: strings for names, numbers
// for numbers.
type sampleLabels struct {
	names   map[string][]string
	numbers map[string][]int64
	units   map[string][]string
}

// label sets the labels of a sample. Samples with equal labels share them:
// written out for each, they would take several times the stacks.
func (b *builder) label(sample *profile.Sample, s *stack) {
	shared := b.labels[s.labels]
	if shared == nil {
		shared = b.newLabels(s.labels)
		b.labels[s.labels] = shared
	}
	sample.Label, sample.NumLabel, sample.NumUnit = shared.names, shared.numbers, shared.units
}

func (b *builder) newLabels(l labels) *sampleLabels {
	out := &sampleLabels{names: map[string][]string{"comm": {l.comm}}}
	if !l.target {
		return out
	}
	out.names["target"] = []string{"1"}
	if l.pid == 0 {
		return out // clipped: see stacks.add
	}
	out.names["thread"] = []string{l.thread}
	if path := b.cgroup(l.cgroup); path != "" {
		out.names["cgroup"] = []string{path}
	}
	out.numbers = map[string][]int64{
		"pid": {int64(l.pid)}, "tid": {int64(l.tid)}, "cpu": {int64(l.cpu)}, "second": {int64(l.second)},
	}
	out.units = map[string][]string{"second": {"seconds"}}
	return out
}

func (b *builder) cgroup(id uint64) string {
	path, known := b.cgroups[id]
	if !known && id != 0 {
		if path = cgroupPath("/sys/fs/cgroup", id); path == "" {
			path = strconv.FormatUint(id, 10)
		}
		b.cgroups[id] = path
	}
	return path
}

// kernelLocation is a function of the kernel. Addresses are left out: they
// change with every boot, and tell where the kernel is.
func (b *builder) kernelLocation(addr uint64) (location *profile.Location, ok bool) {
	name, module, ok := b.kernel.lookup(addr)
	if !ok {
		name, module = "[kernel]", ""
	}
	key := locationKey{name: name, module: module, addr: 1}
	if known := b.locations[key]; known != nil {
		return known, ok
	}
	file := kernelMapping
	if module != "" {
		file = "[" + module + "]"
	}
	mapping := b.mappings[file]
	if mapping == nil {
		mapping = b.addMapping(&profile.Mapping{File: file, HasFunctions: true})
		b.mappings[file] = mapping
	}
	return b.addLocation(key, &profile.Location{
		Mapping: mapping,
		Line:    []profile.Line{{Function: b.function(symbol.Line{Function: name, System: name})}},
	}), ok
}

// userLocation is an address in a mapped file, or an address in none.
func (b *builder) userLocation(frame uint64) (location *profile.Location, ok bool) {
	f := b.tables.file(uint16(frame >> fileShift))
	if f == nil {
		return b.synthetic("[anonymous]"), false
	}
	if g := b.tables.generated[f.id]; g != nil {
		if location := b.generatedLocation(g, frame&offsetMask); location != nil {
			return location, true
		}
	}
	if f.object == nil {
		name := filepath.Base(f.name)
		if f.name == "" {
			name = "unknown file"
		}
		return b.synthetic("[" + name + "]"), false
	}
	o := f.object
	r, resolved := o.symbols.lines[frame&offsetMask]
	if !resolved {
		r.vaddr = frame & offsetMask
	}
	key := locationKey{object: o, addr: r.vaddr}
	if known := b.locations[key]; known != nil {
		return known, len(r.lines) > 0
	}
	mapping := b.mapping(o)
	location = &profile.Location{Mapping: mapping, Address: r.vaddr}
	for _, line := range r.lines {
		location.Line = append(location.Line, profile.Line{
			Function: b.function(line), Line: int64(line.Line), Column: int64(line.Column),
		})
		mapping.HasFilenames = mapping.HasFilenames || line.File != ""
		mapping.HasLineNumbers = mapping.HasLineNumbers || line.Line != 0
	}
	mapping.HasInlineFrames = mapping.HasInlineFrames || len(r.lines) > 1
	if len(r.lines) == 0 {
		location.Line = []profile.Line{{Function: b.function(symbol.Line{Function: "[" + filepath.Base(o.path) + "]"})}}
	}
	return b.addLocation(key, location), len(r.lines) > 0
}

func (b *builder) mapping(o *object) *profile.Mapping {
	mapping := b.mappings[o]
	if mapping == nil {
		mapping = b.addMapping(&profile.Mapping{
			Start: o.symbols.start, Limit: o.symbols.limit, Offset: o.symbols.offset,
			File: o.path, BuildID: o.buildID, HasFunctions: true,
		})
		b.mappings[o] = mapping
	}
	return mapping
}

// synthetic is a frame that stands for no code.
func (b *builder) synthetic(name string) *profile.Location {
	key := locationKey{name: name}
	if known := b.locations[key]; known != nil {
		return known
	}
	return b.addLocation(key, &profile.Location{
		Line: []profile.Line{{Function: b.function(symbol.Line{Function: name, System: name})}},
	})
}

func (b *builder) function(line symbol.Line) *profile.Function {
	key := functionKey{line.Function, line.System, line.File, int64(line.StartLine)}
	if known := b.functions[key]; known != nil {
		return known
	}
	f := &profile.Function{
		ID: uint64(len(b.profile.Function) + 1), Name: line.Function, SystemName: line.System,
		Filename: line.File, StartLine: int64(line.StartLine),
	}
	b.functions[key] = f
	b.profile.Function = append(b.profile.Function, f)
	return f
}

func (b *builder) addLocation(key locationKey, l *profile.Location) *profile.Location {
	l.ID = uint64(len(b.profile.Location) + 1)
	b.locations[key] = l
	b.profile.Location = append(b.profile.Location, l)
	return l
}

func (b *builder) addMapping(m *profile.Mapping) *profile.Mapping {
	m.ID = uint64(len(b.profile.Mapping) + 1)
	b.profile.Mapping = append(b.profile.Mapping, m)
	return m
}
