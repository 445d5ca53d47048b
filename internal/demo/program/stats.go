package main

import "sort"

// stats is what the requests of a log add up to.
type stats struct {
	requests  int
	bytes     int
	first     int64 // seconds since 1970
	last      int64
	statuses  map[int]int
	agents    [agents]int
	hours     [24]int
	referrers map[string]*int
	routes    map[string]*route
	clients   sketch
}

// route is the requests to one path with one method.
type route struct {
	name     string
	requests int
	errors   int
	// durations is a histogram with eight buckets to every power of two of
	// microseconds.
	durations [256]int
}

func newStats() *stats {
	return &stats{statuses: make(map[int]int), referrers: make(map[string]*int), routes: make(map[string]*route)}
}

// add counts one request.
func (s *stats) add(e *entry, key []byte, from agent) {
	if s.requests == 0 || e.seconds < s.first {
		s.first = e.seconds
	}
	if e.seconds > s.last {
		s.last = e.seconds
	}
	s.requests++
	s.bytes += e.size
	s.statuses[e.status]++
	s.agents[from]++
	s.hours[e.seconds/3600%24]++
	if len(e.referrer) > 0 {
		n := s.referrers[string(e.referrer)]
		if n == nil {
			n = new(int)
			s.referrers[string(e.referrer)] = n
		}
		*n++
	}
	s.clients.add(e.address)

	var space [128]byte
	name := append(append(append(space[:0], e.method...), ' '), key...)
	r := s.routes[string(name)]
	if r == nil {
		r = &route{name: string(name)}
		s.routes[r.name] = r
	}
	r.requests++
	if e.status >= 500 {
		r.errors++
	}
	r.durations[bucket(e.micros)]++
}

// bucket returns the histogram's bucket of a duration.
func bucket(micros int) int {
	exponent := 0
	for micros >= 16 {
		micros >>= 1
		exponent++
	}
	return min(exponent*8+micros, 255)
}

// bucketFloor returns the least duration of a bucket.
func bucketFloor(bucket int) int {
	if bucket < 16 {
		return bucket
	}
	exponent := bucket/8 - 1
	return (8 + bucket%8) << exponent
}

// quantile returns the duration that the share q of requests stays below.
func (r *route) quantile(q float64) int {
	rank := int(q * float64(r.requests))
	for i, n := range r.durations {
		if rank -= n; rank < 0 {
			return bucketFloor(i)
		}
	}
	return bucketFloor(len(r.durations) - 1)
}

// busiest returns the n routes with the most requests.
func (s *stats) busiest(n int) []*route {
	routes := make([]*route, 0, len(s.routes))
	for _, r := range s.routes {
		routes = append(routes, r)
	}
	sort.Slice(routes, func(i, j int) bool {
		if routes[i].requests != routes[j].requests {
			return routes[i].requests > routes[j].requests
		}
		return routes[i].name < routes[j].name
	})
	return routes[:min(n, len(routes))]
}
