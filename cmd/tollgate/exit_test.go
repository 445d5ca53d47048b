package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/baseline"
)

func TestConcludePrintsOneErrorAndOneHint(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		code int
		want string
	}{
		{"nothing", nil, 0, ""},
		{"a code alone", silent(3), 3, ""},
		{"a code alone, wrapped", fmt.Errorf("x: %w", silent(7)), 7, ""},
		{"a failure", fail(4, errors.New("load: denied"), "run as root"), 4,
			"tollgate: error: load: denied\ntollgate: hint: run as root\n"},
		{"a failure without a hint", fail(2, errors.New("bad"), ""), 2, "tollgate: error: bad\n"},
		{"a hint from below", fail(2, &baseline.Error{Op: "load", Object: "x", Err: errors.New("bad"), Advice: "look"}, ""), 2,
			"tollgate: error: load x: bad\ntollgate: hint: look\n"},
		{"no code", errors.New("odd"), 4, "tollgate: error: odd\n"},
		{"interrupted", fmt.Errorf("wait: %w", context.Canceled), 130, "tollgate: error: interrupted\n"},
		{"foreign lines and escapes", fail(2, errors.New("a\nb\x1b[31m\n"), ""), 2, "tollgate: error: a; b?[31m\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			if code := conclude(&out, tt.err); code != tt.code {
				t.Errorf("code = %d, want %d", code, tt.code)
			}
			if out.String() != tt.want {
				t.Errorf("printed %q, want %q", out.String(), tt.want)
			}
		})
	}
}
