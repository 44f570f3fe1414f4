package shards_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// under makes the bucket: full, and synced to settings.
func (w *world) under(to *config.Resolved) {
	w.t.Helper()
	w.spent(0, to.Limits...)
	b := w.tree()[0]
	b.Fingerprint = to.Fingerprint
	w.put(b)
}

// planSync returns the sync of shard 0 as it is now.
func (w *world) planSync(to *config.Resolved) *table.Sync {
	w.t.Helper()
	form := shards.PlanSync(w.now(), w.tree()[0], to)
	require.NotNil(w.t, form)
	form.Nonce, form.WriteUnits = w.nonce(), 1
	return form
}

// sync reports whether a planned sync was applied. A refused one changes nothing.
func (w *world) sync(form *table.Sync) bool {
	w.t.Helper()
	before := w.tree()
	_, err := w.Direct.UpdateItem(w.t.Context(), form.Input(w.Table))
	if err == nil {
		return true
	}
	var refused *types.ConditionalCheckFailedException
	require.ErrorAs(w.t, err, &refused)
	require.Equal(w.t, before, w.tree())
	return false
}

// A node plans a sync from settings a to settings b, and its write arrives late:
// other nodes went to b and back to a in between, and the item has the fingerprint
// that the write expects. The write is refused, and nothing is minted.
func TestALateSyncMintsNothing(t *testing.T) {
	rpm := perDay("rpm", 600)
	a := settings(rpm)
	for name, c := range map[string]struct {
		first   *config.Resolved // before a; its limits that a lacks stay on the item
		planned *config.Resolved // by the late node
		between *config.Resolved // what others go to, spend from, and come back to a from
		left    int64            // tokens of tpm in the end, under the settings planned or between
	}{
		"it adds a limit that is there":                         {a, settings(rpm, perDay("tpm", 5)), settings(rpm, perDay("tpm", 5)), 2},
		"it keeps a limit whose settings are others":            {settings(rpm, perDay("tpm", 100)), settings(rpm, perDay("tpm", 10)), settings(rpm, perDay("tpm", 10)), 7},
		"it drops a limit whose settings are others":            {settings(rpm, perDay("tpm", 100)), settings(rpm, perDay("ipm", 7)), settings(rpm, perDay("tpm", 10)), 7},
		"it drops a limit that was spent from in the mean time": {settings(rpm, perDay("tpm", 10)), settings(rpm, perDay("ipm", 7)), settings(rpm, perDay("tpm", 10)), 7},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.under(c.first)
			if c.first != a { // one token is spent, so that a keeps the limit
				require.True(t, w.spend(0, "tpm", 1))
				require.True(t, w.sync(w.planSync(a)))
				w.elapsed.Add(86_400_000) // and it is full again
			}
			late := w.planSync(c.planned)
			require.True(t, w.sync(w.planSync(c.between)))
			require.True(t, w.spend(0, "tpm", 3))
			require.True(t, w.sync(w.planSync(a)))
			require.Equal(t, late.From, w.tree()[0].Fingerprint)

			require.False(t, w.sync(late))
			require.True(t, w.sync(w.planSync(c.between)))
			require.Equal(t, c.left*bucket.Milli, w.left("tpm"))
		})
	}
}

// A removed limit is forgotten only while it is full. The spend of a node that has
// not heard of the removal comes before the sync: the sync is refused, planned again
// it keeps the limit, and the limit comes back as it was left.
func TestALimitThatIsSpentFromIsNotDropped(t *testing.T) {
	w := newWorld(t)
	both, rest := settings(perDay("rpm", 600), perDay("tpm", 5)), settings(perDay("rpm", 600))
	w.under(both)
	drop := w.planSync(rest)
	require.Len(t, drop.Dropped, 1)
	require.True(t, w.spend(0, "tpm", 5))
	require.False(t, w.sync(drop))

	keep := w.planSync(rest)
	require.Empty(t, keep.Dropped)
	require.True(t, w.sync(keep))
	require.True(t, w.sync(w.planSync(both)))
	require.Zero(t, w.left("tpm"))
}

// A sync goes to the settings that the node saw, and to the shard as it saw it.
func TestASyncIsRefusedWhereTheItemIsAnother(t *testing.T) {
	from, to := settings(perDay("rpm", 600)), settings(perDay("rpm", 900))
	for name, change := range map[string]func(*world){
		"another fingerprint": func(w *world) { w.sync(w.planSync(settings(perDay("rpm", 600), perDay("tpm", 8)))) },
		"another level":       func(w *world) { w.divide(2) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.under(from)
			form := w.planSync(to)
			change(w)
			require.False(t, w.sync(form))
		})
	}
}

// What a sync, a split and a merge leave does not expire by the time of before: new
// settings may take longer to fill, and a shard is only a part of what is to be
// remembered.
func TestStepsTakeTheTimeToLiveAway(t *testing.T) {
	from, to := settings(perDay("rpm", 600)), settings(perDay("rpm", 600), perDay("tpm", 8))
	for name, step := range map[string]func(t *testing.T, w *world) error{
		"sync": func(t *testing.T, w *world) error {
			_, err := w.store.Sync(t.Context(), testKey(0), to)
			return err
		},
		"split": func(t *testing.T, w *world) error {
			_, err := w.store.Double(t.Context(), testKey(0), 1)
			return err
		},
		"split of another shard": func(t *testing.T, w *world) error {
			w.divide(2)
			w.expiring(1)
			_, err := w.store.Double(t.Context(), testKey(0), 2)
			return err
		},
		"merge": func(t *testing.T, w *world) error {
			w.divide(2)
			w.expiring(0)
			_, err := w.store.Shrink(t.Context(), testKey(0), 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.under(from)
			w.expiring(0)
			require.NoError(t, step(t, w))
			for _, b := range w.tree() {
				require.Zero(t, b.TTL, "shard %d", b.Key.Shard)
			}
		})
	}
}

// expiring gives a shard a ttl.
func (w *world) expiring(shard int) {
	w.t.Helper()
	b := w.tree().Find(shard)
	b.TTL = w.now().Time().Unix() + 1
	w.put(b)
}
