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

// yamlReader walks a YAML document and collects its problems.
type yamlReader struct {
	file     string
	problems []ManifestProblem
}

func (r *yamlReader) problem(line int, fix, format string, args ...any) {
	r.problems = append(r.problems, ManifestProblem{File: r.file, Line: line, What: fmt.Sprintf(format, args...), Fix: fix})
}

// sorted returns the problems by line; problems of the same line stay in the order
// found.
func (r *yamlReader) sorted() []ManifestProblem {
	slices.SortStableFunc(r.problems, func(a, b ManifestProblem) int { return a.Line - b.Line })
	return r.problems
}

// document returns the root of the file's only document. If there is no such
// document, it adds a problem and returns nil.
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

// syntax adds the problem of a syntax error. The YAML library gives the line only
// in its text; line 1 stands for other texts.
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

// yamlEntry is a key of a mapping, with its line and value.
type yamlEntry struct {
	key   string
	line  int
	value *yaml.Node
}

// entries reads a mapping with plain and distinct keys. Problems call the mapping
// what, and report at line that it is not a mapping.
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

// marked reports anchors, aliases and tags. Manifests have none of them, so that
// each line can be read on its own.
func marked(n *yaml.Node) bool {
	return n.Anchor != "" || n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0
}

func isMapping(n *yaml.Node) bool { return n.Kind == yaml.MappingNode && !marked(n) }

// isText reports whether a node is a value on a single line. Its text is used as
// written: numbers are not normalized.
func isText(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && !marked(n) && !isNull(n) && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// nodeKind describes a node of the wrong kind.
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
