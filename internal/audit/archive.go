package audit

import (
	"cmp"
	"context"
	"errors"

	"github.com/tidegate/tidegate/pkg/api"
)

// ErrObjectDamaged says that an object of the archive is not as it was written: it
// cannot be read to its end, or it holds events that do not belong there.
var ErrObjectDamaged = errors.New("an object of the audit archive is damaged")

// Archive holds the events that left the table. Package archive implements it on a folder
// or an S3 bucket. The interface keeps the libraries for object stores out of the services
// that only write events.
//
// Implementations are safe for concurrent use. An event that Put stored before a call is
// found by that call. An error other than ErrObjectDamaged says that the archive could not
// be read, and the call may be repeated.
type Archive interface {
	// Where returns the archive's URL, for people; empty if there is no archive.
	Where() string
	// Page finds the newest events that a query asks for.
	Page(ctx context.Context, q ArchiveQuery) (ArchivePage, error)
	// Find returns every distinct copy of an event.
	Find(ctx context.Context, namespace string, at Position) ([]*Archived, error)
}

// Position is an event's place in the order of a namespace. The time of an event is never
// before that of an event with a lower sequence.
type Position struct{ AtMs, Sequence int64 }

// PositionOf returns the position of an event.
func PositionOf(e *api.AuditEvent) Position { return Position{e.AtMs, e.Sequence} }

// Compare orders positions by time, and by sequence within a millisecond.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.AtMs, other.AtMs), cmp.Compare(p.Sequence, other.Sequence))
}

// Place is an event's position and its target. Together they name the event's item in the
// table, which a list needs to continue after it.
type Place struct {
	Position
	Target string
}

// PlaceOf returns the place of an event.
func PlaceOf(e *api.AuditEvent) Place { return Place{PositionOf(e), e.Target} }

// ArchiveQuery selects events of a namespace.
type ArchiveQuery struct {
	Namespace string          // id
	Target    string          // of the events; empty for any
	Action    api.AuditAction // empty for any
	FromMs    int64           // inclusive, Unix milliseconds; 0 is no bound
	ToMs      int64           // inclusive; 0 is no bound
	Before    Position        // older than this; the zero position is no bound
	Since     Position        // not older than this; the zero position is no bound
	Events    int             // at most; events of the last position may exceed it
	Bytes     int             // of the events' JSON, at most; the first position may exceed it
	// Objects ends the page after this many objects behind Before; 0 is no bound.
	Objects int
	// Broken is told of unreadable data; the search continues unless Broken fails. With
	// nil, the search fails with ErrObjectDamaged.
	Broken func(key string, err error) error
}

// ArchivePage holds the events that a query found, the newest first. Copies of an event
// that differ are all in it; equal copies are in it once.
type ArchivePage struct {
	Found []*Archived
	// Down is the oldest event up to which the archive was searched, inclusive; the zero
	// place if it was searched to the end.
	Down Place
}

// Archived is an event and the object that holds it.
type Archived struct {
	Event api.AuditEvent
	Key   string
	// Misplaced is an error if the object's name hides the event from readers of its
	// target: somebody renamed the object.
	Misplaced error
}

// SameEvent reports whether two copies of an event are equal, apart from when and how they
// left the table.
func SameEvent(x, y *api.AuditEvent) bool {
	return x.ID == y.ID && x.Namespace == y.Namespace && x.Sequence == y.Sequence && x.AtMs == y.AtMs &&
		x.Target == y.Target && x.Action == y.Action && x.Who == y.Who &&
		string(x.Before) == string(y.Before) && string(x.After) == string(y.After) &&
		x.Previous == y.Previous && x.Key == y.Key && x.MAC == y.MAC
}
