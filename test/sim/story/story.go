// Package story tells the history of a simulation: as a timeline in text, and as a picture
// of messages between parties.
//
//	s := story.New()
//	s.Add(story.Event{Step: 1, At: 3 * time.Millisecond, From: "caller-1.1", To: "nats", What: "acquire"})
//	fmt.Print(s.Text(20))
//	os.WriteFile("story.svg", s.SVG(200), 0o600)
package story

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// keep bounds the events that a Story remembers; older ones are dropped.
const keep = 20_000

// Event is something that happened: a message from a party to another, or an event at a
// party if From and To are equal.
type Event struct {
	Step     int
	At       time.Duration // since the start
	From, To string
	What     string
}

// Story holds the newest events. The zero value is empty.
type Story struct {
	events []Event // a ring once it is full
	next   int     // place of the oldest event once it is full
}

// New returns an empty story.
func New() *Story { return &Story{} }

// Add adds an event.
func (s *Story) Add(e Event) {
	if len(s.events) < keep {
		s.events = append(s.events, e)
		return
	}
	s.events[s.next] = e
	s.next = (s.next + 1) % keep
}

// Last returns the newest n events, oldest first; all of them if n is 0.
func (s *Story) Last(n int) []Event {
	all := slices.Concat(s.events[s.next:], s.events[:s.next])
	if n > 0 && n < len(all) {
		all = all[len(all)-n:]
	}
	return all
}

// Text returns the newest n events as a timeline, one line each.
func (s *Story) Text(n int) string {
	var b strings.Builder
	for _, e := range s.Last(n) {
		fmt.Fprintf(&b, "%7d %14s  %-16s", e.Step, e.At.Round(time.Microsecond), e.From)
		if e.To != e.From {
			fmt.Fprintf(&b, " → %-16s", e.To)
		} else {
			b.WriteString(strings.Repeat(" ", 19))
		}
		b.WriteString(" " + e.What + "\n")
	}
	return b.String()
}

// Sizes of the picture, in pixels.
const (
	column = 190
	row    = 22
	margin = 110
)

// SVG draws the newest n events: a column for each party, a row for each event, and an
// arrow for each message.
func (s *Story) SVG(n int) []byte {
	events := s.Last(n)
	parties := partiesOf(events)
	x := func(party string) int {
		i, _ := slices.BinarySearchFunc(parties, party, order)
		return margin + i*column
	}
	width, height := margin+len(parties)*column, 60+(len(events)+1)*row
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="11">`+"\n", width, height)
	b.WriteString(`<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto"><path d="M0,0L7,3L0,6z"/></marker></defs>` + "\n")
	for _, party := range parties {
		fmt.Fprintf(&b, `<text x="%d" y="24" text-anchor="middle" font-weight="bold">%s</text><line x1="%d" y1="34" x2="%d" y2="%d" stroke="#bbb"/>`+"\n",
			x(party), html.EscapeString(party), x(party), x(party), height)
	}
	for i, e := range events {
		y := 60 + i*row
		from, to, color := x(e.From), x(e.To), "#000"
		if strings.HasPrefix(e.What, "BROKEN") {
			color = "#c00"
		}
		fmt.Fprintf(&b, `<text x="4" y="%d" fill="#888">%s</text>`+"\n", y+4, e.At.Round(100*time.Microsecond))
		if from == to {
			fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="3" fill="%s"/><text x="%d" y="%d" fill="%s">%s</text>`+"\n",
				from, y, color, from+6, y+4, color, html.EscapeString(e.What))
			continue
		}
		fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" marker-end="url(#a)"/><text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n",
			from, y, to, y, color, (from+to)/2, y-4, html.EscapeString(e.What))
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// partiesOf returns the parties of events in the order of their columns.
func partiesOf(events []Event) []string {
	var parties []string
	for _, e := range events {
		parties = append(parties, e.From, e.To)
	}
	slices.SortFunc(parties, order)
	return slices.Compact(parties)
}

// order puts callers left, NATS and the store between callers' and workers' sides.
func order(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b)) }

func rank(party string) int {
	service, _, _ := strings.Cut(party, "-")
	switch service {
	case "scheduler", "ledger":
		return 0
	case "caller", "operator":
		return 1
	case "nats":
		return 2
	case "admission":
		return 3
	case "store":
		return 4
	}
	return 5
}
