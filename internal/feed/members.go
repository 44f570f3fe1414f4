package feed

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/pkg/events"
)

// membersBucket is the prefix of the KV buckets with the heartbeats of each service's
// members. An entry that is not renewed expires.
const membersBucket = "TIDEGATE_MEMBERS_"

// Members is a member's view of the running members of its group. It is used by
// a single goroutine at a time.
type Members struct {
	js     jetstream.JetStream
	bucket jetstream.KeyValueConfig
	self   string
	kv     jetstream.KeyValue // nil: must be opened, for the first time or after a failure
	listed bool               // an entry of the member may be in the bucket
}

// Membership describes a member of a group.
type Membership struct {
	Service  string        // names the group
	Member   string        // unique among its running members
	TTL      time.Duration // how long a member is believed to live that does not say so
	Replicas int           // of the group's KV bucket
}

// Join makes a member of a group: it sends the first heartbeat.
func Join(ctx context.Context, js jetstream.JetStream, m Membership) (*Members, error) {
	joined := &Members{js: js, self: m.Member, bucket: jetstream.KeyValueConfig{
		Bucket: membersBucket + m.Service, Description: "Who of " + m.Service + " lives", TTL: m.TTL, History: 1, Replicas: max(1, m.Replicas),
		Storage: jetstream.MemoryStorage, // members that lived before the server started do not matter
	}}
	if _, err := joined.Beat(ctx); err != nil {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
		defer cancel()
		return nil, errors.Join(err, joined.Leave(leaving))
	}
	return joined, nil
}

// open opens the group's bucket unless it is open, and makes it if it is missing.
func (m *Members) open(ctx context.Context) (err error) {
	if m.kv != nil {
		return nil
	}
	if m.kv, err = m.js.CreateOrUpdateKeyValue(ctx, m.bucket); err != nil {
		m.kv = nil
		return fmt.Errorf("open the group's bucket %s: %w", m.bucket.Bucket, err)
	}
	return nil
}

// Beat sends a heartbeat and returns the running members, itself included.
func (m *Members) Beat(ctx context.Context) (living []string, err error) {
	defer func() {
		if err != nil {
			m.kv = nil
		}
	}()
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	m.listed = true // an attempt that fails may be applied
	if _, err := m.kv.PutString(ctx, m.self, ""); err != nil {
		return nil, fmt.Errorf("send the heartbeat of %s: %w", m.self, err)
	}
	if living, err = keysOf(ctx, m.kv); err != nil {
		return nil, fmt.Errorf("list the running members: %w", err)
	}
	return living, nil
}

// keysOf returns the keys of a bucket. KeyValue.Keys of nats.go does not return if the
// connection is closed while it waits, whatever becomes of its context.
func keysOf(ctx context.Context, kv jetstream.KeyValue) (found []string, err error) {
	watcher, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes(), jetstream.MetaOnly())
	if err != nil {
		return nil, err
	}
	defer func() { _ = watcher.Stop() }() // it fails if the connection is closed
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case entry, open := <-watcher.Updates():
			switch {
			case !open:
				return nil, nats.ErrConnectionClosed
			case entry == nil: // the end of the list
				slices.Sort(found)
				return slices.Compact(found), nil
			}
			found = append(found, entry.Key())
		}
	}
}

// Leave removes the member from its group, so that the others take its work over at
// once. It does so after a heartbeat that failed too: Beat is often interrupted by the
// signal that stops the member.
func (m *Members) Leave(ctx context.Context) error {
	if !m.listed {
		return nil
	}
	if err := m.open(ctx); err != nil {
		return fmt.Errorf("leave the group: %w", err)
	}
	if err := m.kv.Purge(ctx, m.self); err != nil {
		return fmt.Errorf("leave the group: %w", err)
	}
	m.listed = false
	return nil
}

// Owner returns the member that owns a piece of work: the running member
// with the highest hash for it (rendezvous hashing). A member that comes or
// goes moves no work but its own. Owner returns "" if no member runs.
func Owner(work string, living []string) string {
	owner, highest := "", uint64(0)
	for _, m := range living {
		if w := weight(m, work); owner == "" || w > highest || (w == highest && m > owner) {
			owner, highest = m, w
		}
	}
	return owner
}

// lanesOf are the lanes of a member among the living.
func lanesOf(self string, living []string) map[int]bool {
	mine := make(map[int]bool)
	for lane := range events.Lanes {
		if Owner(strconv.Itoa(lane), living) == self {
			mine[lane] = true
		}
	}
	return mine
}

// weight hashes a member and a piece of work. FNV alone spreads short inputs
// badly over the high bits; the multiplications come from MurmurHash3's
// finalizer.
func weight(member, work string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, member+"/"+work)
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
