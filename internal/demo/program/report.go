package main

import (
	"encoding/json"
	"io"
	"time"
)

// report is what the program prints.
type report struct {
	Requests  int             `json:"requests"`
	Bytes     int             `json:"bytes"`
	First     time.Time       `json:"first"`
	Last      time.Time       `json:"last"`
	Clients   int             `json:"clients"`
	Statuses  map[int]int     `json:"statuses"`
	Agents    map[string]int  `json:"agents"`
	Referrers map[string]*int `json:"referrers"`
	Hours     [24]int         `json:"hours"`
	Routes    []routeReport   `json:"routes"`
}

type routeReport struct {
	Route    string `json:"route"`
	Requests int    `json:"requests"`
	Errors   int    `json:"errors"`
	Median   int    `json:"median_us"`
	P99      int    `json:"p99_us"`
}

// writeReport prints the stats as JSON.
func writeReport(out io.Writer, s *stats) error {
	r := report{
		Requests: s.requests, Bytes: s.bytes,
		First: time.Unix(s.first, 0).UTC(), Last: time.Unix(s.last, 0).UTC(),
		Clients: s.clients.estimate(), Statuses: s.statuses, Agents: make(map[string]int), Referrers: s.referrers, Hours: s.hours,
	}
	for kind, n := range s.agents {
		r.Agents[agent(kind).String()] = n
	}
	for _, route := range s.busiest(10) {
		r.Routes = append(r.Routes, routeReport{
			Route: route.name, Requests: route.requests, Errors: route.errors,
			Median: route.quantile(0.5), P99: route.quantile(0.99),
		})
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
