package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/tidegate/tidegate/pkg/api"
)

// output is the destination of a command's result.
type output struct {
	environment
	json  bool
	atEnd *tasks
}

// tasks are calls that a command leaves for its end.
type tasks struct{ calls []func() }

func (t *tasks) add(call func()) { t.calls = append(t.calls, call) }

func (t *tasks) run() {
	for _, call := range t.calls {
		call()
	}
}

// write prints value as JSON, or as the text that text writes.
func (o output) write(value any, text func(*page)) error {
	if o.json {
		encoder := json.NewEncoder(o.stdout)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(value); err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
		return nil
	}
	var p page
	text(&p)
	if _, err := o.stdout.Write([]byte(p.String())); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// failure prints an error to standard error.
func (o output) failure(err error) {
	if !o.json {
		_, _ = fmt.Fprintln(o.stderr, "tidegate: "+err.Error())
		return
	}
	body := struct {
		Error string   `json:"error"`
		Code  api.Code `json:"code,omitempty"`
		Field string   `json:"field,omitempty"`
	}{Error: err.Error()}
	var refused *api.Error
	if errors.As(err, &refused) {
		body.Code, body.Field = refused.Code, refused.Field
	}
	encoder := json.NewEncoder(o.stderr)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body) // strings always encode; an error means that stderr is gone
}

// page is text for people under construction.
type page struct{ strings.Builder }

// line adds a line.
func (p *page) line(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

// table adds rows of cells in aligned columns; the first row is their head.
func (p *page) table(rows [][]string) {
	w := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // a Builder never fails
	}
	_ = w.Flush()
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:@%+,=-", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// orDash is a cell that is not empty.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
