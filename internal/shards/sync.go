package shards

import (
	"context"
	"fmt"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// PlanSync returns the write that brings an item to the settings, or nil if the
// item has them. It creates no tokens: a limit of the item keeps its drawn count,
// also if the limit was removed and comes back. A removed limit stays on the item
// until it would be full by its old settings. Only a limit that is new to the item
// starts full.
func PlanSync(now bucket.Instant, item *table.Bucket, to *config.Resolved) *table.Sync {
	shard := item.Shard()
	s := &table.Sync{
		Key: item.Key, Level: item.Level,
		From: item.Fingerprint, To: to.Fingerprint,
		Cascade: to.Cascade, Parent: to.Parent,
	}
	for i := range item.Limits {
		l := &item.Limits[i]
		if to.Governs(l.Name) {
			continue
		}
		if drawn, full := bucket.Removable(l.Limit, shard, l.Drawn, now); full {
			s.Dropped = append(s.Dropped, table.DroppedLimit{Limit: l.Limit, Max: drawn})
		}
	}
	if s.From == s.To && len(s.Dropped) == 0 {
		return nil
	}
	for _, l := range to.Limits {
		if have := item.Find(l.Name); have != nil {
			s.Kept = append(s.Kept, table.KeptLimit{
				From: have.Limit, To: l, Change: bucket.SyncDrawn(have.Limit, l, shard, now),
			})
			continue
		}
		s.Added = append(s.Added, table.Limit{Limit: l, Drawn: l.Window(shard, now).Full()})
	}
	return s
}

// Sync brings all shards of a bucket to the settings that hold, as the next spend
// from each of them would. Shards of different settings cannot be merged.
func (s *Store) Sync(ctx context.Context, key keys.Bucket, to *config.Resolved) (Tree, error) {
	var last Tree
	err := s.until(ctx, key, func(tree Tree, now bucket.Instant) (done bool, err error) {
		last = tree
		for _, b := range tree {
			if b.Fingerprint == to.Fingerprint {
				continue
			}
			form := PlanSync(now, b, to)
			form.Nonce, form.WriteUnits = s.nonce(), 1
			in := form.Input(s.table)
			// If the first attempt was applied, its repeat is refused; the next
			// step reads the bucket again.
			_, err := send(ctx, func(ctx context.Context) error {
				_, err := s.client.UpdateItem(ctx, in)
				return err
			})
			return false, err
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("bring the shards of %s to their settings: %w", key.Key().PK, err)
	}
	return last, nil
}
