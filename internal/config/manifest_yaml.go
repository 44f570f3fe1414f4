package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlReader walks a YAML document and keeps what is wrong with it.
type yamlReader struct {
	file     string
	problems []ManifestProblem
}

func (r *yamlReader) problem(line int, fix, format string, args ...any) {
	r.problems = append(r.problems, ManifestProblem{File: r.file, Line: line, What: fmt.Sprintf(format, args...), Fix: fix})
}

// sorted are the problems by line, those of one line in the order found.
func (r *yamlReader) sorted() []ManifestProblem {
	slices.SortStableFunc(r.problems, func(a, b ManifestProblem) int { return a.Line - b.Line })
	return r.problems
}

// document is the root of the file's one document; nil, with a problem, where
// there is no such thing.
func (r *yamlReader) document(data []byte) *yaml.Node {
	if len(data) > MaxManifestBytes {
		r.problem(1, fmt.Sprintf("split it: a manifest has at most %d", MaxManifestBytes), "the file has %d bytes", len(data))
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) {
		r.problem(1, "write a manifest as docs/manifests.md shows it", "the file is empty")
		return nil
	}
	if err == nil {
		if err = decoder.Decode(&second); err == nil {
			r.problem(second.Line, "put it into a file of its own", "the file has a second document")
			return nil
		}
	}
	if !errors.Is(err, io.EOF) {
		r.syntax(err)
		return nil
	}
	return doc.Content[0]
}

// syntax reports what the YAML library refuses. Where that is, it says in its
// text alone; where the text is another one, line 1 stands in.
func (r *yamlReader) syntax(err error) {
	located := regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	line, message := 1, err.Error()
	if at := located.FindStringSubmatch(message); at != nil {
		message = message[len(at[0]):]
		if n, err := strconv.Atoi(at[1]); err == nil {
			line = max(1, n)
		}
	}
	message, _, _ = strings.Cut(message, "\n")
	r.problem(line, "check the indentation and the quotes there", "this is no YAML: %s", message)
}

// entry is one line of a mapping.
type yamlEntry struct {
	key   string
	line  int
	value *yaml.Node
}

// entries reads a mapping whose keys are plain and stand there once; what names
// it in problems, line is where to report that it is none.
func (r *yamlReader) entries(n *yaml.Node, what string, line int) []yamlEntry {
	if !isMapping(n) {
		r.problem(line, "write `key: value` lines below it, or {} for none", "%s is %s", what, nodeKind(n))
		return nil
	}
	all := make([]yamlEntry, 0, len(n.Content)/2)
	first := make(map[string]int, len(n.Content)/2)
	for pair := range slices.Chunk(n.Content, 2) {
		key, value := pair[0], pair[1]
		if !isText(key) {
			r.problem(key.Line, "write a plain name", "a key in %s is %s", what, nodeKind(key))
			continue
		}
		if before, twice := first[key.Value]; twice {
			r.problem(key.Line, "keep one of the two", "%s names %q again, as line %d does", what, shorten(key.Value), before)
			continue
		}
		first[key.Value] = key.Line
		all = append(all, yamlEntry{key: key.Value, line: key.Line, value: value})
	}
	return all
}

// text reads a plain value.
func (r *yamlReader) text(e yamlEntry, what string) (string, bool) {
	if !isText(e.value) {
		r.problem(e.line, "write one plain value behind it", "%s is %s", what, nodeKind(e.value))
		return "", false
	}
	return e.value.Value, true
}

// Manifests are written without anchors, aliases and tags, so that every line
// says what it says without another one.
func marked(n *yaml.Node) bool {
	return n.Anchor != "" || n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0
}

func isMapping(n *yaml.Node) bool { return n.Kind == yaml.MappingNode && !marked(n) }

// isText reports a value on one line. Its text is used as it is written: a
// number is not turned into another form of it.
func isText(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && !marked(n) && !isNull(n) && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// nodeKind says what a node is that should be something else.
func nodeKind(n *yaml.Node) string {
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return "tagged, which manifests do not have"
	case marked(n):
		return "an anchor or an alias, which manifests do not have"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "empty"
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return "a block of text"
	}
	return "a plain value"
}
