package admission

import (
	"sync"
	"sync/atomic"

	"github.com/tidegate/tidegate/pkg/keys"
)

// place is where configuration is stored: the limits of a level, or the entity's
// own item at an entity. Empty parts stand for all.
type place struct{ namespace, entity, resource string }

// maxPlaces bounds what news remembers: about 1 MB.
const maxPlaces = 8192

// news is what a node has heard of changes of configuration. A bucket asks it,
// when it is next used, whether it is concerned: so hearing of a change costs the
// same however many buckets there are.
//
// Changes are counted. A bucket remembers up to which it has looked.
type news struct {
	heard atomic.Uint64 // changes so far

	mu      sync.RWMutex
	all     uint64           // guarded by mu: the last change that concerns everything
	missed  uint64           // guarded by mu: when changes may have been missed last
	changed map[place]uint64 // guarded by mu: the last change of each place
}

// hear takes in that a place has changed.
func (n *news) hear(p place) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.changed[p]; !known && len(n.changed) >= maxPlaces {
		n.forget()
		return
	}
	if n.changed == nil {
		n.changed = make(map[place]uint64)
	}
	n.changed[p] = n.heard.Load() + 1
	n.heard.Add(1) // last: who sees the count finds the change
}

// hearAll takes in that anything may have changed.
func (n *news) hearAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget()
}

// miss takes in that changes may have been missed, and perhaps none was made.
func (n *news) miss() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.missed = n.heard.Load() + 1
	n.heard.Add(1)
}

// forget lets everything count as changed, in place of what is remembered; n.mu is
// held.
func (n *news) forget() {
	clear(n.changed)
	n.all = n.heard.Load() + 1
	n.heard.Add(1)
}

// concern is what news means for a bucket.
type concern uint8

const (
	concernNone    concern = iota
	concernMissed          // a change may have been missed
	concernChanged         // what governs the bucket has changed
)

// concerns returns what changes after those that were looked at mean for a bucket.
func (n *news) concerns(b keys.Bucket, seen uint64) concern {
	resource, _ := baseResource(b.Resource)
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.all > seen {
		return concernChanged
	}
	for _, namespace := range [...]string{b.Namespace, ""} {
		for _, entity := range [...]string{b.Entity, ""} {
			if n.changed[place{namespace, entity, resource}] > seen || n.changed[place{namespace, entity, ""}] > seen {
				return concernChanged
			}
		}
	}
	if n.missed > seen {
		return concernMissed
	}
	return concernNone
}
