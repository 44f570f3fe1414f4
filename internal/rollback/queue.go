package rollback

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// maxWrites is the number of writes of a batch. More wait for the next.
	maxWrites = 500
	// contention is how long a group's writes are sent apart from those of other groups
	// after the server refused one of them. A refused write costs its whole batch, and so
	// may happen to other groups once in this time.
	contention = time.Second
)

// write is a write that waits or is under way.
type write struct {
	group   string // of the key: its first token
	message *nats.Msg
	done    chan struct{} // closed when sequence and err are set
	state   writeState    // guarded by queue.mu

	sequence uint64
	err      error
}

// writeState says whether a write can still be sent.
type writeState uint8

const (
	writeWaits writeState = iota
	writeTaken
	writeRemoved
)

func newWrite(key string, m *nats.Msg) *write {
	group, _, _ := strings.Cut(key, ".")
	return &write{group: group, message: m, done: make(chan struct{})}
}

func (w *write) end(sequence uint64, err error) {
	w.sequence, w.err = sequence, err
	close(w.done)
}

// queue holds the writes that wait. Groups take turns, so that a group with many writes
// delays the writes of others by a share of each batch.
type queue struct {
	wake chan struct{} // holds a signal while writes wait

	// owned by Guard.Run
	contended map[string]time.Time // groups with a refused write, until when they count as contended
	apart     bool                 // the last batch was of contended groups

	mu      sync.Mutex
	waiting map[string][]*write // by group, none empty; guarded by mu
	turns   []string            // the groups of waiting, the next first; guarded by mu
	closed  bool                // guarded by mu
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), waiting: map[string][]*write{}, contended: map[string]time.Time{}}
}

// add reports whether the queue takes a write: not once it is closed.
func (q *queue) add(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if len(q.waiting[w.group]) == 0 {
		q.turns = append(q.turns, w.group)
	}
	q.waiting[w.group] = append(q.waiting[w.group], w)
	q.remind()
	return true
}

func (q *queue) remind() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// remove reports whether a write still waited; it does no more.
func (q *queue) remove(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state == writeTaken {
		return false
	}
	w.state = writeRemoved // take drops it
	return true
}

// sent notes the groups of which the server refused a write.
func (q *queue) sent(batch []*write, now time.Time) {
	for _, w := range batch {
		if errors.Is(w.err, ErrRefused) {
			q.contended[w.group] = now.Add(contention)
		}
	}
}

// take removes the writes of the next batch, with a single write of each key. Batches of
// contended groups take turns with batches of the others, and are so small that their
// writes are sent separately: a write that is refused costs no other group's batch.
func (q *queue) take(now time.Time) (batch []*write) {
	for group, until := range q.contended {
		if !now.Before(until) {
			delete(q.contended, group)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for range 2 {
		q.apart = !q.apart
		most := maxWrites
		if q.apart {
			most = fewWrites
		}
		if batch = q.takeGroups(most); len(batch) > 0 {
			break
		}
	}
	if len(q.waiting) > 0 {
		q.remind()
	}
	return batch
}

// takeGroups removes up to a number of writes of the groups whose turn it is. The caller
// holds mu.
func (q *queue) takeGroups(most int) (batch []*write) {
	keys, held := map[string]bool{}, map[string][]*write{}
	for turn := 0; turn < len(q.turns) && len(batch) < most; {
		group := q.turns[turn]
		_, isContended := q.contended[group]
		if isContended != q.apart {
			turn++
			continue
		}
		w, rest := next(q.waiting[group], keys, func(same *write) { held[group] = append(held[group], same) })
		if w != nil {
			w.state = writeTaken
			keys[w.message.Subject] = true
			batch = append(batch, w)
		}
		q.turns = slices.Delete(q.turns, turn, turn+1)
		if q.waiting[group] = rest; len(rest) > 0 {
			q.turns = append(q.turns, group)
		}
	}
	for group, same := range held {
		if len(q.waiting[group]) == 0 {
			q.turns = append(q.turns, group)
		}
		q.waiting[group] = append(same, q.waiting[group]...)
	}
	for group, left := range q.waiting {
		if len(left) == 0 {
			delete(q.waiting, group)
		}
	}
	return batch
}

// next returns the first write that waits and whose key is not among keys, nil if there is
// no such write, and the writes behind it. It hands over the writes before it that wait.
func next(waiting []*write, keys map[string]bool, hold func(*write)) (w *write, rest []*write) {
	for i, w := range waiting {
		switch {
		case w.state == writeRemoved:
		case keys[w.message.Subject]:
			hold(w)
		default:
			return w, waiting[i+1:]
		}
	}
	return nil, nil
}
