package rollback_test

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/rollback"
	"github.com/tidegate/tidegate/internal/table/tabletest"
)

// Of nodes that end one epoch at once, one makes the next and all have it.
func TestOneNodeEndsAnEpoch(t *testing.T) {
	b := tabletest.New(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			e := rollback.NewEpochs(b.DB, b.Table)
			now, err := e.Advance(t.Context(), 0)
			if err != nil || now != 1 {
				t.Errorf("epoch %d: %v", now, err)
			}
		})
	}
	all.Wait()
	e := rollback.NewEpochs(b.DB, b.Table)
	require.Zero(t, e.Current())
	require.NoError(t, e.Refresh(t.Context()))
	require.EqualValues(t, 1, e.Current())
}

// An advance is applied, refused, failed, or failed but applied: repeated, it ends
// the epoch that was meant, and no other.
func TestAnAdvanceThroughEveryFault(t *testing.T) {
	for name, c := range map[string]struct {
		fault fault.Fault
		fails bool
	}{
		"applied":            {fault.Fault{}, false},
		"failed":             {fault.InternalError(), true},
		"throttled":          {fault.Throttling(), true},
		"failed but applied": {fault.Fault{Kind: fault.ReplyLost}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := tabletest.New(t)
			e, other := rollback.NewEpochs(b.DB, b.Table), rollback.NewEpochs(b.Direct, b.Table)
			b.Fail("UpdateItem", c.fault)
			_, err := e.Advance(t.Context(), 0)
			require.Equal(t, c.fails, err != nil)
			now, err := e.Advance(t.Context(), 0)
			require.NoError(t, err)
			require.EqualValues(t, 1, now)

			now, err = other.Advance(t.Context(), 1)
			require.NoError(t, err)
			require.EqualValues(t, 2, now)
			now, err = e.Advance(t.Context(), 1) // refused
			require.NoError(t, err)
			require.EqualValues(t, 2, now, "it adopts the other's")
		})
	}
}

// A node that has begun an epoch which the table has not still writes it.
func TestAnEpochThatWasHeardOfIsWritten(t *testing.T) {
	b := tabletest.New(t)
	e := rollback.NewEpochs(b.DB, b.Table)
	e.Adopt(7)
	e.Adopt(3)
	require.EqualValues(t, 7, e.Current())
	now, err := e.Advance(t.Context(), 6)
	require.NoError(t, err)
	require.EqualValues(t, 7, now)
	fresh := rollback.NewEpochs(b.DB, b.Table)
	require.NoError(t, fresh.Refresh(t.Context()))
	require.EqualValues(t, 7, fresh.Current())
}

// A signed lease brings the next epoch, which a node may not have stored yet, and none
// beyond.
func TestTheEpochOfALease(t *testing.T) {
	b := tabletest.New(t)
	e := rollback.NewEpochs(b.DB, b.Table)
	require.NoError(t, e.AdoptSigned(t.Context(), 0))
	require.Zero(t, b.Calls("GetItem"), "a known epoch costs nothing")
	require.NoError(t, e.AdoptSigned(t.Context(), 1))
	require.EqualValues(t, 1, e.Current())
	for _, epoch := range []int64{2, 3, math.MaxInt64} {
		require.ErrorIs(t, e.AdoptSigned(t.Context(), epoch), rollback.ErrUnknownEpoch, "the table has epoch 0")
		require.EqualValues(t, 1, e.Current())
	}
	other := rollback.NewEpochs(b.DB, b.Table)
	_, err := other.Advance(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, e.AdoptSigned(t.Context(), 2))
	require.EqualValues(t, 2, e.Current())
	b.Fail("GetItem", fault.Fault{Kind: fault.Unreachable}, fault.Fault{Kind: fault.Unreachable}, fault.Fault{Kind: fault.Unreachable})
	err = e.AdoptSigned(t.Context(), 3)
	require.Error(t, err)
	require.NotErrorIs(t, err, rollback.ErrUnknownEpoch, "it is unknown")
}
