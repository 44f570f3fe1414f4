package sharder

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
)

// The fault layer draws for each read how far the index is behind, so that each test runs
// several times.
const staleRuns = 12

// underStaleReads runs a test several times in a world whose indexes are up to
// table.IndexLag behind every write.
func underStaleReads(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	nats := natstest.Start(t)
	behind := int64(0)
	for range staleRuns {
		w := &world{t: t, key: testKey(0), nats: nats}
		w.Bench = tabletest.Stale(t, w.now, table.IndexLag)
		w.Direct = w.DB // the test's writes are late in the index too
		test(t, w)
		behind += w.Faults.Injected()[fault.Injection{Kind: fault.StaleRead, Operation: "Scan", Resource: w.Table + "/index/" + table.IndexName(byResource)}]
	}
	require.NotZero(t, behind, "no survey read the past")
}

// A moment is well within the time that an index may be behind.
func (w *world) moment() { w.pass(table.IndexLag / 10) }

// divide doubles the shards of the bucket.
func (w *world) divide(from int) {
	w.t.Helper()
	_, err := w.direct().Double(w.t.Context(), w.key, from)
	require.NoError(w.t, err)
}

// A quiet divided bucket is found after a restart, with all its shards, although the index
// may not show the newest of them.
func TestASurveyBehindTheTableFindsQuietBuckets(t *testing.T) {
	underStaleReads(t, func(t *testing.T, w *world) {
		w.usual()
		w.divide(1)
		w.pass(2 * table.IndexLag)
		w.divide(2)
		w.moment()
		s := w.successor()
		s.requireSizes(t, 1, 1)
		all, _ := s.tracker.shards()
		require.Equal(t, 4, all)
		w.quiet(12, s)
		require.Len(t, w.tree(), 1)
	})
}

// The index may still list shards that are gone. A bucket without items is not known, and
// a merged one has one shard: no step is planned for either.
func TestASurveyBehindTheTablePassesOverWhatIsGone(t *testing.T) {
	underStaleReads(t, func(t *testing.T, w *world) {
		w.key.Entity = "removed"
		w.usual()
		w.divide(1)
		removed := w.tree()
		w.key.Entity = "merged"
		w.usual()
		w.divide(1)
		w.pass(2 * table.IndexLag)
		for _, b := range removed {
			w.remove(b)
		}
		_, err := w.direct().Shrink(t.Context(), w.key, 1)
		require.NoError(t, err)
		require.Len(t, w.tree(), 1)
		w.moment()
		s := w.successor()
		require.InDelta(t, 0, testutil.ToFloat64(s.metrics.surveysFailed), 0)
		all, divided := s.tracker.sizes()
		require.LessOrEqual(t, all, 1, "the removed bucket is not known")
		require.Zero(t, divided)
		w.pass(time.Minute)
		require.Empty(t, s.turn(t))
	})
}

// A bucket that the index does not show yet is found by the next survey, or earlier by the
// feed.
func TestASurveyBehindTheTableIsMadeUpFor(t *testing.T) {
	for _, by := range []string{"the feed", "the next survey"} {
		t.Run(by, func(t *testing.T) {
			underStaleReads(t, func(t *testing.T, w *world) {
				w.usual()
				whole := w.tree()[0]
				w.divide(1)
				w.moment()
				s := w.successor()
				switch by {
				case "the feed":
					tree := w.tree()
					w.tell(w.record(whole, tree[0]), s)
					w.tell(w.record(nil, tree[1]), s)
				default:
					w.pass(2 * table.IndexLag)
					require.NoError(t, s.surveyOnce(t.Context()))
				}
				s.requireSizes(t, 1, 1)
				w.quiet(12, s)
				require.Len(t, w.tree(), 1)
			})
		})
	}
}
