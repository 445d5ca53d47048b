package bpf

import (
	"slices"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	tests := []struct {
		list string
		want []int
	}{
		{"0\n", []int{0}},
		{"0-3\n", []int{0, 1, 2, 3}},
		{"0,2-3,7", []int{0, 2, 3, 7}},
		{"", nil},
		{"3-1", nil},
		{"0-", nil},
		{"0-99999", nil},
		{"-1", nil},
		{"a", nil},
	}
	for _, test := range tests {
		got, err := parseCPUs(test.list)
		if !slices.Equal(got, test.want) || (err == nil) != (test.want != nil) {
			t.Errorf("parseCPUs(%q) = %v, %v, want %v", test.list, got, err, test.want)
		}
	}
}
