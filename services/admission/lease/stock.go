package lease

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidegate/tidegate/pkg/bucket"
)

var (
	// errNoShare says that a namespace has records for as many leases as it may.
	errNoShare = errors.New("the namespace has as many settled leases as their records have room for")
	// errNoRoom says that there is no room for a new record of any namespace.
	errNoRoom = errors.New("there is no room for the records of more settled leases")
)

const (
	// stockSlots is the number of time slots of a record's life in which bytes are counted.
	stockSlots = 8
	// reservedPart is the part of the records' maximum size that is left for records that
	// replace others, and for the nodes' own keys: a sixteenth.
	reservedPart = 16
	// recordOverhead is about the size of a record's headers and of JetStream's own data for
	// it, in bytes.
	recordOverhead = 100
	// storedNamespaces bounds the namespaces of a stored stock: those with the most bytes.
	storedNamespaces = 256
)

// slotBytes are bytes of records by the time slot in which the records were stored.
type slotBytes map[int64]int64

// stocks are the bytes of the records of each namespace, as one node stored them.
type stocks map[string]slotBytes

// stock knows how much room lease records take, and how much of it each namespace has. A
// namespace may have as many bytes as are free: a single greedy namespace gets half of the
// room, two get a third each, and there is always room left for the others. While less than
// half of the room is taken, the rule refuses nothing. It is safe for concurrent use.
//
// Each node counts the records that it stores and stores its counts among the records, so
// that they outlive the node and are forgotten with its records. A record that moves between nodes
// may count twice.
type stock struct {
	slot time.Duration // a record lives for stockSlots of them

	mu    sync.Mutex
	taken int64  // bytes, as NATS told last and stored here since; guarded by mu
	most  int64  // the records' maximum size, 0 while unknown or unbounded; guarded by mu
	own   stocks // guarded by mu
	other stocks // of the other nodes, living or not, as read last; guarded by mu
	dirty bool   // own has changed since it was stored; guarded by mu
}

func newStock(life time.Duration) *stock {
	return &stock{slot: max(life/stockSlots, time.Millisecond), own: stocks{}, other: stocks{}}
}

// slotOf returns the time slot of an instant.
func (s *stock) slotOf(now bucket.Instant) int64 { return int64(now) / s.slot.Milliseconds() }

// told records the size that NATS reports.
func (s *stock) told(taken, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken, s.most = taken, max(0, most)
}

// size returns the bytes that are taken and the maximum, 0 if it is unknown.
func (s *stock) size() (taken, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, s.most
}

// check returns errNoRoom or errNoShare if a namespace may not store a new record.
func (s *stock) check(namespace string, now bucket.Instant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most == 0 {
		return nil
	}
	free, oldest := s.most-s.most/reservedPart-s.taken, s.slotOf(now)-stockSlots
	switch {
	case free <= 0:
		return errNoRoom
	case s.own[namespace].since(oldest)+s.other[namespace].since(oldest) > free:
		return errNoShare
	}
	return nil
}

// stored counts a record of a namespace. A record that replaces another takes no more room,
// and lives for as long as a new one: the bytes of the oldest records move.
func (s *stock) stored(namespace string, size int64, replaces bool, now bucket.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.own[namespace]
	if of == nil {
		of = slotBytes{}
		s.own[namespace] = of
	}
	at := s.slotOf(now)
	if replaces {
		of.drop(size)
	} else {
		s.taken += size
	}
	of[at] += size
	s.dirty = true
}

// forget drops what was counted longer ago than a record lives.
func (s *stock) forget(now bucket.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, of := range s.own {
		maps.DeleteFunc(of, func(slot, _ int64) bool { return slot < s.slotOf(now)-stockSlots })
		if len(of) == 0 {
			delete(s.own, namespace)
		}
	}
}

// toStore returns the counts of this node, if they have changed since they were stored.
func (s *stock) toStore() (stocks, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dirty {
		return nil, false
	}
	s.dirty = false
	largest := slices.SortedFunc(maps.Keys(s.own), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.own[b].since(0), s.own[a].since(0)), cmp.Compare(a, b))
	})
	copied := stocks{}
	for _, namespace := range largest[:min(len(largest), storedNamespaces)] {
		copied[namespace] = maps.Clone(s.own[namespace])
	}
	return copied, true
}

// notStored says that the counts of toStore could not be stored.
func (s *stock) notStored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = true
}

// hears takes in the counts of all other nodes.
func (s *stock) hears(all []stocks) {
	sum := stocks{}
	for _, of := range all {
		for namespace, slots := range of {
			if sum[namespace] == nil {
				sum[namespace] = slotBytes{}
			}
			for slot, bytes := range slots {
				sum[namespace][slot] += bytes
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other = sum
}

// since returns the bytes of records that were stored in a slot or later.
func (b slotBytes) since(oldest int64) (sum int64) {
	for slot, bytes := range b {
		if slot >= oldest {
			sum += bytes
		}
	}
	return sum
}

// drop removes bytes, of the oldest slots first.
func (b slotBytes) drop(bytes int64) {
	for _, slot := range slices.Sorted(maps.Keys(b)) {
		n := min(bytes, b[slot])
		if b[slot] -= n; b[slot] == 0 {
			delete(b, slot)
		}
		if bytes -= n; bytes == 0 {
			return
		}
	}
}
