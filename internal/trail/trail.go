package trail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/archive"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// pageBytes ends a page, with the event that reached it: a page must fit a NATS
	// message of 1 MB.
	pageBytes = 600 << 10
	// pageObjects is how many objects of the archive a page goes through where few
	// events are what is asked for.
	pageObjects = 512

	// inTable is where an event is that has not left.
	inTable = "table"
)

// Trail reads events. It is safe for concurrent use.
type Trail struct {
	log     *audit.Log
	archive *archive.Archive // nil: the table alone
}

// New is the trail of a table and its archive, which may be nil.
func New(log *audit.Log, kept *archive.Archive) *Trail { return &Trail{log, kept} }

// oneCopy is an event as it is in one place.
type oneCopy struct {
	event  *api.AuditEvent
	where  string
	astray error // it is in an object where readers of its target do not look
}

func (c oneCopy) position() archive.Position { return archive.PositionOf(c.event) }
func (c oneCopy) place() archive.Place       { return archive.PlaceOf(c.event) }

// stretch is a part of the trail.
type stretch struct {
	copies []oneCopy // the newest first; those of one event together, that of the table first
	// down is the event down to which everything was looked at; the zero place is to the end.
	down archive.Place
}

// damage is told what cannot be read, and where it is: an item of the table, or an
// object, of which there is no item. Its error ends the reading.
type damage func(where string, item keys.Item, err error) error

// read finds the stretch behind a request's cursor.
func (t *Trail) read(ctx context.Context, ns string, req api.AuditListRequest, most int, told damage) (*stretch, error) {
	if req.Limit == 0 {
		req.Limit = api.DefaultPage
	}
	reply, err := t.log.ListPast(ctx, ns, req, func(item keys.Item, err error) error { return told(inTable, item, err) })
	if err != nil {
		return nil, err
	}
	s := &stretch{down: placeAt(reply.Cursor)}
	for i := range reply.Events {
		s.copies = append(s.copies, oneCopy{event: &reply.Events[i], where: inTable})
	}
	if t.archive == nil {
		return s, nil
	}
	q := archive.Query{
		Namespace: ns, Action: req.Action, FromMs: req.FromMs, ToMs: req.ToMs, Before: placeAt(req.Cursor).Position, Since: s.down.Position,
		Events: most, Bytes: pageBytes, Objects: pageObjects, Broken: func(key string, err error) error { return told(key, nil, err) },
	}
	if req.LimitsTarget != (api.LimitsTarget{}) {
		q.Target = audit.TargetOf(req.LimitsTarget)
	}
	page, err := t.archive.Page(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, f := range page.Found {
		s.copies = append(s.copies, oneCopy{&f.Event, f.Key, f.Astray()})
	}
	slices.SortStableFunc(s.copies, func(x, y oneCopy) int { return y.position().Compare(x.position()) })
	if page.Down.Compare(s.down.Position) > 0 {
		s.endAt(page.Down)
	}
	s.copies = slices.DeleteFunc(s.copies, func(c oneCopy) bool { return c.position().Compare(s.down.Position) < 0 })
	return s, nil
}

// endAt ends the stretch at an event. Where the table has the event too, its item says
// what the target is: a copy in the archive may have been altered.
func (s *stretch) endAt(p archive.Place) {
	s.down = p
	for _, c := range s.copies {
		if c.position() == p.Position {
			s.down = c.place()
			return
		}
	}
}

// placeAt returns the event behind which the page of a cursor begins.
func placeAt(cursor string) archive.Place {
	key, ok := store.CursorItem(cursor).(keys.Audit)
	if !ok {
		return archive.Place{}
	}
	return archive.Place{Position: archive.Position{AtMs: key.AtMs, Sequence: key.Sequence}, Target: key.ID}
}

// cursorAt returns the cursor of the page behind an event, empty for the zero place. The
// cursor names the event by its own key: rows of the index with equal sort keys are in the
// order of their items' keys, so the row itself would be read again behind another key.
func cursorAt(ns string, req *api.AuditListRequest, p archive.Place) string {
	if p == (archive.Place{}) {
		return ""
	}
	key := keys.Audit{Namespace: ns, ID: p.Target, AtMs: p.AtMs, Sequence: p.Sequence}
	if req.LimitsTarget != (api.LimitsTarget{}) {
		key.ID = audit.TargetOf(req.LimitsTarget) // the archive may have ended at another target's event
	}
	if !key.Valid() { // an event of the archive that was altered
		key.ID = keys.AuditSystem
	}
	return store.CursorBehind(key)
}

// List is one page of events, the newest first, each once. Events that happen while a
// list is under way are not in it.
func (t *Trail) List(ctx context.Context, ns string, req api.AuditListRequest) (api.AuditListReply, error) {
	limit := int(cmp.Or(req.Limit, api.DefaultPage))
	s, err := t.read(ctx, ns, req, limit, func(_ string, _ keys.Item, err error) error { return err })
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

// Show returns one event and whether it is as it was written: a copy that is, where
// there is one. It fails like [audit.Log.Show].
func (t *Trail) Show(ctx context.Context, ns string, req api.AuditShowRequest) (api.AuditShowReply, error) {
	shown, errShow := t.log.Show(ctx, ns, req)
	var refused *api.Error
	missing := errors.As(errShow, &refused) && refused.Code == api.CodeNotFound
	if t.archive == nil || errShow != nil && !missing || errShow == nil && shown.Intact {
		return shown, errShow
	}
	key, err := audit.ParseID(ns, req.ID)
	if err != nil {
		return api.AuditShowReply{}, err
	}
	copies, err := t.archive.Find(ctx, ns, archive.Position{AtMs: key.AtMs, Sequence: key.Sequence})
	if err != nil {
		return api.AuditShowReply{}, fmt.Errorf("show audit event %s: %w", req.ID, err)
	}
	for i, f := range copies {
		intact, err := t.log.Intact(ctx, &f.Event)
		if err != nil {
			return api.AuditShowReply{}, err
		}
		if intact || missing && i == len(copies)-1 {
			return api.AuditShowReply{AuditEvent: f.Event, Intact: intact}, nil
		}
	}
	return shown, errShow
}
