package main

import "strings"

// shellCommand returns the argument list that runs line as a shell would.
//
// A line of plain words is run directly, so that no shell appears in the profile and signals reach
// the program itself. Anything that only a shell understands goes to `sh -c`.
func shellCommand(line string) []string {
	if words, ok := plainWords(line); ok {
		return words
	}
	return []string{"sh", "-c", line}
}

// shellSpecial are the characters that mean something to a POSIX shell outside of quotes (XCU 2.2).
const shellSpecial = "|&;<>()$`\\\"'*?[]#~=%!{}\n"

// plainWords splits a line that has only words, and single- or double-quoted strings without
// expansions in them; ok is false for every other line.
func plainWords(line string) (words []string, ok bool) {
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ' || c == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case c == '\'' || c == '"':
			end := strings.IndexByte(line[i+1:], c)
			if end < 0 {
				return nil, false
			}
			quoted := line[i+1 : i+1+end]
			if c == '"' && strings.ContainsAny(quoted, "$`\\!") {
				return nil, false
			}
			word.WriteString(quoted)
			inWord = true
			i += end + 1
		case c == '=' && len(words) > 0:
			// Only before the program's name does a shell take it for an assignment.
			word.WriteByte(c)
			inWord = true
		case strings.IndexByte(shellSpecial, c) >= 0:
			return nil, false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 || isShellWord(words[0]) {
		return nil, false
	}
	return words, true
}

// isShellWord reports whether a shell would not look for a program of that name.
func isShellWord(word string) bool {
	switch word {
	case "!", "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then", "until", "while",
		".", ":", "alias", "bg", "break", "cd", "command", "continue", "eval", "exec", "exit", "export",
		"fg", "hash", "jobs", "read", "readonly", "return", "set", "shift", "source", "times", "trap",
		"type", "ulimit", "umask", "unalias", "unset", "wait":
		return true
	}
	return false
}
