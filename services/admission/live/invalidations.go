package live

import (
	"sync"
	"sync/atomic"

	"github.com/tidegate/tidegate/pkg/keys"
)

// Place is where configuration is stored: the limits of a config level, or the item of an
// entity. An empty part stands for every value.
type Place struct{ Namespace, Entity, Resource string }

const (
	// maxPlaces bounds the places that Invalidations remembers of all namespaces, and the
	// namespaces: about 2 MB with usual names, 8 MB with the longest.
	maxPlaces = 16384
	// maxNamespacePlaces bounds the places of a namespace, so that a single namespace
	// cannot push out what is remembered of others.
	maxNamespacePlaces = 1024
)

// Invalidations remembers which places have changed since the node started. A bucket
// checks when it is next used whether a change concerns it, so an invalidation costs the
// same for any number of buckets.
//
// The memory is bounded by namespace: if more places of a namespace change than are
// remembered, all of that namespace counts as changed, and nothing of other namespaces.
//
// Invalidations are numbered. A bucket remembers the number up to which it has checked.
//
// The zero value is ready for use. All methods are safe for concurrent use.
type Invalidations struct {
	count atomic.Uint64 // invalidations so far

	mu         sync.RWMutex
	all        uint64                      // guarded by mu: the last invalidation of every place
	missed     uint64                      // guarded by mu: the last time that changes may have been missed
	places     int                         // guarded by mu: remembered, of all namespaces
	namespaces map[string]*namespaceChange // guarded by mu: by id; "" for places of every namespace
}

// namespaceChange holds the changes of a namespace.
type namespaceChange struct {
	all     uint64           // the last invalidation of all its places
	changed map[Place]uint64 // the last invalidation of each place
}

// Count returns the number of invalidations so far.
func (v *Invalidations) Count() uint64 { return v.count.Load() }

// Changed records that a place has changed.
func (v *Invalidations) Changed(p Place) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.namespaces[p.Namespace]
	if n == nil {
		if len(v.namespaces) >= maxPlaces {
			v.invalidateAll()
			return
		}
		if v.namespaces == nil {
			v.namespaces = make(map[string]*namespaceChange)
		}
		n = &namespaceChange{changed: make(map[Place]uint64)}
		v.namespaces[p.Namespace] = n
	}
	number := v.count.Load() + 1
	if _, known := n.changed[p]; !known {
		if len(n.changed) >= maxNamespacePlaces {
			v.collapse(n, number)
			v.count.Add(1)
			return
		}
		if v.places >= maxPlaces {
			v.collapse(v.largest(), number)
		}
		v.places++
	}
	n.changed[p] = number
	v.count.Add(1) // last: a bucket that reads the count finds the change
}

// collapse counts every place of a namespace as changed, and forgets the single places.
// The caller holds v.mu.
func (v *Invalidations) collapse(n *namespaceChange, number uint64) {
	v.places -= len(n.changed)
	n.changed, n.all = make(map[Place]uint64), number // clear would keep the map's memory
}

// largest returns the namespace with the most places. The caller holds v.mu.
func (v *Invalidations) largest() (most *namespaceChange) {
	for _, n := range v.namespaces {
		if most == nil || len(n.changed) > len(most.changed) {
			most = n
		}
	}
	return most
}

// AllChanged records that any place may have changed.
func (v *Invalidations) AllChanged() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.invalidateAll()
}

// Missed records that changes may have been missed. Perhaps nothing has changed.
func (v *Invalidations) Missed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.missed = v.count.Load() + 1
	v.count.Add(1)
}

// invalidateAll counts every place as changed and forgets the single places. The caller
// holds v.mu.
func (v *Invalidations) invalidateAll() {
	v.namespaces, v.places = nil, 0
	v.all = v.count.Load() + 1
	v.count.Add(1)
}

// Freshness tells how far a bucket can trust settings that it has read.
type Freshness uint8

// The degrees of freshness.
const (
	Fresh    Freshness = iota // no change concerns the bucket
	Doubted                   // a change may have been missed
	Outdated                  // a change concerns the bucket
)

// Since returns the freshness of settings of a bucket that has checked the first seen
// invalidations. An override bucket is subject to the places of its base resource.
func (v *Invalidations) Since(b keys.Bucket, seen uint64) Freshness {
	resource := b.Resource
	if base, _, override := keys.ParseOverride(resource); override {
		resource = base
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.all > seen {
		return Outdated
	}
	for _, namespace := range [...]string{b.Namespace, ""} {
		n := v.namespaces[namespace]
		if n == nil {
			continue
		}
		if n.all > seen {
			return Outdated
		}
		for _, entity := range [...]string{b.Entity, ""} {
			if n.changed[Place{namespace, entity, resource}] > seen || n.changed[Place{namespace, entity, ""}] > seen {
				return Outdated
			}
		}
	}
	if v.missed > seen {
		return Doubted
	}
	return Fresh
}
