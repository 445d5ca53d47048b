// Package spelling finds what somebody meant to write.
package spelling

import "unicode/utf8"

// maxWord bounds the words that are compared, in characters.
const maxWord = 200

// Nearest returns the candidate that differs least from word, "" when none is
// near: a third of the word's characters may be wrong, missing, too many or
// exchanged with their neighbour. Case does not count. The first of equals wins.
func Nearest(word string, candidates []string) string {
	n := utf8.RuneCountInString(word)
	if n > maxWord {
		return ""
	}
	best, least := "", max(1, n/3)+1
	for _, candidate := range candidates {
		if candidate == "" || utf8.RuneCountInString(candidate) > maxWord {
			continue
		}
		if d := distance(fold(word), fold(candidate)); d < least {
			best, least = candidate, d
		}
	}
	return best
}

func fold(s string) []rune {
	runes := []rune(s)
	for i, r := range runes {
		if 'A' <= r && r <= 'Z' {
			runes[i] = r - 'A' + 'a'
		}
	}
	return runes
}

// distance counts insertions, deletions, substitutions and exchanges of
// neighbours (optimal string alignment).
func distance(a, b []rune) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
