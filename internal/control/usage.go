package control

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Sizes on the wire, at most: a snapshot without its limits, and a limit.
const (
	snapshotBytes = 512
	limitBytes    = 64 + 40
)

// Usage reads usage snapshots. It is safe for concurrent use.
//
// Namespaces are ids (11 characters). An error that is an *api.Error is the
// caller's and final; every other error is a failure of the store.
type Usage struct {
	client *dynamodb.Client
	table  string
}

// NewUsage returns a store on a table.
func NewUsage(client *dynamodb.Client, tableName string) *Usage {
	return &Usage{client: client, table: tableName}
}

// List returns a page of an entity's snapshots, by resource and then by time.
func (s *Usage) List(ctx context.Context, ns string, q api.UsageRequest) (api.UsageListReply, error) {
	reply := api.UsageListReply{Snapshots: []api.UsageSnapshot{}} // an array on the wire
	cursor, err := s.page(ctx, ns, q, func(one api.UsageSnapshot) { reply.Snapshots = append(reply.Snapshots, one) })
	if err != nil {
		return api.UsageListReply{}, err
	}
	reply.Cursor = cursor
	return reply, nil
}

// Summary sums up a page of List.
func (s *Usage) Summary(ctx context.Context, ns string, q api.UsageRequest) (api.UsageSummaryReply, error) {
	reply := api.UsageSummaryReply{Totals: api.UsageTotals{}} // an array on the wire
	cursor, err := s.page(ctx, ns, q, reply.Totals.Count)
	if err != nil {
		return api.UsageSummaryReply{}, err
	}
	reply.Cursor = cursor
	return reply, nil
}

// page shows the snapshots of a page and returns the cursor of the next.
func (s *Usage) page(ctx context.Context, ns string, q api.UsageRequest, show func(api.UsageSnapshot)) (cursor string, err error) {
	if err := q.Check(); err != nil {
		return "", err
	}
	if q.Window == "" {
		q.Window = api.WindowHourly
	}
	wanted := span{window: q.Window, fromMs: q.FromMs, toMs: q.ToMs}
	if wanted.toMs == 0 {
		wanted.toMs = math.MaxInt64
	}
	visit := func(item table.Item) (size int, err error) {
		u, err := table.DecodeUsage(item)
		if err != nil {
			return 0, err
		}
		one, ok, err := wanted.snapshot(u)
		if err != nil || !ok {
			return 0, err
		}
		show(one)
		return snapshotBytes + len(one.Limits)*limitBytes, nil
	}
	cursor, err = store.Page(ctx, s.client, s.table, usageSteps(ns, q, wanted), store.PageRequest{Cursor: q.Cursor, Limit: q.Limit}, visit)
	if err != nil {
		return "", fmt.Errorf("read the usage of entity %s: %w", q.Entity, err)
	}
	return cursor, nil
}

// span is which snapshots are asked for.
type span struct {
	window       api.Window
	fromMs, toMs int64
}

// last is the last moment that keys have.
func last() time.Time { return time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC) }

// starts bounds the keys of the requested snapshots.
func (s span) starts() (from, to string) {
	latest := last().UnixMilli()
	first, _ := s.window.Span(min(s.fromMs, latest))
	return keys.UsageStart(first), keys.UsageStart(time.UnixMilli(min(s.toMs, latest)))
}

// usageSteps are the queries that find a request's snapshots, and others.
func usageSteps(ns string, q api.UsageRequest, wanted span) []store.Step {
	if q.Resource == "" {
		return []store.Step{{Query: keys.UsageOf(ns, q.Entity, "", "")}}
	}
	from, to := wanted.starts()
	return []store.Step{
		{Query: keys.UsageBetween(keys.UsageOf(ns, q.Entity, q.Resource, string(q.Window)), from, to)},
		{Query: keys.UsageOfOverrides(ns, q.Entity, q.Resource)},
	}
}

// snapshot returns a snapshot in wire form; ok is false if it was not requested.
func (s span) snapshot(u *table.Usage) (one api.UsageSnapshot, ok bool, err error) {
	if u.Key.Window != string(s.window) {
		return one, false, nil
	}
	start, err := keys.ParseUsageStart(u.Key.Start)
	if err != nil {
		return one, false, fmt.Errorf("%w: usage snapshot %s: %w", table.ErrDamaged, u.Key.Key().SK, err)
	}
	_, end := s.window.Span(start.UnixMilli())
	if end.UnixMilli() <= s.fromMs || start.UnixMilli() > s.toMs {
		return one, false, nil
	}
	one = api.UsageSnapshot{
		Resource: u.Key.Resource, Window: s.window, StartMs: start.UnixMilli(), EndMs: end.UnixMilli(),
		Acquires: u.Acquires, Limits: make([]api.LimitUsage, len(u.Used)),
	}
	if resource, fingerprint, isOverride := keys.ParseOverride(u.Key.Resource); isOverride {
		one.Resource, one.Override = resource, fingerprint
	}
	for i, l := range u.Used {
		one.Limits[i] = api.LimitUsage{Name: l.Limit, Used: l.Tokens}
	}
	return one, true, nil
}
