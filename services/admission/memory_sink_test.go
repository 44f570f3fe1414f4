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
