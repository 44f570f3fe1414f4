package sharder

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Limits that were lowered leave shards without a token: fewer serve, also where
// nobody has spent from some of them since.
func TestLoweredLimitsMergeShardsThatDoNotServe(t *testing.T) {
	for _, shard := range []int{0, 5} {
		t.Run(fmt.Sprint("shown by shard ", shard), func(t *testing.T) {
			w := newWorld(t)
			s := w.sharder()
			w.setLimits(600)
			w.create(4, w.resolve().Limits, s)
			w.seconds(20, 5000, s)
			require.Len(t, w.tree(), 8)
			w.setLimits(3)
			settings := w.resolve()
			w.sync(shard, &settings, s)
			w.seconds(58, 5000, s)
			require.Len(t, w.tree(), 8)
			w.seconds(10, 5000, s)
			require.Len(t, w.tree(), 2)
			require.True(t, w.tree().Synced(settings.Fingerprint))
			require.LessOrEqual(t, w.left(), int64(3000))
			require.Equal(t, 3, s.counted(double, "done"), "however many want them")
		})
	}
}

// sync brings one shard to settings, as the next spend from it would, and tells of it.
func (w *world) sync(shard int, settings *config.Resolved, told ...*Sharder) {
	w.t.Helper()
	before := w.tree()[shard]
	form := shards.PlanSync(bucket.At(w.now()), before, settings)
	if form == nil {
		return
	}
	form.Nonce, form.WriteUnits = "test.sync", 1
	_, err := w.Direct.UpdateItem(w.t.Context(), form.Input(w.Table))
	require.NoError(w.t, err)
	w.tell(w.record(before, w.tree()[shard]), told...)
}

// Limits that were raised let a bucket be divided further, whichever shard shows them;
// shards that nobody has spent from since do not bring the old ones back.
func TestRaisedLimitsAreLearntFromAnyShard(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	w.setLimits(3)
	w.create(1, w.resolve().Limits, s)
	w.seconds(10, 5000, s)
	require.Len(t, w.tree(), 2, "a share of four would be below one token")
	w.setLimits(600)
	settings := w.resolve()
	w.sync(1, &settings, s)
	w.seconds(20, 5000, s)
	require.Len(t, w.tree(), 8)
}

// A sharder that was told nothing of the change goes by the lower limits that shards
// show, and by those that are stored before it makes a step.
func TestShardsThatDifferAreMergedOnlyIfTheStoredLimitsAskForIt(t *testing.T) {
	for _, tt := range []struct{ before, after, shards int64 }{{600, 3, 2}, {3, 600, 8}} {
		w := newWorld(t)
		told := w.sharder()
		w.setLimits(600)
		w.create(4, w.resolve().Limits, told)
		w.seconds(20, 5000, told)
		require.Len(t, w.tree(), 8)
		for i, tokens := range []int64{tt.before, tt.after} {
			w.setLimits(tokens)
			settings := w.resolve()
			for shard := range 8 {
				if i == 0 || shard == 5 {
					w.sync(shard, &settings)
				}
			}
		}
		s := w.sharder() // and knows nothing yet
		w.seconds(75, 5000, s)
		require.Len(t, w.tree(), int(tt.shards), "from %d to %d tokens", tt.before, tt.after)
		require.Equal(t, tt.shards == 8, s.counted(merge, "done") == 0)
	}
}
