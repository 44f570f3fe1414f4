package admission

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/rollback"
	"github.com/tidegate/tidegate/pkg/api"
)

// settleWorld is a world with a node whose operations on leases count as abandoned after
// abandonedAfter, and a lease of 500 tpm.
func settleWorld(t *testing.T) (w *world, n *node, token string) {
	t.Helper()
	w = tpmWorld(t)
	n = w.node(t, Tuning{StoreTimeout: 50 * time.Millisecond})
	return w, n, acquire(t, w.nats.Connect(t), tokens500).Lease
}

const abandonedAfter = 2*50*time.Millisecond + time.Second

// A node is slow between the two records of a debit, and a release takes over. The debit
// was written, and the lease does not hold it: it stays spent.
func TestADebitThatIsOvertakenStaysSpent(t *testing.T) {
	w, n, token := settleWorld(t)
	nc := w.nats.Connect(t)
	ends, released := make(chan struct{}), make(chan struct{})
	n.leases.Records = &hookedRecords{Records: n.leases.Records, write: func(_ context.Context, nth int32, store storeRecord) (uint64, int64, error) {
		if nth == 2 {
			close(ends)
			<-released
		}
		return store()
	}}
	debit := sendAs(t, nc, api.VerbAdjust, "", adjustBody(token, `{"tpm":100}`))
	<-ends
	require.EqualValues(t, 600, w.consumed(t, "tpm"))
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(token)).Released)
	close(released)
	m := replyTo(t, debit)
	e := api.DecodeError(m.Data)
	require.Equal(t, api.CodeLeaseConflict, e.Code, string(m.Data))
	require.Equal(t, 409, e.Status())
	require.Equal(t, "another settlement of the lease overtook this one: what it spent stays spent", e.Message)
	for range 2 {
		require.EqualValues(t, 100, w.consumed(t, "tpm"))
		require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(token)).Released)
	}
}

// The record of a credit is stored, its acknowledgement is lost, and a release changes the
// record before the node looks. The node cannot tell whether its credit counted: it gives
// nothing back, and leaves the record alone.
func TestACreditWhoseRecordWasChangedSinceIsNotGiven(t *testing.T) {
	w, n, token := settleWorld(t)
	nc := w.nats.Connect(t)
	n.leases.Records = &hookedRecords{Records: n.leases.Records, write: func(_ context.Context, nth int32, store storeRecord) (uint64, int64, error) {
		revision, epoch, err := store()
		if nth == 1 && err == nil {
			require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(token)).Released)
			return 0, 0, errUnacknowledged
		}
		return revision, epoch, err
	}}
	e := refused(t, nc, api.VerbAdjust, adjustBody(token, `{"tpm":-100}`), patience)
	require.Equal(t, api.CodeUnavailable, e.Code)
	require.Equal(t, "it is unknown whether the settlement began: its credits count as spent", e.Message)
	require.Eventually(t, func() bool { return n.unsettled.Load() == 0 }, patience, tickle)
	require.EqualValues(t, 100, w.consumed(t, "tpm"), "the release gave 400 back")
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(token)).Released)
	require.True(t, acquire(t, nc, one).Allowed) // its write would give back what waits
	require.EqualValues(t, 100, w.consumed(t, "tpm"))
}

// The acknowledgement of a debit's record takes so long that another operation may take
// over: the node does not begin to write the debit. A repeat writes it, once.
func TestADebitDoesNotBeginAfterItsTime(t *testing.T) {
	w, n, token := settleWorld(t)
	nc := w.nats.Connect(t)
	n.leases.Records = &hookedRecords{Records: n.leases.Records, write: func(ctx context.Context, nth int32, store storeRecord) (uint64, int64, error) {
		revision, epoch, err := store()
		if nth == 1 {
			over := time.NewTimer(abandonedAfter)
			defer over.Stop()
			select {
			case <-over.C:
			case <-ctx.Done():
			}
		}
		return revision, epoch, err
	}}
	debit := adjustBody(token, `{"tpm":100}`)
	e := refused(t, nc, api.VerbAdjust, debit, patience)
	require.Equal(t, api.CodeUnavailable, e.Code)
	require.Equal(t, "the settlement is under way: repeat it as it is, and it counts once", e.Message)
	require.EqualValues(t, 500, w.consumed(t, "tpm"))
	next := ask[api.AdjustReply](t, nc, api.VerbAdjust, debit).Lease
	require.EqualValues(t, 600, w.consumed(t, "tpm"))
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(next)).Released)
	require.Zero(t, w.consumed(t, "tpm"))
}

// A node that does not know a lease's record cannot tell, within a short time, that records
// cannot be reached: it spends nothing for a caller in a hurry. For a patient caller it
// spends without the record.
func TestACallerInAHurryDoesNotMakeRecordsUnreachable(t *testing.T) {
	w, n, token := settleWorld(t)
	nc := w.nats.Connect(t)
	second := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(token, `{"tpm":1}`)).Lease
	require.NoError(t, n.stop())
	n = w.node(t, Tuning{StoreTimeout: maxStoreCall})
	n.leases.Records = &hookedRecords{Records: n.leases.Records, read: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	debit := adjustBody(second, `{"tpm":100}`)
	// Half of the time is for the record: less than the pause between two reads.
	require.Equal(t, api.CodeDeadlineExceeded, refused(t, nc, api.VerbAdjust, debit, 150*time.Millisecond).Code)
	require.Eventually(t, func() bool { return n.unsettled.Load() == 0 }, patience, tickle)
	require.EqualValues(t, 501, w.consumed(t, "tpm"))
	n.leases.Records.(*hookedRecords).read = func(context.Context) error { return errors.New("away") } //nolint:forcetypeassert // as above
	require.Equal(t, second, leaseOf(send(t, nc, api.VerbAdjust, debit, time.Second).Data))
	require.EqualValues(t, 601, w.consumed(t, "tpm"))
}

// A node that missed the end of an epoch learns it from a lease: another node has issued
// the lease in the new epoch. From then on, leases of the old epoch give nothing back here
// either.
func TestALeaseTellsItsEpoch(t *testing.T) {
	w := tpmWorld(t)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	hundred := `{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":100}}`
	old, older := acquire(t, nc, hundred).Lease, acquire(t, nc, hundred).Lease

	_, err := rollback.NewEpochs(w.client, w.table).Advance(t.Context(), 0)
	require.NoError(t, err)
	other := w.elsewhere(t) // whose NATS the node does not hear
	other.node(t, Tuning{})
	recent := acquire(t, other.nats.Connect(t), hundred).Lease

	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(older)).Released, "the node knows of no other epoch")
	require.NotEmpty(t, ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(recent, `{"tpm":-50}`)).Lease)
	e := refused(t, nc, api.VerbRelease, releaseBody(old), patience)
	require.Equal(t, api.CodeExpiredLease, e.Code)
	require.Equal(t, "NATS lost settlements after the acquire: nothing can be given back any more", e.Message)
	issued := acquire(t, nc, hundred).Lease
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(issued)).Released, "it is issued in the new epoch")
	require.EqualValues(t, 150, w.consumed(t, "tpm"))
}
