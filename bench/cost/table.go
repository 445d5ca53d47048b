package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"time"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/internal/safeelf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// measureTables builds the tables of the largest shared objects of the machine
// and uploads a million rows.
func measureTables(ctx context.Context, _ options) ([]figure, error) {
	type build struct {
		path  string
		bytes int
	}
	var builds []build
	for _, pattern := range []string{"/usr/lib/*/lib*.so*", "/usr/lib/llvm-*/lib/lib*.so*", "/usr/lib/gcc/*/*/cc1plus"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			file, err := safeelf.Open(path)
			if err != nil {
				continue // links that lead nowhere, linker scripts
			}
			if section := file.Section(".eh_frame"); section != nil {
				builds = append(builds, build{path: path, bytes: int(section.FileSize)})
			}
			file.Close()
		}
	}
	sort.Slice(builds, func(i, j int) bool { return builds[i].bytes > builds[j].bytes })
	// Names of one file under several links have one size.
	var distinct []build
	for _, b := range builds {
		if len(distinct) < 6 && (len(distinct) == 0 || distinct[len(distinct)-1].bytes != b.bytes) {
			distinct = append(distinct, b)
		}
	}
	if len(distinct) == 0 {
		return nil, errors.New("no shared object with .eh_frame found")
	}
	rules := unwind.NewRuleSet()
	var bytes, rows int
	var seconds float64
	var stock []uint32
	for _, b := range distinct {
		best := 0.0
		var table *unwind.Table
		for range 3 {
			file, err := safeelf.Open(b.path)
			if err != nil {
				return nil, err
			}
			begin := time.Now()
			table, err = unwind.NewTable(file, rules)
			took := time.Since(begin).Seconds()
			file.Close()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", b.path, err)
			}
			if best == 0 || took < best {
				best = took
			}
		}
		bytes, rows, seconds = bytes+b.bytes, rows+len(table.Rows), seconds+best
		stock = append(stock, table.Rows...)
	}
	speed := float64(bytes) / 1e6 / seconds
	figures := []figure{
		{fmt.Sprintf("table build, %d files with %.1f MB of .eh_frame, one thread", len(distinct), float64(bytes)/1e6),
			fmt.Sprintf("%.0f MB/s", speed), ">= 300 MB/s", met(-speed, -300)},
		{"bytes a row", "4", "<= 4", "yes"},
		{"rules of these files", fmt.Sprint(rules.Len()), "", ""},
		{"rows of these files", fmt.Sprintf("%.2f M", float64(rows)/1e6), "", ""},
	}
	upload, err := measureUpload(stock)
	if err != nil {
		return figures, err
	}
	return append(figures, figure{"upload of a million rows", fmt.Sprintf("%.2f ms", 1e3*upload), "<= 1 ms", met(upload, 1e-3)}), ctx.Err()
}

// measureUpload returns the seconds that a million rows take into the kernel.
func measureUpload(stock []uint32) (float64, error) {
	const million = 1 << 20
	rows := make([]uint32, million)
	for i := range rows {
		rows[i] = stock[i%len(stock)]
	}
	sampler, err := bpf.Load(bpf.Options{})
	if err != nil {
		return 0, err
	}
	defer sampler.Close()
	// A page has at most as many rows as it has offsets.
	const most = 1 << 15
	var pages []bpf.Page
	for first := uint32(0); first < million; first += most {
		pages = append(pages, bpf.Page{First: first, Count: most})
	}
	var times []float64
	for range 10 {
		begin := time.Now()
		ref, err := sampler.LoadTable(rows, pages)
		if err != nil {
			return 0, err
		}
		times = append(times, time.Since(begin).Seconds())
		sampler.UnloadTable(ref)
	}
	return summarize(times).mid, nil
}
