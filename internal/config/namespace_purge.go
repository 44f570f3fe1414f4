package config

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// purgeItems bounds the items that a step of a purge removes, so that a step fits
// the time of a request.
const purgeItems = 500

// Purge removes some of the items of a deleted namespace: it is a single step. The
// first step marks the namespace, so that it cannot be recovered in part; the last
// step removes it from the registry, so that its name is free. A namespace counts
// as empty if the index is empty twice, an index lag apart: the index then contains
// every write from before the mark. The remaining items are the state of the purge,
// so that any caller can continue a purge that stopped.
//
// It fails with the code conflict if the namespace is not deleted, and with
// unknown_namespace if it does not exist or is purged already.
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
	if err := o.endLife(ctx, n.ID); err != nil {
		return api.NamespacePurgeReply{}, fmt.Errorf("purge namespace %s: %w", name, err)
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

// endLife deletes the version record of a namespace before all other items, so that late
// writers notice the purge: see [PurgedNamespaces].
func (r *Namespaces) endLife(ctx context.Context, id string) error {
	left, err := store.DeleteKeys(ctx, r.client, r.table, []keys.Key{keys.Version{Namespace: id}.Key()})
	if err == nil && left > 0 {
		return errors.New("delete the version record: the store is throttled")
	}
	return err
}

// sweep removes at most purgeItems items of a namespace. It returns how many items
// it found and how many it removed.
func (r *Namespaces) sweep(ctx context.Context, id string) (found, deleted int, err error) {
	var unwanted []keys.Key
	for queries := r.partitions(id); len(queries) > 0 && len(unwanted) < purgeItems; {
		for _, in := range queries {
			in.Limit = aws.Int32(int32(purgeItems - len(unwanted)))
		}
		pages, err := store.QueryAll(ctx, r.client, queries)
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
	left, err := store.DeleteKeys(ctx, r.client, r.table, unwanted)
	if err != nil {
		return 0, 0, err
	}
	return len(unwanted), len(unwanted) - left, nil
}

// remaining counts the items of a namespace, up to a page of 1 MB in each
// partition: a lower bound.
func (r *Namespaces) remaining(ctx context.Context, id string) (int64, error) {
	queries := r.partitions(id)
	for _, in := range queries {
		in.Select = types.SelectCount
	}
	pages, err := store.QueryAll(ctx, r.client, queries)
	if err != nil {
		return 0, fmt.Errorf("count what it holds: %w", err)
	}
	var n int64
	for _, page := range pages {
		n += int64(page.Count)
	}
	return n, nil
}

// partitions returns the queries that together list all items of a namespace.
func (r *Namespaces) partitions(id string) []*dynamodb.QueryInput {
	var queries []*dynamodb.QueryInput
	for _, partition := range keys.PurgePartitions(id) {
		queries = append(queries, table.QueryInput(r.table, store.ByEverything, keys.Query{PK: partition}))
	}
	return queries
}

// remove removes the namespace from the registry, unless another caller did.
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
