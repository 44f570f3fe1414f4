package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// The index of a resource's buckets may be behind the table. An entity that is listed has
// the shards and the balance of the table; one that is gone has no row; one of a moment ago
// may be missing, and appears as the index catches up.
func TestAReportBehindTheTable(t *testing.T) {
	for range 8 {
		synctest.Test(t, func(t *testing.T) {
			b := tabletest.Stale(t, time.Now, table.IndexLag)
			b.Direct = b.DB // the test's writes are late in the index too
			f := &capacityFixture{
				Bench: b, t: t, other: config.NewLimitStore(b.DB, b.Table, audit.NewLog(b.DB, b.Table, b.Now)),
				store: control.NewCapacity(b.DB, b.Table, func() (bucket.Instant, error) { return now, nil }),
			}
			divided := func(entity string, count int, each int64) (tree []*table.Bucket) {
				for i := range count {
					tree = append(tree, shard(ns, entity, resource, bucket.Shard{Index: i, Count: count}, each, rpmOf(100)))
				}
				return tree
			}
			f.set(api.LimitsTarget{Resource: resource}, rpmOf(100))
			for _, tree := range [][]*table.Bucket{
				divided("settled", 4, 10), divided("doubled", 1, 80), divided("merged", 2, 20), divided("removed", 1, 9), divided("vanished", 4, 9),
			} {
				f.put(tree...)
			}
			time.Sleep(2 * table.IndexLag)
			f.put(divided("doubled", 2, 40)...)
			f.put(divided("merged", 1, 40)...)
			f.remove(divided("merged", 2, 0)[1].Key)
			for _, gone := range append(divided("removed", 1, 0), divided("vanished", 4, 0)...) {
				f.remove(gone.Key)
			}
			f.put(divided("new", 4, 5)...)
			time.Sleep(table.IndexLag / 10)

			lasting := []api.EntityCapacity{row("doubled", 2, 80, 100), row("merged", 1, 40, 100), row("settled", 4, 40, 100)}
			added := row("new", 4, 20, 100)
			all := []api.EntityCapacity{lasting[0], lasting[1], added, lasting[2]}
			for _, n := range []int64{0, 1, 3} {
				require.Contains(t, [][]api.EntityCapacity{lasting, all}, f.report(n).Entities, "by %d", n)
			}
			time.Sleep(2 * table.IndexLag)
			require.Equal(t, all, f.report(0).Entities)
		})
	}
}
