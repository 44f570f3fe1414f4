package admission

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/live"
)

// After a missed change, the node reads every namespace and every bucket's settings again.
func TestAMissedChangeConcernsEverything(t *testing.T) {
	n := newWorld(t).node(t, Tuning{})
	before := testutil.ToFloat64(n.Service.metrics.renewals)
	_, err := n.namespaces.Lookup(t.Context(), api.DefaultNamespace, patience)
	require.NoError(t, err)
	seen := n.memory.invalidations.Count()
	n.memory.Missed()
	require.InDelta(t, before+1, testutil.ToFloat64(n.Service.metrics.renewals), 0)
	require.Equal(t, live.Doubted, n.memory.invalidations.Since(keys.Bucket{Namespace: "a", Entity: "b", Resource: "c"}, seen))
	_, known := n.namespaces.Cached(api.DefaultNamespace)
	require.False(t, known)
}

// A broadcast for a namespace that the node has never served makes no bucket of another
// namespace resolve again: a tenant's changes are its own matter.
func TestABroadcastOfAStrangerConcernsNobody(t *testing.T) {
	w := newWorld(t)
	w.feed(t)
	n := w.node(t, Tuning{})
	n.follows(t)
	_, err := n.namespaces.Lookup(t.Context(), api.DefaultNamespace, patience)
	require.NoError(t, err)
	own := keys.Bucket{Namespace: w.ns, Entity: "b", Resource: "c"}
	nc := w.nats.Connect(t)
	seen := n.memory.invalidations.Count()
	require.NoError(t, nc.Publish(api.ConfigSubject("stranger"), []byte(`{"system":true}`)))
	require.NoError(t, nc.Publish(api.ConfigSubject(api.DefaultNamespace), []byte(`{"resource":"other"}`)))
	require.Eventually(t, func() bool { return n.memory.invalidations.Count() > seen }, patience, tickle)
	require.Equal(t, seen+1, n.memory.invalidations.Count())
	require.Equal(t, live.Fresh, n.memory.invalidations.Since(own, seen))
	n.namespaces.Changed(api.DefaultNamespace) // its id has to be looked up again, and is still known
	require.NoError(t, nc.Publish(api.ConfigSubject(api.DefaultNamespace), []byte(`{"resource":"c"}`)))
	require.Eventually(t, func() bool { return n.memory.invalidations.Since(own, seen) == live.Outdated }, patience, tickle)
	require.Equal(t, live.Fresh, n.memory.invalidations.Since(keys.Bucket{Namespace: "BBBBBBBBBBB", Entity: "b", Resource: "c"}, seen))
}
