// Command gofixture is built by the tests: generics, closures, methods and
// calls that the compiler inlines several deep.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
)

type tree[K any] struct {
	left, right *tree[K]
	key         K
}

func (t *tree[K]) insert(key K, less func(a, b K) bool) *tree[K] {
	if t == nil {
		return &tree[K]{key: key}
	}
	if less(key, t.key) {
		t.left = t.left.insert(key, less)
	} else {
		t.right = t.right.insert(key, less)
	}
	return t
}

func (t *tree[K]) walk(visit func(K)) {
	if t != nil {
		t.left.walk(visit)
		visit(t.key)
		t.right.walk(visit)
	}
}

func square(n int) int { return n * n }

func sum(values []int) (total int) {
	for _, v := range values {
		total += twice(square(v))
	}
	return total
}

func twice(n int) int { return add(n, n) }

func add(a, b int) int { return a + b }

func main() {
	var root *tree[string]
	for _, word := range strings.Fields("the quick brown fox jumps over the lazy dog") {
		root = root.insert(word, func(a, b string) bool { return a < b })
	}
	var words []string
	root.walk(func(word string) { words = append(words, word) })
	sort.Slice(words, func(i, j int) bool { return len(words[i]) < len(words[j]) })
	out, err := json.Marshal(map[string]any{"words": words, "sum": sum([]int{1, 2, len(os.Args)})})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(out))
}
