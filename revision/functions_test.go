package revision

import "testing"

func TestFunctionsAreAsLongAsSamplesShow(t *testing.T) {
	s := newSandbox(t)
	s.write("lib/a.c", numbered(1, 40))
	base := s.commit("lib")
	// In head everything from line 6 on is five lines further down, and line 20 of base is new.
	s.write("src/a.c", edited(1, 40, map[int]string{5: "line 5\n1\n2\n3\n4\n5\n", 20: "changed\n"}))
	c := s.changes(s.open(), base)
	f := c.Functions()
	add := func(side Side, name, file string, lines ...int) {
		for _, line := range lines {
			f.Add(side, name, file, line)
		}
	}
	add(BaseSide, "before", "src/a.c", 1, 3)
	add(HeadSide, "before", "src/a.c", 1, 3)
	add(BaseSide, "around", "src/a.c", 22, 18)
	add(HeadSide, "around", "src/a.c", 0, 27, 23)
	add(HeadSide, "moved", "src/a.c", 30, 35) // lines 25 to 30 of base
	add(BaseSide, "moved", "src/a.c", 25, 30)
	add(BaseSide, "gone", "src/a.c", 20)
	add(HeadSide, "same", "lib/a.c", 18, 22)
	add(HeadSide, "twice", "lib/b.c", 18, 22)
	add(HeadSide, "twice", "src/a.c", 23, 27)
	add(HeadSide, "nowhere", "", 23, 27)
	for _, tt := range []struct {
		name, file string
		want       bool
	}{
		{"before", "src/a.c", false},
		{"around", "src/a.c", true},
		{"around", "", true},
		{"moved", "src/a.c", false},
		{"gone", "src/a.c", true},
		{"same", "lib/a.c", false},
		{"twice", "lib/b.c", false},
		{"twice", "/build/src/a.c", true},
		{"nowhere", "", false},
		{"unknown", "src/a.c", false},
	} {
		if got := f.Touched(tt.name, tt.file); got != tt.want {
			t.Errorf("%s in %s: %v", tt.name, tt.file, got)
		}
	}
}
