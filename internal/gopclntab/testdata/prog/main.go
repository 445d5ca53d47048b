// Program prog is the subject of the tests of package gopclntab. It holds
// what tables differ by: inlining two levels deep, type parameters, closures,
// methods behind interfaces, defer, assembly (of the runtime), and a file
// whose lines a directive renumbers.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
)

type shape interface{ area() float64 }

type square struct{ side float64 }

func (s square) area() float64 { return s.side * s.side }

type circle struct{ radius float64 }

func (c *circle) area() float64 { return scale(c.radius, c.radius) }

// scale and twice are small enough to be inlined, the one into the other.
func scale(a, b float64) float64 { return twice(a) * b * 1.5707963 }

func twice(a float64) float64 { return a + a }

func apply[T, U any](in []T, f func(T) U) []U {
	out := make([]U, 0, len(in))
	for _, v := range in {
		out = append(out, f(v))
	}
	return out
}

//go:noinline
func guarded(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("recovered: %v", r)
		}
	}()
	f()
	return nil
}

func main() {
	shapes := []shape{square{2}, &circle{1}, square{3}}
	areas := apply(shapes, func(s shape) float64 { return s.area() })
	sort.Float64s(areas)
	names := apply(areas, func(a float64) string { return strings.TrimSpace(fmt.Sprintf(" %.2f ", a)) })
	err := guarded(func() { fmt.Println(names[len(os.Args)+10]) })
	text, jsonErr := json.Marshal(map[string]interface{}{"areas": areas, "names": names, "error": fmt.Sprint(err)})
	if jsonErr != nil {
		os.Exit(1)
	}
	fmt.Println(string(text), renumbered(len(names)))
}
