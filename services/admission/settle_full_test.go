package admission

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/pkg/api"
)

const hundred100 = `{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":100}}`

// settleMany settles a new lease of a namespace again and again, until one is refused.
// It returns the token of the first, for its next operation, and how many were settled.
func settleMany(t *testing.T, nc *nats.Conn, namespace string, most int) (first string, settled int, refusal *api.Error) {
	t.Helper()
	for ; settled < most; settled++ {
		body, refusal := in(t, nc, namespace, api.VerbAcquire, hundred100)
		require.Nil(t, refusal)
		noteLease(body)
		body, refusal = in(t, nc, namespace, api.VerbAdjust, adjustBody(leaseOf(body), `{"tpm":-1}`))
		if refusal != nil {
			return first, settled, refusal
		}
		if first == "" {
			first = leaseOf(body)
		}
	}
	return first, settled, nil
}

// A tenant that settles as many leases as there are records takes no room from another:
// its own first settlements are refused with a code of their own, as long as they give
// something back. Its debits count, its settled leases go on, and nothing is minted.
func TestAGreedyTenantLeavesRoomForRecords(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 1_000_000), perDay("tpm", 1_000_000))
	tuning := Tuning{LeaseMaxBytes: 64_000}
	n := w.node(t, tuning)
	nc := w.nats.Connect(t)
	tenant(t, nc, "calm", perDay("tpm", 1_000_000))
	first, settled, refusal := settleMany(t, nc, api.DefaultNamespace, 1000)
	require.Equal(t, api.CodeLeasesFull, refusal.Code)
	require.Equal(t, 503, refusal.Status())
	for more := settled; more > 0; settled += more { // the node estimates the size of a record until it has looked
		info, err := leader.Info(t.Context(), nc, recordsStream)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			return n.counted(t, "tidegate_admission_lease_record_bytes") >= float64(info.State.Bytes)
		}, patience, tickle)
		_, more, _ = settleMany(t, nc, api.DefaultNamespace, 1000)
	}
	require.Greater(t, settled, 40, "half of the room, at 400 bytes each")
	_, ofCalm, refusal := settleMany(t, nc, "calm", settled/4)
	require.Nil(t, refusal, "after %d", ofCalm)
	require.NoError(t, n.Check(t.Context()))

	before := w.consumed(t, "tpm")
	token := acquire(t, nc, hundred100).Lease
	require.Equal(t, token, ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(token, `{"tpm":50}`)).Lease, "the debit counts, and cannot be given back")
	require.Equal(t, api.CodeLeasesFull, refused(t, nc, api.VerbAdjust, adjustBody(token, `{"rpm":1,"tpm":-40}`), patience).Code)
	require.Equal(t, api.CodeLeasesFull, refused(t, nc, api.VerbRelease, releaseBody(token), patience).Code)
	require.Equal(t, before+150, w.consumed(t, "tpm"), "never half done")
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(first)).Released, "it has a record")
	require.Greater(t, n.counted(t, `tidegate_admission_lease_records_refused_total{reason="share"}`), 2.0)

	// The node that follows knows what the first has stored.
	require.NoError(t, n.stop())
	n = w.node(t, tuning)
	require.Equal(t, api.CodeLeasesFull, refused(t, nc, api.VerbRelease, releaseBody(token), patience).Code)
	_, _, refusal = settleMany(t, nc, "calm", 10)
	require.Nil(t, refusal)
	require.NoError(t, n.stop())

	// With more room, the refused settlement is repeated and counts once.
	w.node(t, Tuning{LeaseMaxBytes: 1_000_000})
	at := w.consumed(t, "tpm")
	for range 2 {
		require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(token)).Released)
		require.Equal(t, at-100, w.consumed(t, "tpm"), "the debit stays spent")
	}
}

// Records that have no room left for anybody are told by the node's readiness, and credits
// are refused; debits count. The node goes on as soon as there is room.
func TestFullLeaseRecordsAreTold(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 1_000_000), perDay("tpm", 1_000_000))
	n := w.node(t, Tuning{LeaseMaxBytes: 64_000})
	nc := w.nats.Connect(t)
	settled := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(acquire(t, nc, hundred100).Lease, `{"tpm":-1}`)).Lease
	token := acquire(t, nc, hundred100).Lease
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), recordsStream)
	require.NoError(t, err)
	next := 0
	for _, size := range []int{1000, 30} { // records of a release that knows no bound
		for err = nil; err == nil; next++ {
			_, err = js.Publish(t.Context(), fmt.Sprint(recordSubject, "other.", next), make([]byte, size))
		}
		require.ErrorContains(t, err, "maximum bytes exceeded")
	}
	require.Equal(t, api.CodeLeasesFull, refused(t, nc, api.VerbAdjust, adjustBody(token, `{"tpm":-1}`), patience).Code)
	for i := range 2 { // half of the reserve is free for records that replace others, and for beats
		require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(fmt.Sprint(recordSubject, "other.", i))))
	}
	require.Eventually(t, func() bool { return n.Check(t.Context()) != nil }, patience, tickle)
	require.ErrorContains(t, n.Check(t.Context()), "--lease-max-bytes")
	require.Equal(t, api.CodeLeasesFull, refused(t, nc, api.VerbRelease, releaseBody(token), patience).Code)
	require.Equal(t, token, ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(token, `{"tpm":50}`)).Lease)
	require.EqualValues(t, 249, w.consumed(t, "tpm"))
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(settled)).Released, "it has a record")
	require.Positive(t, n.counted(t, `tidegate_admission_lease_records_refused_total{reason="full"}`))

	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(recordSubject+"other.>")))
	require.Eventually(t, func() bool { return n.Check(t.Context()) == nil }, patience, tickle)
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(token)).Released)
	require.EqualValues(t, 50, w.consumed(t, "tpm"), "the debit without a record")
}
