package main

import (
	"math"
	"math/bits"
)

// sketch estimates how many different addresses it has seen (HyperLogLog).
type sketch struct {
	ranks [1024]uint8
}

func (s *sketch) add(address uint32) {
	h := mix(uint64(address))
	slot := h & uint64(len(s.ranks)-1)
	rank := uint8(bits.LeadingZeros64(h|uint64(len(s.ranks)-1)) + 1)
	s.ranks[slot] = max(s.ranks[slot], rank)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s *sketch) estimate() int {
	sum, empty := 0.0, 0
	for _, rank := range s.ranks {
		sum += math.Ldexp(1, -int(rank))
		if rank == 0 {
			empty++
		}
	}
	n := float64(len(s.ranks))
	estimate := 0.7213 / (1 + 1.079/n) * n * n / sum
	if estimate < 2.5*n && empty > 0 {
		estimate = n * math.Log(n/float64(empty))
	}
	return int(estimate + 0.5)
}
