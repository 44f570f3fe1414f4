package admission

import (
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

const (
	// paceTime is the shortest time over which a shard's pace is measured.
	paceTime = 200 * time.Millisecond
	// hotPace is the pace from which a shard is left alone as if it had been throttled:
	// 90 % of the 1,000 write units per second that its partition lets through.
	hotPace = 900
)

// member is a bucket shard that the router remembers: its writer, its load, and, of
// shard 0, the state of its bucket. It records what the writer learns.
type member struct {
	router *router
	writer writer
	load   load
	pace   pace                        // owned by the writer's flight
	state  atomic.Pointer[bucketState] // of shard 0; nil while it is not needed
	weight atomic.Int64                // accounted bytes; written under the lock of remembered
}

// pace is the number of units that all nodes together have written to a shard.
type pace struct {
	at    time.Duration // monotonic, of the first write that was measured
	units int64         // that the shard had cost then
}

// shard returns another shard of the bucket.
func (m *member) shard(number int) *member {
	if number == m.writer.key.Shard {
		return m
	}
	key := m.writer.key
	key.Shard = number
	of := m.router.member(key)
	if given := m.writer.settings.given.Load(); given != nil {
		of.writer.settings.give(*given)
	}
	return of
}

// parent returns the shard that takes the shard over when it is merged.
func (m *member) parent() *member {
	return m.shard(bucket.Shard{Index: m.writer.key.Shard}.Parent())
}

// bucket returns the state of the bucket that the shard is part of.
func (m *member) bucket() *bucketState {
	if m.writer.key.Shard != 0 {
		return m.shard(0).bucket()
	}
	if m.state.Load() == nil {
		m.state.CompareAndSwap(nil, &bucketState{router: m.router, first: m})
	}
	return m.state.Load()
}

// denied implements recorder.
func (m *member) denied() { m.currentLoad().denied.Add(1) }

// refused implements recorder.
func (m *member) refused(units int64) {
	m.currentLoad().refused.Add(units)
	m.tell()
}

// throttled implements recorder.
func (m *member) throttled(units int64, dearest map[string]int64) {
	m.currentLoad().throttled.Add(units)
	m.tell()
	b := m.bucket()
	b.noteHot(m.writer.key.Shard)
	b.relieve(m.writer.settings.last(), dearest)
}

// written implements recorder.
func (m *member) written(item *table.Bucket, counted bool) {
	if counted {
		m.currentLoad().refused.Store(0)
	}
	if item.Level == 1 {
		return
	}
	m.notePace(item)
	if now, err := m.router.env.clock.Now(); err == nil && (&result{shardResult: shardResult{item: item, now: now}}).indebted() {
		m.bucket().noteDebt()
	}
}

// learned implements recorder.
func (m *member) learned() { m.router.members.weigh(m) }

// notePace measures how fast a divided bucket's shard is written to, by its own counter.
// A shard that several nodes chose is left before its partition throttles them.
func (m *member) notePace(item *table.Bucket) {
	now := m.router.env.clock.Mono()
	since := now - m.pace.at
	if since < paceTime {
		return
	}
	if units := item.WriteUnits - m.pace.units; since < 2*paceTime && units*int64(time.Second) >= hotPace*int64(since) {
		m.bucket().noteHot(m.writer.key.Shard)
	}
	m.pace = pace{at: now, units: item.WriteUnits}
}
