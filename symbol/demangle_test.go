package symbol

import (
	"strings"
	"testing"
)

func TestDemangle(t *testing.T) {
	tests := map[string]string{
		"main":                               "main",
		"heap_sort.cold":                     "heap_sort",
		"f.constprop.0":                      "f",
		"f.part.0.isra.3":                    "f",
		"f.llvm.123456789":                   "f",
		"f.123":                              "f.123", // a function within a function of C
		"a.b":                                "a.b",
		".hidden":                            ".hidden",
		"_ZN8geometry5Shape6scaledEi":        "geometry::Shape::scaled",
		"_ZN8geometry5Shape6scaledEd":        "geometry::Shape::scaled",
		"_ZNK8geometry9RectangleIiE4areaEv":  "geometry::Rectangle<int>::area",
		"_ZN5ShapeC2Ev":                      "Shape::Shape",
		"_ZSt4swapIiEvRT_S1_":                "std::swap<int>",
		"_ZN12_GLOBAL__N_19histogramEv.cold": "(anonymous namespace)::histogram",
		"_ZN4core3fmt5Write9write_fmt17h1234567890abcdefE": "core::fmt::Write::write_fmt",
		"_ZN4main17h1234567890abcdefE.llvm.42":             "main",
		"_RNvNtCs1234_7mycrate3foo3bar":                    "mycrate::foo::bar",
		"_ZNoSuchThing":                                    "_ZNoSuchThing",
		"_R":                                               "_R",
		"_ZN" + strings.Repeat("1a", maxMangled) + "Ev":    "_ZN" + strings.Repeat("1a", maxMangled) + "Ev",
		"runtime.mallocgc":                                 "runtime.mallocgc",
		"_ZN70_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$x$GT$4dropE": "_ZN70_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$x$GT$4dropE",
	}
	for system, want := range tests {
		if got := Demangle(system); got != want {
			t.Errorf("Demangle(%.60q) = %.60q, want %.60q", system, got, want)
		}
	}
}

func TestDemanglerForgets(t *testing.T) {
	var d demangler
	long := strings.Repeat("x", 1<<12)
	for i := range 3 * maxDemangled / len(long) {
		d.name(long + string(rune('a'+i%26)) + strings.Repeat("y", i%4096))
	}
	if d.bytes > maxDemangled+1<<16 {
		t.Errorf("%d bytes are remembered, want at most %d", d.bytes, maxDemangled)
	}
}
