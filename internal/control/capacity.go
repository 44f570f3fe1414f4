package control

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	byResource = 2 // GSI2: the buckets of a resource

	// rowBytes is the largest row on the wire: the longest names, and the most
	// limits. An entity's limits are known only after the page is read.
	rowBytes = 96 + 256 + api.MaxLimits*(96+64)
)

// Capacity reports the balances of buckets. It is safe for concurrent use.
//
// An item of an entity that cannot be decoded is told in the entity's row; a config
// that entities share and that cannot be decoded is the error table.ErrDamaged.
// Namespaces are ids (11 characters). An error that is an *api.Error is the
// caller's and final; every other error is a failure of the store.
type Capacity struct {
	client *dynamodb.Client
	table  string
	now    func() (bucket.Instant, error)
}

// NewCapacity returns a store on a table. Balances are as of now, which
// fails while the store's time is unknown.
func NewCapacity(client *dynamodb.Client, tableName string, now func() (bucket.Instant, error)) *Capacity {
	return &Capacity{client: client, table: tableName, now: now}
}

// Page returns a page of the report. Buckets that are made while the pages are
// read may or may not be in it; all others are, once. A bucket made a moment
// ago may be missing: indexes follow the table.
func (s *Capacity) Page(ctx context.Context, ns string, req api.CapacityRequest) (api.CapacityReply, error) {
	if err := api.CheckResource(req.Resource); err != nil {
		return api.CapacityReply{}, err
	}
	p := capacityPage{store: s, ns: ns, resource: req.Resource, found: map[string]*holding{}}
	p.Totals, p.Entities = api.CapacityTotals{}, []api.EntityCapacity{} // arrays on the wire
	if err := p.fill(ctx, store.PageRequest{Cursor: req.Cursor, Limit: req.Limit}); err != nil {
		return api.CapacityReply{}, fmt.Errorf("report the capacity of resource %s: %w", req.Resource, err)
	}
	return p.CapacityReply, nil
}

// stepsOf are the partitions of the index that list a resource's buckets.
func stepsOf(ns, resource string) []store.Step {
	partitions := keys.CapacityPartitions(ns, resource)
	steps := make([]store.Step, len(partitions))
	for i, pk := range partitions {
		steps[i] = store.Step{Index: byResource, Query: keys.Query{PK: pk}}
	}
	return steps
}

// capacityPage is a page under construction.
type capacityPage struct {
	api.CapacityReply
	store        *Capacity
	ns, resource string

	shared   [2]*table.Config    // the resource's level and the system's; nil if not stored
	entities []string            // that have a bucket, in the order of the list
	firsts   []table.Item        // their shards 0
	found    map[string]*holding // by entity
}

// fill reads a page of buckets, and then all that belongs to them.
func (p *capacityPage) fill(ctx context.Context, req store.PageRequest) (err error) {
	if p.Cursor, err = store.Page(ctx, p.store.client, p.store.table, stepsOf(p.ns, p.resource), req, p.visit); err != nil {
		return err
	}
	if len(p.entities) == 0 {
		return nil
	}
	if err := p.readConfigs(ctx); err != nil {
		return err
	}
	if err := p.readTrees(ctx); err != nil {
		return err
	}
	now, err := p.store.now() // after the reads: at an earlier time, a balance before its last spend would look like debt
	if err != nil {
		return err
	}
	p.add(now)
	return nil
}

// visit keeps a bucket's first shard, which stands for its entity.
func (p *capacityPage) visit(item table.Item) (size int, err error) {
	key, err := table.BucketKey(item)
	if err != nil || key.Shard != 0 {
		return 0, err
	}
	p.entities = append(p.entities, key.Entity)
	p.firsts = append(p.firsts, item)
	p.found[key.Entity] = &holding{}
	return rowBytes, nil
}

// add adds the rows. It skips buckets that were deleted after they were listed. It
// names an entity with a damaged item but does not count it.
func (p *capacityPage) add(now bucket.Instant) {
	for _, entity := range p.entities {
		h := p.found[entity]
		if h.damaged {
			p.Entities = append(p.Entities, api.EntityCapacity{Entity: entity, Shards: int64(len(h.shards)), Limits: []api.LimitCapacity{}, Damaged: true})
			continue
		}
		if len(h.shards) == 0 {
			continue
		}
		row := api.EntityCapacity{Entity: entity, Shards: int64(len(h.shards)), Limits: []api.LimitCapacity{}, Changing: h.changing}
		if winner := config.Winner([...]*table.Config{h.own[0], h.own[1], p.shared[0], p.shared[1]}); winner != nil && !h.changing {
			row.Limits = capacities(config.BucketLimits(winner.Limits), h.shards, now)
		}
		p.Totals.Count(row.Limits)
		p.Entities = append(p.Entities, row)
	}
}

// capacities returns the limits' capacities and balances over the shards of a bucket,
// with each shard converted to the limits' settings as a sync would.
func capacities(settings []bucket.Limit, tree shards.Tree, now bucket.Instant) []api.LimitCapacity {
	standing := make([]api.LimitCapacity, len(settings))
	for i, l := range settings {
		pool := bucket.Pool{Limit: l, Shards: make([]bucket.ShardDrawn, len(tree))}
		for j, item := range tree {
			pool.Shards[j] = bucket.ShardDrawn{Shard: item.Shard(), Drawn: drawn(l, item, now)}
		}
		standing[i] = api.LimitCapacity{Name: l.Name, Capacity: bucket.Floor(l.Capacity), Available: bucket.Floor(pool.Available(now))}
	}
	return standing
}

// drawn converts a shard's drawn count to a limit's current settings: the shard keeps
// the shortfall that it has under the settings of its last sync. If the shard does not
// have the limit, drawn returns the count of a full shard.
func drawn(l bucket.Limit, item *table.Bucket, now bucket.Instant) int64 {
	window := l.Window(item.Shard(), now)
	old := item.Find(l.Name)
	if old == nil {
		return window.Full()
	}
	return old.Drawn + window.Refilled - old.Window(item.Shard(), now).Refilled
}
