package config

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// purgeItems is how many items one step of a purge removes at most: few
// enough for the time of one request.
const purgeItems = 500

// Purge does one step of removing all that a deleted namespace holds. The first
// step marks the namespace, so that nothing brings half of it back; the last one
// removes it from the registry, so that its name is free. A namespace counts as empty
// if the index shows nothing twice, an index lag apart: then every write from before the
// purge was marked is in the index. What is left says
// where to go on: a purge that was broken off is finished by whoever asks again.
//
// It fails with the code conflict for a namespace that is not deleted, and with
// the code unknown_namespace for one that is not there, or no more.
func (o *NamespaceOperator) Purge(ctx context.Context, name string, by api.Principal) (api.NamespacePurgeReply, error) {
	n, err := o.alter(ctx, name, by, api.AuditNamespacePurge, func(n *table.Namespace, nowMs int64) error {
		if !n.Deleted() {
			return api.Errorf(api.CodeConflict, "name", "the namespace %q is in use: delete it first, with: tidegate namespace delete %s", name, name)
		}
		if n.PurgeMs == 0 {
			n.PurgeMs = nowMs
		}
		return nil
	})
	if err != nil {
		return api.NamespacePurgeReply{}, err
	}
	reply := api.NamespacePurgeReply{}
	for look := range 2 {
		if look > 0 {
			if err := o.audit.AwaitIndex(ctx); err != nil {
				return api.NamespacePurgeReply{}, fmt.Errorf("purge namespace %s: %w", name, err)
			}
		}
		found, deleted, err := o.sweep(ctx, n.ID)
		if err != nil {
			return api.NamespacePurgeReply{}, fmt.Errorf("purge namespace %s: %w", name, err)
		}
		if reply.Deleted = int64(deleted); found == 0 {
			continue
		}
		if reply.Remaining, err = o.remaining(ctx, n.ID); err != nil {
			return api.NamespacePurgeReply{}, fmt.Errorf("purge namespace %s: %w", name, err)
		}
		return reply, nil
	}
	if err := o.remove(ctx, n, by); err != nil {
		return api.NamespacePurgeReply{}, err
	}
	reply.Done = true
	return reply, nil
}

// sweep removes items of a namespace, purgeItems at most, and says how many it
// found and how many of those it removed.
func (r *Namespaces) sweep(ctx context.Context, id string) (found, deleted int, err error) {
	var unwanted []keys.Key
	for queries := r.partitions(id); len(queries) > 0 && len(unwanted) < purgeItems; {
		for _, in := range queries {
			in.Limit = aws.Int32(int32(purgeItems - len(unwanted)))
		}
		pages, err := table.QueryAll(ctx, r.client, queries)
		if err != nil {
			return 0, 0, fmt.Errorf("list what it holds: %w", err)
		}
		var unfinished []*dynamodb.QueryInput
		for i, page := range pages {
			for _, row := range page.Items {
				key, err := table.KeyOf(row)
				if err != nil {
					return 0, 0, err
				}
				if !strings.HasPrefix(key.PK, id+"/") {
					return 0, 0, fmt.Errorf("%w: %s %s is listed in namespace %s and is not its own", table.ErrDamaged, key.PK, key.SK, id)
				}
				unwanted = append(unwanted, key)
			}
			if queries[i].ExclusiveStartKey = page.LastEvaluatedKey; len(page.LastEvaluatedKey) > 0 {
				unfinished = append(unfinished, queries[i])
			}
		}
		queries = unfinished
	}
	unwanted = unwanted[:min(len(unwanted), purgeItems)]
	left, err := table.DeleteKeys(ctx, r.client, r.table, unwanted)
	if err != nil {
		return 0, 0, err
	}
	return len(unwanted), len(unwanted) - left, nil
}

// remaining counts what a namespace holds, a page of 1 MB in each partition: at
// least that much is left.
func (r *Namespaces) remaining(ctx context.Context, id string) (int64, error) {
	queries := r.partitions(id)
	for _, in := range queries {
		in.Select = types.SelectCount
	}
	pages, err := table.QueryAll(ctx, r.client, queries)
	if err != nil {
		return 0, fmt.Errorf("count what it holds: %w", err)
	}
	var n int64
	for _, page := range pages {
		n += int64(page.Count)
	}
	return n, nil
}

// partitions are the queries that together list what a namespace holds.
func (r *Namespaces) partitions(id string) []*dynamodb.QueryInput {
	var queries []*dynamodb.QueryInput
	for _, partition := range keys.PurgePartitions(id) {
		queries = append(queries, table.QueryInput(r.table, 4, keys.Query{PK: partition}))
	}
	return queries
}

// remove takes the namespace out of the registry, unless somebody else did.
func (o *NamespaceOperator) remove(ctx context.Context, n table.Namespace, by api.Principal) error {
	return o.apply(ctx, n.Name, by, api.AuditNamespacePurged, func(ctx context.Context, _ int64) (audit.Plan, error) {
		known, err := o.find(ctx, n.Name)
		switch {
		case isUnknownNamespace(err), err == nil && known.ID != n.ID:
			return audit.Plan{}, errUnchanged
		case err != nil:
			return audit.Plan{}, err
		}
		return audit.Plan{Writes: table.RemoveNamespaceItems(o.table, known), Before: wireNamespace(&known)}, nil
	})
}
