package diff

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// measure says how a profile's values become samples.
type measure struct {
	index            int
	scale            float64 // samples per unit of value
	event            string
	unit             string // of period
	period           float64
	secondsPerSample float64 // 0 when the event is not time
	guessed          bool    // scale was guessed
}

// cpuTypes are sample types that measure CPU, best first. Profilers name them
// after the sampled event.
var cpuTypes = []string{"samples", "sample", "cpu", "cpu-clock", "task-clock", "on-cpu", "cycles", "cpu-cycles", "ref-cycles", "instructions"}

// heapTypes and waitTypes are the sample types of other kinds of profile, to
// name in errors.
var (
	heapTypes = []string{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "objects", "space"}
	waitTypes = []string{"contentions", "delay", "wall", "goroutine", "threadcreate", "block", "mutex", "off-cpu"}
)

// measureOf selects the values of p that measure CPU: want, or the best type
// there is.
func measureOf(p *profile.Profile, want string) (measure, error) {
	names := make([]string, len(p.SampleType))
	for i, t := range p.SampleType {
		names[i] = strings.ToLower(t.Type)
	}
	index := -1
	switch {
	case want != "":
		index = slices.Index(names, strings.ToLower(want))
		if index < 0 {
			return measure{}, fmt.Errorf("no sample type %q, only %s", want, listed(names))
		}
	case slices.ContainsFunc(names, func(n string) bool { return slices.Contains(heapTypes, n) }):
		return measure{}, fmt.Errorf("%w but a heap profile (sample types %s)", ErrNotCPU, listed(names))
	case slices.ContainsFunc(names, func(n string) bool { return slices.Contains(waitTypes, n) }):
		return measure{}, fmt.Errorf("%w but one of waiting or elapsed time (sample types %s)", ErrNotCPU, listed(names))
	default:
		for _, known := range cpuTypes {
			index = slices.IndexFunc(names, func(n string) bool {
				return n == known || strings.HasPrefix(n, known+"_") || strings.HasPrefix(n, known+":")
			})
			if index >= 0 {
				break
			}
		}
	}
	if index < 0 {
		return measure{}, fmt.Errorf("%w (sample types %s)", ErrNotCPU, listed(names))
	}
	return measureAt(p, index), nil
}

// measureAt works out the scale of the values at index.
func measureAt(p *profile.Profile, index int) measure {
	m := measure{index: index, scale: 1, event: strings.ToLower(p.SampleType[index].Type)}
	counts := p.SampleType[index].Unit == "count" || p.SampleType[index].Unit == ""
	if t := p.PeriodType; t != nil && p.Period > 0 {
		m.period, m.unit = float64(p.Period), t.Unit
		if counts {
			m.event = strings.ToLower(t.Type)
		}
	}
	if m.event == "samples" || m.event == "sample" || m.event == "" {
		m.event = "cpu"
	}
	nanoseconds, isTime := nanosecondsPer(m.unit)
	if isTime {
		m.secondsPerSample = m.period * nanoseconds / 1e9
	}
	if counts {
		return m
	}
	unit := p.SampleType[index].Unit
	switch perValue, valueIsTime := nanosecondsPer(unit); {
	case valueIsTime && isTime:
		m.scale = perValue / (m.period * nanoseconds)
	case m.period > 0 && m.unit == unit:
		m.scale = 1 / m.period
	default:
		// Without a period the least value is the best guess of one sample's
		// weight; too coarse a unit only makes the intervals wider.
		least := math.Inf(1)
		for _, s := range p.Sample {
			if index < len(s.Value) && s.Value[index] > 0 {
				least = math.Min(least, float64(s.Value[index]))
			}
		}
		m.guessed = true
		if !math.IsInf(least, 1) {
			m.scale, m.period, m.unit = 1/least, least, unit
			if valueIsTime {
				m.secondsPerSample = least * perValue / 1e9
			}
		}
	}
	return m
}

// nanosecondsPer returns the length of a unit of time.
func nanosecondsPer(unit string) (float64, bool) {
	switch unit {
	case "nanoseconds", "nanosecond", "ns":
		return 1, true
	case "microseconds", "microsecond", "us":
		return 1e3, true
	case "milliseconds", "millisecond", "ms":
		return 1e6, true
	case "seconds", "second", "s":
		return 1e9, true
	}
	return 0, false
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
