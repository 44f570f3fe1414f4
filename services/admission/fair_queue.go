package admission

import "slices"

// fairQueue decides which items run, and which wait. A number of items run at a time, and
// those that wait take turns by key, in order of arrival within a key. A key has a bounded
// share of the places to run, so that slow items of one key never hold up another's, and
// no share of the places to wait that another key lacks.
//
// Whenever a place to run is free, each key that waits has its share at work.
type fairQueue[T comparable] struct {
	width int // items that run at a time
	share int // of them, of a key
	room  int // items that wait at most

	running int
	waiting int
	lines   map[string]*fairLine[T] // by key; of keys that run or wait
	turns   []string                // keys that wait, the next first
}

// fairLine holds the items of a key.
type fairLine[T comparable] struct {
	running int
	waiting []T // in order of arrival
}

func newFairQueue[T comparable](width, share, room int) fairQueue[T] {
	return fairQueue[T]{width: width, share: share, room: room, lines: map[string]*fairLine[T]{}}
}

// add takes an item. It reports whether the item runs now. If there is no room to wait,
// shed is the item that must leave instead: the newest of the key with the most items, or
// the given item if that key has hardly more than the item's.
func (q *fairQueue[T]) add(key string, item T) (runs bool, shed *T) {
	l := q.lines[key]
	if l == nil {
		l = &fairLine[T]{}
	}
	if q.running < q.width && l.running < q.share {
		q.lines[key] = l
		q.running++
		l.running++
		return true, nil
	}
	if q.waiting >= q.room {
		longest := q.longest()
		if longest == "" || len(q.lines[longest].waiting) < len(l.waiting)+2 {
			return false, &item
		}
		last := q.lines[longest].waiting[len(q.lines[longest].waiting)-1]
		q.remove(longest, last)
		shed = &last
	}
	q.lines[key] = l
	q.waiting++
	if l.waiting = append(l.waiting, item); len(l.waiting) == 1 {
		q.turns = append(q.turns, key)
	}
	return false, shed
}

// longest returns the key with the most items that wait.
func (q *fairQueue[T]) longest() (key string) {
	most := 0
	for _, k := range q.turns {
		if n := len(q.lines[k].waiting); n > most {
			key, most = k, n
		}
	}
	return key
}

// end ends an item that ran. If another item runs now, end returns it with its key.
func (q *fairQueue[T]) end(key string) (next T, nextKey string, ok bool) {
	q.running--
	q.lines[key].running--
	q.forget(key)
	for i, k := range q.turns {
		l := q.lines[k]
		if l.running >= q.share {
			continue
		}
		next = l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		q.turns = slices.Delete(q.turns, i, i+1)
		if len(l.waiting) > 0 {
			q.turns = append(q.turns, k)
		}
		q.waiting--
		q.running++
		l.running++
		return next, k, true
	}
	return next, "", false
}

// remove takes back an item that waits. It reports false if the item does not wait.
func (q *fairQueue[T]) remove(key string, item T) bool {
	l := q.lines[key]
	if l == nil {
		return false
	}
	i := slices.Index(l.waiting, item)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	q.waiting--
	if len(l.waiting) == 0 {
		q.turns = slices.DeleteFunc(q.turns, func(k string) bool { return k == key })
	}
	q.forget(key)
	return true
}

// forget drops a key without items.
func (q *fairQueue[T]) forget(key string) {
	if l := q.lines[key]; l.running == 0 && len(l.waiting) == 0 {
		delete(q.lines, key)
	}
}
