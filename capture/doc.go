// Package capture is the collector: it turns the records of package bpf into
// one symbolized pprof profile per run, with exact accounting beside it.
//
// Session is the privileged half. Serve offers a Session over a pair of
// streams, and Client is the unprivileged half that starts the collector,
// runs the wrapped command as its own child and fetches the profile. Needs
// what package bpf needs; the unprivileged half needs nothing.
package capture
