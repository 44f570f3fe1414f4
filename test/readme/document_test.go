package readme_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository, where the documents' commands run.
const root = "../.."

// document is a text and what it is called.
type document struct {
	name string // path below root
	text string
}

// documents are all that have something to type.
func documents(t *testing.T) []document {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, file := range found {
		names = append(names, filepath.Join("docs", filepath.Base(file)))
	}
	documents := make([]document, len(names))
	for i, name := range names {
		documents[i] = read(t, name)
	}
	return documents
}

// everyText is all documents and the decisions.
func everyText(t *testing.T) []document {
	t.Helper()
	all := documents(t)
	found, err := filepath.Glob(filepath.Join(root, "docs", "adr", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, file := range found {
		all = append(all, read(t, filepath.Join("docs", "adr", filepath.Base(file))))
	}
	return all
}

func read(t *testing.T, name string) document {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return document{name: name, text: string(b)}
}

// fence is one block of code.
type fence struct {
	language string
	info     []string // the words behind the language
	text     string
	line     int // at which it begins
}

// fences are a document's, in order.
func (d document) fences(t *testing.T) []fence {
	t.Helper()
	var all []fence
	var open *fence
	for i, line := range strings.Split(d.text, "\n") {
		info, mark := strings.CutPrefix(line, "```")
		switch {
		case open != nil && mark:
			all, open = append(all, *open), nil
		case open != nil:
			open.text += line + "\n"
		case mark:
			words := append(strings.Fields(info), "")
			require.True(t, slices.Contains([]string{"sh", "go", "python", "json", "event", "promql", "text"}, words[0]),
				"%s:%d: name the fence's language: sh, go, python, json, event, promql (which test/alerts reads) or text", d.name, i+1)
			open = &fence{language: words[0], info: words[1 : len(words)-1], line: i + 1}
		}
	}
	require.Nil(t, open, "%s: a fence is not closed", d.name)
	return all
}
