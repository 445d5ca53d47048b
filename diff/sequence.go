package diff

import "fmt"

// Schedule returns the looks of a sequence of at most pairs pairs: after 5, 10
// and 20 pairs, spending 0.1, 0.3 and 0.6 of every budget. A shorter sequence
// gives what is left to its last look. A longer one looks again whenever the
// pairs have doubled, and its looks from the 20th pair on share the 0.6 in
// proportion to their pairs.
func Schedule(pairs int) []Look {
	if pairs <= 0 {
		return nil
	}
	var looks []Look
	left := 1.0
	for _, early := range []struct {
		Look
		left float64
	}{{Look{5, 0.1}, 0.9}, {Look{10, 0.3}, 0.6}} {
		if pairs <= early.Pairs {
			break
		}
		looks, left = append(looks, early.Look), early.left
	}
	first, sum := len(looks), 0
	for at := 20; first == 2 && at < pairs; at *= 2 {
		looks = append(looks, Look{Pairs: at})
		sum += at
	}
	looks = append(looks, Look{Pairs: pairs})
	sum += pairs
	for i := first; i < len(looks); i++ {
		looks[i].Spend = left * float64(looks[i].Pairs) / float64(sum)
	}
	return looks
}

// Sequence drives a comparison that looks at the pairs as they come in and
// stops as soon as it can. Use: take runs until Next pairs are there, call
// Compare, and go on while the result's Stop is StopContinue.
type Sequence struct {
	options Options
	look    int // looks taken
}

// NewSequence returns a sequence of at most pairs pairs. o.Looks, where set,
// takes the place of Schedule.
func NewSequence(pairs int, o Options) (*Sequence, error) {
	if pairs < 1 {
		return nil, fmt.Errorf("plan looks: %d pairs", pairs)
	}
	o.Paired = true
	if o.Looks == nil {
		o.Looks = Schedule(pairs)
	}
	o.Look = 1
	if _, err := o.normalised(); err != nil {
		return nil, err
	}
	return &Sequence{options: o}, nil
}

// Looks returns all planned looks.
func (s *Sequence) Looks() []Look { return s.options.Looks }

// Next returns the number of pairs, from the start of the sequence, at which
// to call Compare next; 0 when no look is left.
func (s *Sequence) Next() int {
	if s.look >= len(s.options.Looks) {
		return 0
	}
	return s.options.Looks[s.look].Pairs
}

// Compare takes the next look at all pairs so far; base[i] and head[i] are
// pair i. Pairs that failed to run may be missing: the budget of a look belongs
// to the look, not to the number of pairs.
func (s *Sequence) Compare(base, head []Run) (*Result, error) {
	if s.Next() == 0 {
		return nil, fmt.Errorf("compare runs: all %d looks are taken", len(s.options.Looks))
	}
	o := s.options
	o.Look = s.look + 1
	result, err := Compare(base, head, o)
	if err == nil {
		s.look++
	}
	return result, err
}
