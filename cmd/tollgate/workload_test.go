package main

import (
	"strings"
	"testing"
)

func TestFixedTimeKnowsGoBenchmarks(t *testing.T) {
	for _, tt := range []struct {
		command string
		want    bool
	}{
		{"go test -bench . ./...", true},
		{"go test -bench=Parse -benchtime 2s .", true},
		{"go test -bench=Parse -benchtime=2s .", true},
		{"go test -bench=Parse -benchtime=200x .", false},
		{"go test --bench=Parse --benchtime 200x .", false},
		{"go test -test.bench=Parse .", true},
		{"./parse.test -test.bench Parse", true},
		{"./parse.test -test.bench Parse -test.benchtime 100x", false},
		{"/usr/local/go/bin/go test ./...", false},
		{"go build -bench", false},
		{"./program -bench all", false},
		{"go", false},
	} {
		if got := fixedTime(strings.Fields(tt.command)); got != tt.want {
			t.Errorf("fixedTime(%q) = %v, want %v", tt.command, got, tt.want)
		}
	}
}

func TestBuildsFirstKnowsCommandsThatCompile(t *testing.T) {
	for command, want := range map[string]bool{
		"go test ./...":            true,
		"/usr/local/go/bin/go run": true,
		"cargo bench":              true,
		"go version":               false,
		"go":                       false,
		"./parse.test -test.run x": false,
		"make test":                false,
	} {
		if got := buildsFirst(strings.Fields(command)); got != want {
			t.Errorf("buildsFirst(%q) = %v, want %v", command, got, want)
		}
	}
}
