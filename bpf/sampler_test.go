package bpf

import (
	"os"
	"testing"
)

// requirePrivileges skips tests that load programs where that is not possible.
func requirePrivileges(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("TOLLGATE_REQUIRE_PRIVILEGED") != "" {
		t.Fatal("needs root, to load BPF programs")
	}
	t.Skip("needs root, to load BPF programs")
}

// load loads a sampler that is closed with the test.
func load(t testing.TB, options Options) *Sampler {
	t.Helper()
	requirePrivileges(t)
	s, err := Load(options)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}
