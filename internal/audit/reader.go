package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// pageBytes ends a page after the event that reached it: a page must fit a NATS
	// message of 1 MB.
	pageBytes = 600 << 10
	// pageObjects bounds the objects of the archive that a page reads if few events
	// match its request.
	pageObjects = 512

	// inTable is the place of an event that has not left the table.
	inTable = "table"
)

// Reader reads the audit events of a namespace, whether they are still in the table or in
// the archive. It is safe for concurrent use.
type Reader struct {
	log     *Log
	archive Archive
}

// NewReader returns a reader of a table and its archive; nil is no archive.
func NewReader(log *Log, archive Archive) *Reader {
	if archive == nil {
		archive = noArchive{}
	}
	return &Reader{log, archive}
}

// noArchive stands for the archive of a deployment without an archive.
type noArchive struct{}

func (noArchive) Where() string { return "" }

func (noArchive) Page(context.Context, ArchiveQuery) (ArchivePage, error) { return ArchivePage{}, nil }

func (noArchive) Find(context.Context, string, Position) ([]*Archived, error) { return nil, nil }

// oneCopy holds an event as it is stored in a single place.
type oneCopy struct {
	event     *api.AuditEvent
	where     string
	misplaced error // the event is in an object that readers of its target skip
}

func (c oneCopy) position() Position { return PositionOf(c.event) }
func (c oneCopy) place() Place       { return PlaceOf(c.event) }

// stretch is a contiguous part of the log, read from both places.
type stretch struct {
	copies []oneCopy // newest first; copies of one event are adjacent, the table's first
	// down is the oldest event up to which both places were read; the zero place is the end.
	down Place
}

// damage is told of unreadable data and its place: an item of the table, or an object
// of the archive, with a nil item. Its error ends the reading.
type damage func(where string, item keys.Item, err error) error

// read returns the stretch after a request's cursor, of at most that many events.
func (r *Reader) read(ctx context.Context, ns string, req api.AuditListRequest, most int, told damage) (*stretch, error) {
	if req.Limit == 0 {
		req.Limit = api.DefaultPage
	}
	reply, err := r.log.ListPast(ctx, ns, req, func(item keys.Item, err error) error { return told(inTable, item, err) })
	if err != nil {
		return nil, err
	}
	s := &stretch{down: placeAt(reply.Cursor)}
	for i := range reply.Events {
		s.copies = append(s.copies, oneCopy{event: &reply.Events[i], where: inTable})
	}
	q := ArchiveQuery{
		Namespace: ns, Action: req.Action, FromMs: req.FromMs, ToMs: req.ToMs, Before: placeAt(req.Cursor).Position, Since: s.down.Position,
		Events: most, Bytes: pageBytes, Objects: pageObjects, Broken: func(key string, err error) error { return told(key, nil, err) },
	}
	if req.LimitsTarget != (api.LimitsTarget{}) {
		q.Target = TargetOf(req.LimitsTarget)
	}
	page, err := r.archive.Page(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, f := range page.Found {
		s.copies = append(s.copies, oneCopy{&f.Event, f.Key, f.Misplaced})
	}
	slices.SortStableFunc(s.copies, func(x, y oneCopy) int { return y.position().Compare(x.position()) })
	if page.Down.Compare(s.down.Position) > 0 {
		s.endAt(page.Down)
	}
	s.copies = slices.DeleteFunc(s.copies, func(c oneCopy) bool { return c.position().Compare(s.down.Position) < 0 })
	return s, nil
}

// endAt ends the stretch at an event. If the table has the event too, the target comes from
// its item: a copy in the archive may have been altered.
func (s *stretch) endAt(p Place) {
	s.down = p
	for _, c := range s.copies {
		if c.position() == p.Position {
			s.down = c.place()
			return
		}
	}
}

// placeAt returns the event after which the page of a cursor begins.
func placeAt(cursor string) Place {
	key, ok := store.CursorItem(cursor).(keys.Audit)
	if !ok {
		return Place{}
	}
	return Place{Position: Position{AtMs: key.AtMs, Sequence: key.Sequence}, Target: key.ID}
}

// cursorAt returns the cursor of the page after an event, empty for the zero place. The
// cursor names the event by its own key: rows of the index with equal sort keys are in the
// order of their items' keys, so after another key the row itself would be read again.
func cursorAt(ns string, req *api.AuditListRequest, p Place) string {
	if p == (Place{}) {
		return ""
	}
	key := keys.Audit{Namespace: ns, ID: p.Target, AtMs: p.AtMs, Sequence: p.Sequence}
	if req.LimitsTarget != (api.LimitsTarget{}) {
		key.ID = TargetOf(req.LimitsTarget) // the archive may have ended at another target's event
	}
	if !key.Valid() { // an event of the archive that was altered
		key.ID = keys.AuditSystem
	}
	return store.CursorBehind(key)
}

// List returns a page of events, the newest first, each once. A list that is read page by
// page does not include events written after its first page.
func (r *Reader) List(ctx context.Context, ns string, req api.AuditListRequest) (api.AuditListReply, error) {
	limit := int(cmp.Or(req.Limit, api.DefaultPage))
	s, err := r.read(ctx, ns, req, limit, func(_ string, _ keys.Item, err error) error { return err })
	if err != nil {
		return api.AuditListReply{}, fmt.Errorf("list audit events: %w", err)
	}
	reply := api.AuditListReply{Events: []api.AuditEvent{}}
	size := 0
	for i, c := range s.copies {
		if i > 0 && c.event.ID == s.copies[i-1].event.ID {
			continue
		}
		if len(reply.Events) == limit || size >= pageBytes {
			s.endAt(s.copies[i-1].place())
			break
		}
		reply.Events = append(reply.Events, *c.event)
		size += c.event.WireSize()
	}
	reply.Cursor = cursorAt(ns, &req, s.down)
	return reply, nil
}

// Show returns an event and reports whether it is intact. It prefers an intact copy to an
// altered copy. It fails like [Log.Show].
func (r *Reader) Show(ctx context.Context, ns string, req api.AuditShowRequest) (api.AuditShowReply, error) {
	shown, errShow := r.log.Show(ctx, ns, req)
	var refused *api.Error
	missing := errors.As(errShow, &refused) && refused.Code == api.CodeNotFound
	if errShow != nil && !missing || errShow == nil && shown.Intact {
		return shown, errShow
	}
	key, err := ParseID(ns, req.ID)
	if err != nil {
		return api.AuditShowReply{}, err
	}
	copies, err := r.archive.Find(ctx, ns, Position{AtMs: key.AtMs, Sequence: key.Sequence})
	if err != nil {
		return api.AuditShowReply{}, fmt.Errorf("show audit event %s: %w", req.ID, err)
	}
	for i, f := range copies {
		intact, err := r.log.Intact(ctx, &f.Event)
		if err != nil {
			return api.AuditShowReply{}, err
		}
		if intact || missing && i == len(copies)-1 {
			return api.AuditShowReply{AuditEvent: f.Event, Intact: intact}, nil
		}
	}
	return shown, errShow
}
