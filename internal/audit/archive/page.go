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

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/pkg/api"
)

// Page returns the newest events that match a query. Its memory is bounded by the
// page and a few objects.
func (a *Archive) Page(ctx context.Context, q audit.ArchiveQuery) (audit.ArchivePage, error) {
	if a == nil {
		return audit.ArchivePage{}, nil
	}
	s := search{archive: a, q: q, lane: -1}
	if q.Target != "" {
		s.lane = laneOf(q.Namespace, q.Target)
	}
	if s.q.Broken == nil {
		s.q.Broken = func(_ string, err error) error { return err }
	}
	err := a.days(ctx, q.Namespace, s.newestDay(), s.oldestDay(), func(day string) (bool, error) { return s.day(ctx, day) })
	if err != nil {
		return audit.ArchivePage{}, fmt.Errorf("read the audit archive %s: %w", a.where, err)
	}
	return audit.ArchivePage{Found: s.found, Down: s.down()}, nil
}

// search is a page in the making.
type search struct {
	archive *Archive
	q       audit.ArchiveQuery
	lane    int // that of the target; -1 is any

	found   []*audit.Archived // the newest first
	bytes   int
	full    bool // something older may have been left out
	objects int  // behind Before

	visited []audit.Place // of the day under way, where Objects may end the page
	oldest  *audit.Place  // event visited on the days before; nil if there were no events
	paused  *audit.Place  // where Objects ended the page
}

// newestDay and oldestDay are where to begin and to end; empty is no bound.
func (s *search) newestDay() string {
	day := ""
	if s.q.ToMs != 0 {
		day = dayOf(s.q.ToMs)
	}
	if before := dayOf(s.q.Before.AtMs); s.q.Before != (audit.Position{}) && (day == "" || before < day) {
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
func (s *search) down() audit.Place {
	switch {
	case s.paused != nil:
		return *s.paused
	case s.full:
		return audit.PlaceOf(&s.found[len(s.found)-1].Event)
	}
	return audit.Place{}
}

// day searches the objects of a day and reports whether to continue with the day
// before.
func (s *search) day(ctx context.Context, day string) (more bool, err error) {
	names, err := s.names(ctx, day)
	if err != nil {
		return false, err
	}
	s.oldest, s.visited = oldestOf(s.oldest, s.visited, 0), s.visited[:0]
	var ahead []content
	for i, n := range names {
		if s.full && n.last < s.found[len(s.found)-1].Event.Sequence {
			return false, nil // the remaining objects are older than the whole page
		}
		if s.spent() && (i == 0 || n.last < names[i-1].last) && s.pause(n.last) {
			return false, nil
		}
		if s.q.Before == (audit.Position{}) || n.last < s.q.Before.Sequence {
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
	s.found = slices.DeleteFunc(s.found, func(f *audit.Archived) bool { return audit.PositionOf(&f.Event).Compare(s.paused.Position) < 0 })
	return true
}

// oldestOf is the oldest of the visited events above a sequence, and of another.
func oldestOf(oldest *audit.Place, visited []audit.Place, above int64) *audit.Place {
	for _, p := range visited {
		if p.Sequence > above && (oldest == nil || p.Compare(oldest.Position) < 0) {
			oldest = &p
		}
	}
	return oldest
}

// names returns the objects of a day that may hold matching events, the newest first.
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
		if ok && n.last >= s.q.Since.Sequence && (s.q.Before == (audit.Position{}) || n.first < s.q.Before.Sequence) {
			names = append(names, n)
		}
	}
	slices.SortStableFunc(names, func(x, y name) int { return cmp.Compare(y.last, x.last) })
	return names, nil
}

// readAhead is how many objects are asked for at once: an object store takes its time
// for each.
const readAhead = 8

// content holds an object's content, or the error of reading it.
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

// object searches an object.
func (s *search) object(n name, c content) error {
	switch {
	case errors.Is(c.err, audit.ErrObjectDamaged):
		return s.q.Broken(n.key(), c.err)
	case c.err != nil:
		return c.err
	}
	broken := func(err error) error { return s.q.Broken(n.key(), err) }
	return readLines(n, c.stored, s.reaches, func(e *api.AuditEvent) error {
		if !s.reaches(audit.PositionOf(e)) { // its id says something else
			return broken(fmt.Errorf("%w: %s: event %s says that it is %d-%d", audit.ErrObjectDamaged, n.key(), e.ID, e.AtMs, e.Sequence))
		}
		if s.q.Objects > 0 {
			s.visited = append(s.visited, audit.PlaceOf(e))
		}
		if s.wanted(e) {
			s.keep(&audit.Archived{Event: *e, Key: n.key(), Misplaced: n.misplaced(e)})
		}
		return nil
	}, broken)
}

// reaches reports whether an event of a position can be in the page.
func (s *search) reaches(p audit.Position) bool {
	switch {
	case s.q.Before != (audit.Position{}) && p.Compare(s.q.Before) >= 0, s.q.ToMs != 0 && p.AtMs > s.q.ToMs:
		return false
	case p.AtMs < s.q.FromMs, p.Compare(s.q.Since) < 0:
		return false
	}
	return !s.full || p.Compare(audit.PositionOf(&s.found[len(s.found)-1].Event)) >= 0
}

func (s *search) wanted(e *api.AuditEvent) bool {
	return (s.q.Target == "" || e.Target == s.q.Target) && (s.q.Action == "" || e.Action == s.q.Action)
}

// keep adds an event to the page, and drops the oldest where there are too many.
func (s *search) keep(f *audit.Archived) {
	at, there := slices.BinarySearchFunc(s.found, f, func(x, y *audit.Archived) int {
		return audit.PositionOf(&y.Event).Compare(audit.PositionOf(&x.Event))
	})
	if s.full && at == len(s.found) {
		return
	}
	for i := at; there && i < len(s.found) && audit.PositionOf(&s.found[i].Event) == audit.PositionOf(&f.Event); i++ {
		if audit.SameEvent(&s.found[i].Event, &f.Event) {
			return
		}
	}
	s.found = slices.Insert(s.found, at, f)
	s.bytes += f.Event.WireSize()
	s.full = s.full || len(s.found) >= s.q.Events
	for len(s.found) > s.q.Events || s.bytes > s.q.Bytes {
		oldest := audit.PositionOf(&s.found[len(s.found)-1].Event)
		if oldest == audit.PositionOf(&s.found[0].Event) {
			return
		}
		for audit.PositionOf(&s.found[len(s.found)-1].Event) == oldest {
			s.bytes -= s.found[len(s.found)-1].Event.WireSize()
			s.found = s.found[:len(s.found)-1]
		}
		s.full = true
	}
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
					continue // not a folder of the archive
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

// folders returns the subfolders of a folder, the last first.
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

// Find returns every distinct copy of an event.
func (a *Archive) Find(ctx context.Context, namespace string, at audit.Position) ([]*audit.Archived, error) {
	page, err := a.Page(ctx, audit.ArchiveQuery{
		Namespace: namespace, Before: audit.Position{AtMs: at.AtMs, Sequence: at.Sequence + 1}, Since: at, Events: 1, Bytes: maxLines,
	})
	return page.Found, err
}
