package admission

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// statusBytes is about what a limit of a status takes on the wire, without its names.
const statusBytes = 200

// balances reads the balances of buckets. It takes nothing from the node's memory and
// leaves nothing there: its reads are consistent, and come in batches.
type balances struct {
	env    *env
	client *dynamodb.Client // retries by itself
	table  string
	limits *config.LimitStore
}

func newBalances(e *env, client *dynamodb.Client, tableName string) *balances {
	return &balances{env: e, client: client, table: tableName, limits: config.NewLimitStore(client, tableName, nil)} // it is only read
}

// bucket returns the status of a bucket and of the ancestors' buckets that an acquire
// spends from as well.
func (s *balances) bucket(ctx context.Context, ns string, req api.StatusRequest) (*api.StatusReply, error) {
	read, err := s.read(ctx, ns, req.Entity, []string{req.Resource}, nil)
	if err != nil {
		return nil, err
	}
	levels, err := read.levelsOf(req.Resource, req.Consume)
	if err != nil {
		return nil, err
	}
	if len(req.Consume) == 0 {
		return &api.StatusReply{Limits: statusesOf(levels)}, nil
	}
	statuses, wait, allowed := verdictOver(levels, req.Consume)
	return &api.StatusReply{Allowed: &allowed, RetryAfterMs: wait, Never: wait == neverMs, Limits: statuses}, nil
}

// entity returns the status of a page of the buckets that the entity has spent from and
// still has limits for. Resources with an item that cannot be decoded are named. The page
// ends before it is too large for a reply.
func (s *balances) entity(ctx context.Context, ns string, req api.StatusRequest) (*api.StatusReply, error) {
	reply := &api.StatusReply{Limits: []api.LimitStatus{}}
	var resources []string
	var known []table.Item
	visit := func(item table.Item) (size int, err error) {
		key, err := table.BucketKey(item)
		if err != nil {
			return 0, err
		}
		known = append(known, item)
		if key.Shard > 0 {
			return 0, nil
		}
		resources = append(resources, key.Resource)
		return statusBytes, nil
	}
	steps := []store.Step{{Index: store.ByEntity, Query: keys.BucketsOf(ns, req.Entity)}}
	var err error
	reply.Cursor, err = store.Page(ctx, s.client, s.table, steps, store.PageRequest{Cursor: req.Cursor, Limit: req.Limit}, visit)
	if err != nil || len(resources) == 0 {
		return reply, err
	}
	read, err := s.read(ctx, ns, req.Entity, resources, known)
	if err != nil {
		return nil, err
	}
	size := 0
	for i, resource := range resources {
		if size += s.show(ctx, reply, read, resource); size >= store.PageBytes && i < len(resources)-1 {
			reply.Cursor = store.CursorBehind(keys.Bucket{Namespace: ns, Entity: req.Entity, Resource: resource})
			break
		}
	}
	return reply, nil
}

// show adds a bucket to the status of its entity, and returns the bytes that it takes on
// the wire.
func (s *balances) show(ctx context.Context, reply *api.StatusReply, read *lineRead, resource string) (size int) {
	levels, err := read.levelsOf(resource, nil)
	switch {
	case isNoLimits(err):
		return 0
	case err != nil:
		s.env.logStore(ctx, "read the status", keys.Bucket{Namespace: read.ns, Entity: read.entities[0], Resource: resource}, err)
		reply.Damaged = append(reply.Damaged, keys.ResourceText(resource))
		return len(resource)
	}
	for _, status := range statusesOf(levels) {
		status.Resource = keys.ResourceText(resource)
		reply.Limits = append(reply.Limits, status)
		if encoded, err := json.Marshal(status); err == nil { // exactly: names may have characters that are escaped
			size += len(encoded) + 1
		}
	}
	return size
}

// statusesOf lists the limits of all levels.
func statusesOf(levels []*result) (statuses []api.LimitStatus) {
	for _, l := range levels {
		statuses = append(statuses, l.statuses(nil)...)
	}
	return statuses
}

// lineRead holds buckets of an entity, and those of its ancestors that acquires of the
// entity spend from as well.
type lineRead struct {
	ns       string
	now      bucket.Instant
	entities []string // the child first
	settings []map[string]config.Resolution
	buckets  []map[keys.Bucket]*shards.Found
}

// read reads the buckets of an entity for several resources, with the ancestors'. known
// has items of the entity's own buckets that a consistent read brought already. An error
// fails all buckets; a level that cannot be decoded fails its bucket alone.
func (s *balances) read(ctx context.Context, ns, entity string, resources []string, known []table.Item) (*lineRead, error) {
	read := &lineRead{ns: ns}
	names := resources // of limits
	wanted := make([]keys.Bucket, 0, len(resources))
	for _, resource := range resources {
		wanted = append(wanted, keys.Bucket{Namespace: ns, Entity: entity, Resource: resource})
	}
	for len(read.entities) < maxLevels && entity != "" && !slices.Contains(read.entities, entity) {
		names = baseResources(names)
		settings, err := s.limits.ResolveMany(ctx, ns, entity, names)
		if err != nil {
			return nil, err
		}
		found, err := shards.ReadMany(ctx, s.client, s.table, wanted, known)
		if err != nil {
			return nil, err
		}
		read.entities, read.settings, read.buckets = append(read.entities, entity), append(read.settings, settings), append(read.buckets, found)
		parent := "" // the same for all resources, of those that can be decoded
		for _, of := range settings {
			if of.Err == nil || isNoLimits(of.Err) {
				parent = parentOf(entity, &of.Resolved)
			}
		}
		entity, known, wanted = parent, nil, wanted[:0]
		for _, name := range names {
			wanted = append(wanted, keys.Bucket{Namespace: ns, Entity: parent, Resource: name})
		}
	}
	var err error
	read.now, err = s.env.clock.Now() // after the reads: at an earlier time, a balance before its last spend would look like debt
	return read, err
}

// baseResources returns the resources that limits are stored for, each once.
func baseResources(resources []string) []string {
	var names []string
	seen := make(map[string]bool, len(resources))
	for _, resource := range resources {
		if base, _ := baseResource(resource); !seen[base] {
			seen[base] = true
			names = append(names, base)
		}
	}
	return names
}

// levelsOf returns the cascade levels that an acquire of the child would spend from,
// levels without limits left out. It fails with the child's refusal if no level has
// limits, and if no level has a limit that amounts name.
func (r *lineRead) levelsOf(resource string, amounts api.Amounts) ([]*result, error) {
	var levels []*result
	var settings []levelSettings
	var none error
	for i, entity := range r.entities {
		key := keys.Bucket{Namespace: r.ns, Entity: entity, Resource: resource}
		if i > 0 {
			key = parentBucket(key, entity)
		}
		state, err := r.state(i, key)
		switch {
		case err != nil:
			return nil, err
		case state.err == nil:
			levels, settings = append(levels, state), append(settings, levelSettings{key, state.settings})
		case i == 0:
			none = state.err
		}
	}
	if len(levels) == 0 {
		return nil, none
	}
	return levels, unknownAt(settings, amounts)
}

// state returns the state of a level's bucket; a bucket that does not exist is full. If
// the bucket has no limits, the state's err is the refusal.
func (r *lineRead) state(level int, key keys.Bucket) (*result, error) {
	base, override := baseResource(key.Resource)
	resolved, found := r.settings[level][base], r.buckets[level][key]
	if resolved.Err != nil && !isNoLimits(resolved.Err) {
		return nil, resolved.Err
	}
	if found.Err != nil {
		return nil, found.Err
	}
	settings, item := resolved.Resolved, found.Shards.Find(0)
	state := &result{shardResult: shardResult{settings: &settings, now: r.now}}
	switch {
	case override && item == nil:
		state.err = errNotBrought()
	case override:
		settings = settings.With(item.LimitSettings()) // it never gets others
	default:
		state.err = resolved.Err
	}
	if state.err != nil {
		return state, nil //nolint:nilerr // the refusal is part of the state
	}
	state.item = inForce(r.now, key, item, &settings)
	if item != nil {
		state.addOthers(treeInForce(r.now, found.Shards, &settings))
	}
	return state, nil
}

// wholeOf adds the other shards to the result of a shard, under its settings. If they
// cannot be read until ctx ends, the result shows its shard alone.
func (r *router) wholeOf(ctx context.Context, res *result) {
	if res.item.Level == 1 || res.others != nil {
		return
	}
	key := res.item.Key
	key.Shard = 0
	tree, err := r.member(key).bucket().tree(ctx)
	if err != nil {
		return
	}
	if res.settings != nil {
		tree = treeInForce(res.now, tree, res.settings)
	}
	res.addOthers(tree)
}

// isOutage reports an error that the unavailable policy answers: the store, its clock, or
// the settings could not be relied on.
func isOutage(err error) bool {
	var coded *api.Error
	if errors.As(err, &coded) {
		return coded.Code == api.CodeUnavailable
	}
	for _, outage := range []error{errStoreDown, errStoreSlow, errUnknown, errSettingsGet, errUnsettled, store.ErrClockSkewed, store.ErrClockUnchecked} {
		if errors.Is(err, outage) {
			return true
		}
	}
	return false
}
