package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sourcegraph/conc"
	"gocloud.dev/blob"

	"github.com/tidegate/tidegate/pkg/api"
)

// Position is an event's place in the order of a namespace. Times never run against
// the sequence.
type Position struct{ AtMs, Sequence int64 }

// PositionOf is where an event is.
func PositionOf(e *api.AuditEvent) Position { return Position{e.AtMs, e.Sequence} }

// Compare orders positions by time, and by sequence within a millisecond.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.AtMs, other.AtMs), cmp.Compare(p.Sequence, other.Sequence))
}

// Place is an event's position and its target. Both together name the event's item in the
// table, which a list needs to continue behind it.
type Place struct {
	Position
	Target string
}

// PlaceOf returns the place of an event.
func PlaceOf(e *api.AuditEvent) Place { return Place{PositionOf(e), e.Target} }

// Query is what to look for in a namespace.
type Query struct {
	Namespace string          // id
	Target    string          // of the events; any where empty
	Action    api.AuditAction // any where empty
	FromMs    int64           // not before, Unix milliseconds; 0 is no bound
	ToMs      int64           // not after; 0 is no bound
	Before    Position        // older than that; the zero position is no bound
	Since     Position        // not older than that; the zero position is no bound
	Events    int             // at most, but for those of one position
	Bytes     int             // of what was before and after, at most, but for one event
	// Objects is after how many of them, behind Before, the page ends for now; 0 is
	// never.
	Objects int
	// Broken is told what cannot be read, and the reading goes on unless it fails. Nil
	// fails with ErrDamaged.
	Broken func(key string, err error) error
}

// Found is an event and the object that holds it.
type Found struct {
	Event api.AuditEvent
	Key   string
}

// Astray is an error where the object's name keeps readers of the event's target from
// looking into it: somebody renamed it.
func (f *Found) Astray() error {
	if n, ok := parseName(f.Key); !ok || n.lane != laneOf(f.Event.Namespace, f.Event.Target) {
		return fmt.Errorf("%w: %s: by its name, it has nothing of %s, of which it has event %s", ErrDamaged, f.Key, f.Event.Target, f.Event.ID)
	}
	return nil
}

// Page is what was found, the newest first. Copies of an event that differ are all
// in it, those that do not are once.
type Page struct {
	Found []*Found
	// Down is the oldest event up to which everything was looked at, itself included; the
	// zero place where that is to the end.
	Down Place
}

// Page finds the newest events that a query asks for. Its memory is that of what it
// returns, and of a few objects.
func (a *Archive) Page(ctx context.Context, q Query) (Page, error) {
	s := search{archive: a, q: q, lane: -1}
	if q.Target != "" {
		s.lane = laneOf(q.Namespace, q.Target)
	}
	if s.q.Broken == nil {
		s.q.Broken = func(_ string, err error) error { return err }
	}
	err := a.days(ctx, q.Namespace, s.newestDay(), s.oldestDay(), func(day string) (bool, error) { return s.day(ctx, day) })
	if err != nil {
		return Page{}, fmt.Errorf("read the audit archive %s: %w", a.where, err)
	}
	return Page{Found: s.found, Down: s.down()}, nil
}

// search is a page in the making.
type search struct {
	archive *Archive
	q       Query
	lane    int // that of the target; -1 is any

	found   []*Found // the newest first
	bytes   int
	full    bool // something older may have been left out
	objects int  // behind Before

	visited []Place // of the day under way, where Objects may end the page
	oldest  *Place  // that was visited on the days before; nil: none
	paused  *Place  // where Objects ended the page
}

// newestDay and oldestDay are where to begin and to end; empty is no bound.
func (s *search) newestDay() string {
	day := ""
	if s.q.ToMs != 0 {
		day = dayOf(s.q.ToMs)
	}
	if before := dayOf(s.q.Before.AtMs); s.q.Before != (Position{}) && (day == "" || before < day) {
		day = before
	}
	return day
}

func (s *search) oldestDay() string {
	if from := max(s.q.FromMs, s.q.Since.AtMs); from != 0 {
		return dayOf(from)
	}
	return ""
}

// down is Page.Down.
func (s *search) down() Place {
	switch {
	case s.paused != nil:
		return *s.paused
	case s.full:
		return PlaceOf(&s.found[len(s.found)-1].Event)
	}
	return Place{}
}

// day looks through the objects of a day and reports whether to go on to the one
// before it.
func (s *search) day(ctx context.Context, day string) (more bool, err error) {
	names, err := s.names(ctx, day)
	if err != nil {
		return false, err
	}
	s.oldest, s.visited = oldestOf(s.oldest, s.visited, 0), s.visited[:0]
	var ahead []content
	for i, n := range names {
		if s.full && n.last < s.found[len(s.found)-1].Event.Sequence {
			return false, nil // what is there is older than all of the page
		}
		if s.spent() && (i == 0 || n.last < names[i-1].last) && s.pause(n.last) {
			return false, nil
		}
		if s.q.Before == (Position{}) || n.last < s.q.Before.Sequence {
			s.objects++
		}
		if len(ahead) == 0 {
			ahead = s.archive.fetch(ctx, names[i:min(i+readAhead, len(names))])
		}
		if err := s.object(n, ahead[0]); err != nil {
			return false, err
		}
		ahead = ahead[1:]
	}
	return !s.full, nil
}

// spent reports whether the page has read as much as it may.
func (s *search) spent() bool { return s.q.Objects > 0 && s.objects >= s.q.Objects }

// pause ends the page at the oldest event above the sequence, where any was looked at.
func (s *search) pause(sequence int64) bool {
	if s.paused = oldestOf(s.oldest, s.visited, sequence); s.paused == nil {
		return false
	}
	s.found = slices.DeleteFunc(s.found, func(f *Found) bool { return PositionOf(&f.Event).Compare(s.paused.Position) < 0 })
	return true
}

// oldestOf is the oldest of the visited events above a sequence, and of another.
func oldestOf(oldest *Place, visited []Place, above int64) *Place {
	for _, p := range visited {
		if p.Sequence > above && (oldest == nil || p.Compare(oldest.Position) < 0) {
			oldest = &p
		}
	}
	return oldest
}

// names are the objects of a day that may hold what is looked for, the newest first.
func (s *search) names(ctx context.Context, day string) ([]name, error) {
	prefix := folder(s.q.Namespace, day)
	if s.lane >= 0 {
		prefix += fmt.Sprintf("%d-", s.lane)
	}
	var names []name
	if err := s.archive.lookInto(folder(s.q.Namespace, day)); err != nil {
		return nil, err
	}
	list := s.archive.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
		n, ok := parseName(o.Key)
		if ok && n.last >= s.q.Since.Sequence && (s.q.Before == (Position{}) || n.first < s.q.Before.Sequence) {
			names = append(names, n)
		}
	}
	slices.SortStableFunc(names, func(x, y name) int { return cmp.Compare(y.last, x.last) })
	return names, nil
}

// readAhead is how many objects are asked for at once: an object store takes its time
// for each.
const readAhead = 8

// content is what an object holds, or why it cannot be read.
type content struct {
	stored []byte
	err    error
}

// fetch reads objects, side by side.
func (a *Archive) fetch(ctx context.Context, names []name) []content {
	all := make([]content, len(names))
	var reading conc.WaitGroup
	for i, n := range names {
		reading.Go(func() { all[i].stored, all[i].err = a.read(ctx, n.key()) })
	}
	reading.Wait()
	return all
}

// object looks through one object.
func (s *search) object(n name, c content) error {
	switch {
	case errors.Is(c.err, ErrDamaged):
		return s.q.Broken(n.key(), c.err)
	case c.err != nil:
		return c.err
	}
	broken := func(err error) error { return s.q.Broken(n.key(), err) }
	return readLines(n, c.stored, s.reaches, func(e *api.AuditEvent) error {
		if !s.reaches(PositionOf(e)) { // its id says something else
			return broken(fmt.Errorf("%w: %s: event %s says that it is %d-%d", ErrDamaged, n.key(), e.ID, e.AtMs, e.Sequence))
		}
		if s.q.Objects > 0 {
			s.visited = append(s.visited, PlaceOf(e))
		}
		if s.wanted(e) {
			s.keep(&Found{Event: *e, Key: n.key()})
		}
		return nil
	}, broken)
}

// reaches reports whether an event of a position can be in the page.
func (s *search) reaches(p Position) bool {
	switch {
	case s.q.Before != (Position{}) && p.Compare(s.q.Before) >= 0, s.q.ToMs != 0 && p.AtMs > s.q.ToMs:
		return false
	case p.AtMs < s.q.FromMs, p.Compare(s.q.Since) < 0:
		return false
	}
	return !s.full || p.Compare(PositionOf(&s.found[len(s.found)-1].Event)) >= 0
}

func (s *search) wanted(e *api.AuditEvent) bool {
	return (s.q.Target == "" || e.Target == s.q.Target) && (s.q.Action == "" || e.Action == s.q.Action)
}

// keep adds an event to the page, and drops the oldest where there are too many.
func (s *search) keep(f *Found) {
	at, there := slices.BinarySearchFunc(s.found, f, func(x, y *Found) int {
		return PositionOf(&y.Event).Compare(PositionOf(&x.Event))
	})
	if s.full && at == len(s.found) {
		return
	}
	for i := at; there && i < len(s.found) && PositionOf(&s.found[i].Event) == PositionOf(&f.Event); i++ {
		if SameEvent(&s.found[i].Event, &f.Event) {
			return
		}
	}
	s.found = slices.Insert(s.found, at, f)
	s.bytes += f.Event.WireSize()
	s.full = s.full || len(s.found) >= s.q.Events
	for len(s.found) > s.q.Events || s.bytes > s.q.Bytes {
		oldest := PositionOf(&s.found[len(s.found)-1].Event)
		if oldest == PositionOf(&s.found[0].Event) {
			return
		}
		for PositionOf(&s.found[len(s.found)-1].Event) == oldest {
			s.bytes -= s.found[len(s.found)-1].Event.WireSize()
			s.found = s.found[:len(s.found)-1]
		}
		s.full = true
	}
}

// SameEvent reports whether two copies of an event say the same, when and how they
// left the table apart.
func SameEvent(x, y *api.AuditEvent) bool {
	return x.ID == y.ID && x.Namespace == y.Namespace && x.Sequence == y.Sequence && x.AtMs == y.AtMs &&
		x.Target == y.Target && x.Action == y.Action && x.Who == y.Who &&
		string(x.Before) == string(y.Before) && string(x.After) == string(y.After) &&
		x.Previous == y.Previous && x.Key == y.Key && x.MAC == y.MAC
}

// days calls visit for the days that have objects, the newest first, from newest to
// oldest, as long as it says so.
func (a *Archive) days(ctx context.Context, namespace, newest, oldest string, visit func(day string) (bool, error)) error {
	years, err := a.folders(ctx, root+namespace+"/")
	if err != nil {
		return err
	}
	for _, year := range years {
		if !within(part(year), newest, oldest) {
			continue
		}
		months, err := a.folders(ctx, year)
		if err != nil {
			return err
		}
		for _, month := range months {
			if !within(part(year)+"/"+part(month), newest, oldest) {
				continue
			}
			days, err := a.folders(ctx, month)
			if err != nil {
				return err
			}
			for _, day := range days {
				day = part(year) + "/" + part(month) + "/" + part(day)
				if _, err := time.Parse(dayLayout, day); err != nil || !within(day, newest, oldest) {
					continue // none of ours
				}
				if more, err := visit(day); err != nil || !more {
					return err
				}
			}
		}
	}
	return nil
}

// within reports whether a year, a month or a day is, in whole or in part, between
// two days.
func within(period, newest, oldest string) bool {
	return (newest == "" || period <= newest) && (oldest == "" || period >= oldest[:min(len(period), len(oldest))])
}

// lookInto fails where a list of the folder would be short in silence.
func (a *Archive) lookInto(folder string) error {
	if a.look == nil {
		return nil
	}
	if err := a.look(folder); err != nil {
		return fmt.Errorf("list %s: %w", folder, err)
	}
	return nil
}

// folders are those in a folder, the last first.
func (a *Archive) folders(ctx context.Context, prefix string) ([]string, error) {
	if err := a.lookInto(prefix); err != nil {
		return nil, err
	}
	var found []string
	list := a.bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"})
	for {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			slices.Sort(found)
			slices.Reverse(found)
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
		if o.IsDir {
			found = append(found, o.Key)
		}
	}
}

// Find is every copy of one event that differs from the others.
func (a *Archive) Find(ctx context.Context, namespace string, at Position) ([]*Found, error) {
	page, err := a.Page(ctx, Query{
		Namespace: namespace, Before: Position{at.AtMs, at.Sequence + 1}, Since: at, Events: 1, Bytes: maxLines,
	})
	return page.Found, err
}
