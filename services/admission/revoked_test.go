package admission

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/services/admission/lease"
)

// After a revocation, each live node refuses leases of the key, signs with the new key, and
// settles what it admits then.
func TestLiveNodesRefuseARevokedKey(t *testing.T) {
	w := tpmWorld(t)
	nc := w.nats.Connect(t)
	first, second := w.node(t, Tuning{}), w.node(t, Tuning{})
	leaked := acquire(t, nc, tokens500).Lease
	body, refusal := in(t, nc, api.OperatorNamespace, api.VerbKeyList, `{}`)
	require.Nil(t, refusal)
	var listed api.LeaseKeyListReply
	require.NoError(t, json.Unmarshal(body, &listed))
	_, refusal = in(t, nc, api.OperatorNamespace, api.VerbKeyRevoke, `{"id":"`+listed.Keys[0].ID+`"}`)
	require.Nil(t, refusal)
	for _, n := range []*node{first, second} {
		require.Eventually(t, func() bool {
			_, refusal := n.leases.Open(t.Context(), w.ns, leaked, lease.Release())
			return refusal != nil && refusal.Code == api.CodeInvalidLease
		}, patience, time.Millisecond)
	}
	refusal = refused(t, nc, api.VerbRelease, releaseBody(leaked), patience)
	require.Equal(t, api.CodeInvalidLease, refusal.Code)
	require.Contains(t, refusal.Message, "revoked")
	require.EqualValues(t, 500, w.consumed(t, "tpm"), "nothing was given back")
	for range 10 { // of both nodes
		require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(acquire(t, nc, `{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":1}}`).Lease)).Released)
	}
}
