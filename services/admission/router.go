package admission

import (
	"context"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// formTree is a read of all shards of a bucket, as metrics name it.
const formTree = "read shards"

// maxTimeout bounds the work on the shards of a bucket that no call waits for.
const maxTimeout = time.Minute

// router finds the writers that an operation needs: for an acquire the cascade levels, and
// for a bucket its shards. Only the router knows that buckets have
// several shards and entities have ancestors.
type router struct {
	env     *env
	shards  *shards.Store
	publish func(subject string, data []byte) error // of load reports
	loads   loads

	members *remembered
}

// newRouter makes a router that remembers shards within a number of bytes, least recently
// used dropped first.
func newRouter(e *env, s *shards.Store, remember int64, publish func(string, []byte) error) (*router, error) {
	members, err := newRemembered(remember)
	if err != nil {
		return nil, err
	}
	return &router{env: e, shards: s, publish: publish, members: members}, nil
}

// member returns a shard, a new member where it is not remembered.
func (r *router) member(key keys.Bucket) *member {
	return r.members.get(key, func() *member {
		// The names are part of a request's body, which must not live as long.
		key.Entity, key.Resource = strings.Clone(key.Entity), strings.Clone(key.Resource)
		m := &member{router: r}
		m.writer.init(r.env, key, m)
		return m
	})
}

// memberOf returns a shard of a bucket. If given is not empty, these are the limits of an
// override bucket.
func (r *router) memberOf(key keys.Bucket, given []bucket.Limit) *member {
	m := r.member(key)
	if len(given) > 0 {
		m.writer.settings.give(given)
	}
	return m
}

// snapshotOf returns the last snapshot of a shard, nil where the shard is not remembered.
func (r *router) snapshotOf(key keys.Bucket) *snapshot {
	if m := r.members.peek(key); m != nil {
		return m.writer.known.seen.Load()
	}
	return nil
}

// readTree reads a whole bucket. A throttled read is repeated until ctx ends.
func (r *router) readTree(ctx context.Context, key keys.Bucket, hint int) (shards.Tree, error) {
	for n := 0; ; n++ {
		asked := r.env.clock.Mono()
		tree, err := r.shards.Read(ctx, key, hint)
		r.env.metrics.storeCall(formTree, r.env.clock.Mono()-asked, err)
		if err == nil || !isThrottle(err) || store.Pause(ctx, n) != nil {
			return tree, err
		}
	}
}
