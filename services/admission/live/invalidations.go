package live

import (
	"sync"
	"sync/atomic"

	"github.com/tidegate/tidegate/pkg/keys"
)

// Place is where configuration is stored: the limits of a config level, or the item of an
// entity. An empty part stands for every value.
type Place struct{ Namespace, Entity, Resource string }

// maxPlaces bounds the places that Invalidations remembers: about 1 MB.
const maxPlaces = 8192

// Invalidations remembers which places have changed since the node started. A bucket
// checks when it is next used whether a change concerns it, so an invalidation costs the
// same for any number of buckets.
//
// Invalidations are numbered. A bucket remembers the number up to which it has checked.
//
// The zero value is ready for use. All methods are safe for concurrent use.
type Invalidations struct {
	count atomic.Uint64 // invalidations so far

	mu      sync.RWMutex
	all     uint64           // guarded by mu: the last invalidation of every place
	missed  uint64           // guarded by mu: the last time that changes may have been missed
	changed map[Place]uint64 // guarded by mu: the last invalidation of each place
}

// Count returns the number of invalidations so far.
func (v *Invalidations) Count() uint64 { return v.count.Load() }

// Changed records that a place has changed.
func (v *Invalidations) Changed(p Place) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.changed[p]; !known && len(v.changed) >= maxPlaces {
		v.invalidateAll()
		return
	}
	if v.changed == nil {
		v.changed = make(map[Place]uint64)
	}
	v.changed[p] = v.count.Load() + 1
	v.count.Add(1) // last: a bucket that reads the count finds the change
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
	clear(v.changed)
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
		for _, entity := range [...]string{b.Entity, ""} {
			if v.changed[Place{namespace, entity, resource}] > seen || v.changed[Place{namespace, entity, ""}] > seen {
				return Outdated
			}
		}
	}
	if v.missed > seen {
		return Doubted
	}
	return Fresh
}
