package expr

import (
	_ "embed"
	"strings"
)

// reservedWords is DynamoDB's list of reserved words: sorted, in upper case, a word
// on each line.
//
//go:embed reserved.txt
var reservedWords string

// isReserved reports whether an attribute of this name needs a placeholder.
func isReserved(name string) bool {
	word := strings.ToUpper(name)
	for words := reservedWords; words != ""; {
		// Halve the list at the start of a line until a single line is left.
		middle := strings.LastIndexByte(words[:len(words)/2], '\n') + 1
		line, rest, _ := strings.Cut(words[middle:], "\n")
		switch strings.Compare(word, line) {
		case 0:
			return true
		case -1:
			words = words[:middle]
		default:
			words = rest
		}
	}
	return false
}
