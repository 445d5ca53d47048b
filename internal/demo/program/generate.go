package main

import (
	"strconv"
	"time"
)

// random is xorshift64*: every run of every version reads the same log.
type random uint64

func (r *random) next(n int) int {
	x := uint64(*r)
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*r = random(x)
	return int((x * 2685821657736338717) >> 33 % uint64(n))
}

// generateLog returns a log of n lines in the combined format, with the
// microseconds that each request took at the end of its line.
func generateLog(n int) []byte {
	var (
		methods   = []string{"GET", "GET", "GET", "GET", "POST", "PUT", "HEAD", "DELETE"}
		resources = []string{"users", "orders", "invoices", "products", "sessions", "reports"}
		views     = []string{"", "", "/summary", "/history/latest", "/items", "/Preferences"}
		queries   = []string{"", "", "?page=2", "?sort=name&limit=50", "?q=blue%20shoes"}
		statuses  = []int{200, 200, 200, 200, 200, 201, 204, 301, 304, 404, 500}
		referrers = []string{
			"-", "https://shop.example.com/cart", "https://www.example.com/", "https://search.example.net/find?q=shoes",
			"https://News.example.org/2024/07/sale.html",
		}
		agents = []string{
			"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
			"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
			"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
			"curl/8.8.0",
			"python-requests/2.32.3",
			"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		}
	)
	r := random(88172645463325252)
	now := time.Date(2024, time.July, 1, 0, 0, 0, 0, time.UTC)
	out := make([]byte, 0, 220*n)
	for i := 0; i < n; i++ {
		now = now.Add(time.Duration(r.next(900)) * time.Millisecond)
		for part := 0; part < 4; part++ {
			if part > 0 {
				out = append(out, '.')
			}
			out = strconv.AppendInt(out, int64(1+r.next(254)), 10)
		}
		out = append(out, " - - ["...)
		out = now.AppendFormat(out, "02/Jan/2006:15:04:05 -0700")
		out = append(out, "] \""...)
		out = append(out, methods[r.next(len(methods))]...)
		out = append(out, " /v2/"...)
		out = append(out, resources[r.next(len(resources))]...)
		out = append(out, '/')
		out = strconv.AppendInt(out, int64(r.next(100000)), 10)
		out = append(out, views[r.next(len(views))]...)
		out = append(out, queries[r.next(len(queries))]...)
		out = append(out, " HTTP/1.1\" "...)
		out = strconv.AppendInt(out, int64(statuses[r.next(len(statuses))]), 10)
		out = append(out, ' ')
		out = strconv.AppendInt(out, int64(r.next(40000)), 10)
		out = append(out, " \""...)
		out = append(out, referrers[r.next(len(referrers))]...)
		out = append(out, "\" \""...)
		out = append(out, agents[r.next(len(agents))]...)
		out = append(out, "\" "...)
		out = strconv.AppendInt(out, int64(200+r.next(300)*r.next(300)), 10)
		out = append(out, '\n')
	}
	return out
}
