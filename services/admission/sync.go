package admission

import (
	"github.com/tidegate/tidegate/internal/limits"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// newSync is the write that brings an item to the settings, nil where it is
// there. It mints nothing: a limit the item has keeps what is drawn, also one
// that was removed and comes back; a removed limit stays on the item until, by
// its old settings, it would be full; only a limit new to the item starts full.
func newSync(now bucket.Instant, item *table.Bucket, to *limits.Resolved) *table.Sync {
	shard := item.Shard()
	s := &table.Sync{
		Key: item.Key, Level: item.Level,
		From: item.Fingerprint, To: to.Fingerprint,
		Cascade: to.Cascade, Parent: to.Parent,
	}
	for i := range item.Limits {
		l := &item.Limits[i]
		if governs(to, l.Name) {
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
