package main

import "math/rand/v2"

// side is one of the two programs that a comparison runs in turn.
type side int

const (
	base side = iota
	head
)

func (s side) String() string {
	if s == base {
		return "base"
	}
	return "head"
}

// schedule gives the order in which the pairs of a comparison run.
//
// Two pairs make a block, ABBA or BAAB, which cancels a linear drift of the machine inside the block;
// which of the two is drawn at random, so that no rhythm of the machine can follow it. The same seed
// gives the same order.
type schedule struct {
	random *rand.Rand
	first  side // of the pair to come
	second bool // the pair to come is the second of its block
}

func newSchedule(seed uint64) *schedule {
	return &schedule{random: rand.New(rand.NewPCG(seed, 0x746f6c6c67617465))}
}

// next returns the order of the next pair.
func (s *schedule) next() [2]side {
	if s.second {
		s.first = 1 - s.first
	} else {
		s.first = side(s.random.IntN(2))
	}
	s.second = !s.second
	return [2]side{s.first, 1 - s.first}
}
