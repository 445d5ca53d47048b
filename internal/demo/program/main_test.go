package main

import (
	"testing"
	"time"
)

func TestParseReadsEveryField(t *testing.T) {
	var e entry
	line := `10.1.2.3 - - [29/Feb/2024:23:59:58 +0100] "GET /v2/Users/7?x=1 HTTP/1.1" 404 512 "https://Shop.example.com:443/a" "curl/8.8.0" 1500`
	if err := e.parse([]byte(line)); err != nil {
		t.Fatal(err)
	}
	want := time.Date(2024, time.February, 29, 22, 59, 58, 0, time.UTC).Unix()
	if e.address != 0x0a010203 || e.seconds != want || string(e.method) != "GET" || string(e.path) != "/v2/Users/7" ||
		e.status != 404 || e.size != 512 || string(e.referrer) != "shop.example.com" || string(e.agent) != "curl/8.8.0" || e.micros != 1500 {
		t.Errorf("entry is %+v, its time should be %d", e, want)
	}
	for _, bad := range []string{"", "10.1.2 - - [", line[:40], "256.1.2.3" + line[8:]} {
		if err := e.parse([]byte(bad)); err == nil {
			t.Errorf("%q is no line, and there is no error", bad)
		}
	}
}

func TestPathKey(t *testing.T) {
	for path, want := range map[string]string{
		"/v2/Users/12":     "/v2/users/:id",
		"//a//7/":          "/a/:id",
		"/":                "",
		"/orders/7a/items": "/orders/7a/items",
	} {
		if got := string(pathKey(nil, []byte(path))); got != want {
			t.Errorf("pathKey(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestAnalyzeCountsEveryLine(t *testing.T) {
	s := newStats()
	if err := analyze(generateLog(1000), s); err != nil {
		t.Fatal(err)
	}
	routed := 0
	for _, r := range s.routes {
		routed += r.requests
		if median, p99 := r.quantile(0.5), r.quantile(0.99); median < 200 || p99 < median {
			t.Errorf("%s: median %d, p99 %d", r.name, median, p99)
		}
	}
	if s.requests != 1000 || routed != 1000 {
		t.Errorf("%d requests, %d of them on routes, want 1000", s.requests, routed)
	}
	if n := s.clients.estimate(); n < 950 || n > 1050 {
		t.Errorf("%d clients estimated, about 1000 are in the log", n)
	}
}
