package main

import (
	"strings"
	"testing"
)

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
