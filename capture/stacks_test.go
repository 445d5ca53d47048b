package capture

import (
	"testing"

	"github.com/tollgate-dev/tollgate/unwind"
)

func TestStacksAreToldApartByEveryLabel(t *testing.T) {
	base := stack{
		labels: labels{target: true, comm: "a", thread: "b", pid: 1, tid: 2, cpu: 3, cgroup: 4, second: 5},
		kernel: []uint64{10, 11}, user: []uint64{20, 21}, reason: unwind.StopNoRule,
	}
	table := newStacks()
	table.add(&base)
	for i, change := range []func(*stack){
		func(s *stack) { s.target = false }, func(s *stack) { s.comm = "c" }, func(s *stack) { s.thread = "c" },
		func(s *stack) { s.comm, s.thread = "ab", "" }, func(s *stack) { s.pid = 9 }, func(s *stack) { s.tid = 9 },
		func(s *stack) { s.cpu = 9 }, func(s *stack) { s.cgroup = 9 }, func(s *stack) { s.second = 9 },
		func(s *stack) { s.reason = unwind.StopBadPC }, func(s *stack) { s.user = []uint64{20} },
		func(s *stack) { s.kernel, s.user = []uint64{10}, []uint64{11, 20, 21} }, // where the kernel ends
	} {
		s := base
		change(&s)
		table.add(&s)
		table.add(&s)
		if len(table.list) != i+2 || table.list[i+1].count != 2 {
			t.Fatalf("change %d: %d stacks, the last seen %d times", i, len(table.list), table.list[len(table.list)-1].count)
		}
	}
	if table.list[0].count != 1 {
		t.Errorf("first stack seen %d times, want once", table.list[0].count)
	}
}

func TestStacksDoNotKeepTheCallersSlices(t *testing.T) {
	frames := []uint64{1, 2, 3}
	table := newStacks()
	table.add(&stack{user: frames})
	frames[0] = 99
	if table.list[0].user[0] != 1 {
		t.Error("a stored stack changed")
	}
}

func TestLabelsGoBeforeFrames(t *testing.T) {
	table := newStacks()
	table.maxBytes = 16 << 10
	for i := range uint64(10_000) {
		table.add(&stack{labels: labels{target: true, comm: "c", pid: 1, tid: uint32(i)}, user: []uint64{1, 2, 3 + i%3}})
	}
	var unlabelled uint64
	for _, s := range table.list {
		if len(s.user) != 3 {
			t.Fatalf("stack %v was cut", s.user)
		}
		if s.tid == 0 && s.pid == 0 {
			unlabelled += s.count
		}
	}
	if unlabelled != table.clipped && unlabelled != table.clipped+1 || unlabelled == 0 { // thread 0 is one
		t.Errorf("%d samples without labels, %d counted", unlabelled, table.clipped)
	}
}

func TestStacksAreBoundedAndNoSampleIsDropped(t *testing.T) {
	table := newStacks()
	table.maxBytes = 64 << 10
	const n = 100_000
	for i := range uint64(n) {
		table.add(&stack{
			labels: labels{target: true, comm: "c", pid: 1, tid: uint32(i)},
			user:   []uint64{i % 7, i, i + 1, i + 2},
		})
	}
	var sum uint64
	leaves := map[uint64]uint64{}
	for _, s := range table.list {
		sum += s.count
		leaves[s.user[0]] += s.count
	}
	if sum != n || len(leaves) != 7 || leaves[0] < n/7 {
		t.Errorf("%d samples of %d, by leaf %v", sum, n, leaves)
	}
	if table.bytes > 2*table.maxBytes || table.clipped == 0 {
		t.Errorf("%d bytes for a limit of %d, %d clipped", table.bytes, table.maxBytes, table.clipped)
	}
}

func TestStacksOutsideTheTargetAreBounded(t *testing.T) {
	table := newStacks()
	table.maxOutside = 16 << 10
	for i := range uint64(1000) {
		table.add(&stack{labels: labels{comm: "other"}, user: []uint64{i % 5, i, i + 1}})
		table.add(&stack{labels: labels{target: true, comm: "c", pid: 1}, user: []uint64{i % 5, i, i + 1}})
	}
	var outside, target, whole uint64
	for _, s := range table.list {
		switch {
		case !s.target:
			outside += s.count
		case len(s.user) == 3:
			whole += s.count
			fallthrough
		default:
			target += s.count
		}
	}
	if outside != 1000 || target != 1000 || whole != 1000 {
		t.Errorf("%d samples outside, %d of the target, %d of them whole; want 1000 of each", outside, target, whole)
	}
	if table.outside > 2*table.maxOutside || table.clipped == 0 {
		t.Errorf("%d bytes outside for a limit of %d, %d clipped", table.outside, table.maxOutside, table.clipped)
	}
}

// Stacks of one hash must not be taken for each other.
func TestStacksOfOneHash(t *testing.T) {
	table := newStacks()
	a := &stack{labels: labels{comm: "ab", thread: "c", target: true}, user: []uint64{1}}
	b := &stack{labels: labels{comm: "a", thread: "bc", target: true}, user: []uint64{1}}
	if table.hash(a) != table.hash(b) {
		t.Fatal("the hashes differ: choose other stacks")
	}
	table.add(a)
	table.add(b)
	table.add(a)
	if len(table.list) != 2 || table.list[0].count != 2 || table.list[1].count != 1 {
		t.Errorf("%d stacks, want two, seen twice and once", len(table.list))
	}
}
