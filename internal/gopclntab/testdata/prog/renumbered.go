package main

//go:noinline
func renumbered(n int) int {
	total := 0
	for i := 0; i < n; i++ {
//line grammar.y:1000
		total += square1(i)
	}
	return total
}

func square1(i int) int {
	return i * i
}
