package unwind

import (
	"slices"
	"sync"
)

// MaxRules is the number of rules a RuleSet holds at most: a row has 16 bits
// for the index. A whole distribution of binaries needs about 6,000.
const MaxRules = 1 << 16

// RuleSet interns rules across files. Rules are only ever added, so an index
// stays valid and the tail can be sent to the kernel as it grows. Index 0 is
// the zero Rule. It is safe for concurrent use.
type RuleSet struct {
	mu    sync.RWMutex
	index map[Rule]uint16
	rules []Rule

	// compilers keeps the buffers of finished table builds for the next one.
	compilers sync.Pool
}

// NewRuleSet returns a set that holds the zero Rule.
func NewRuleSet() *RuleSet {
	return &RuleSet{index: map[Rule]uint16{{}: 0}, rules: []Rule{{}}}
}

// Index returns the index of rule, adding it when it is new. ok is false when
// the set is full.
func (s *RuleSet) Index(rule Rule) (index uint16, ok bool) {
	s.mu.RLock()
	index, ok = s.index[rule]
	s.mu.RUnlock()
	if ok {
		return index, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if index, ok = s.index[rule]; ok {
		return index, true
	}
	if len(s.rules) >= MaxRules {
		return 0, false
	}
	index = uint16(len(s.rules))
	s.rules = append(s.rules, rule)
	s.index[rule] = index
	return index, true
}

// At returns the rule with the given index, the zero Rule where there is none.
func (s *RuleSet) At(index uint16) Rule {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if int(index) >= len(s.rules) {
		return Rule{}
	}
	return s.rules[index]
}

// Len returns the number of rules, at least 1.
func (s *RuleSet) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.rules)
}

// Rules returns a copy of the rules from index from on.
func (s *RuleSet) Rules(from int) []Rule {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if from < 0 || from >= len(s.rules) {
		return nil
	}
	return slices.Clone(s.rules[from:])
}

// compiler returns an empty compiler that interns into s.
func (s *RuleSet) compiler() *compiler {
	if c, ok := s.compilers.Get().(*compiler); ok {
		c.rows, c.spans, c.full, c.plts = c.rows[:0], c.spans[:0], false, 0
		return c
	}
	return &compiler{rules: s}
}
