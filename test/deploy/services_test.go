package deploy_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/events"
)

// Operators see who runs and what is not as it should be: the permissions are
// enough for admission to follow the feed, and for relays to say how far they are.
func TestOperatorsSeeWhoRuns(t *testing.T) {
	w := newWorld(t, "acme", "beta")
	w.runRelay(t)
	w.runAggregator(t, "one")
	w.runArchiver(t, "one")
	w.runSharder(t, "one")
	w.runAdmission(t)
	w.runAdmission(t)
	operator := w.operator(t)
	var all []api.Service
	require.Eventually(t, func() bool {
		var err error
		all, err = operator.Services(t.Context(), 500*time.Millisecond)
		require.NoError(t, err)
		for _, s := range all {
			if s.Warning != "" {
				return false
			}
		}
		return len(all) == 6
	}, patience, time.Millisecond)
	require.Equal(t, api.ServiceAdmission, all[0].Service)
	require.Equal(t, api.ServiceAdmission, all[1].Service)
	require.Equal(t, api.ServiceAggregator, all[2].Service)
	require.EqualValues(t, events.Lanes, *all[2].Lanes)
	require.Equal(t, api.ServiceArchiver, all[3].Service)
	require.EqualValues(t, events.Lanes, *all[3].Lanes)
	require.Equal(t, api.ServiceRelay, all[4].Service)
	require.Zero(t, *all[4].DeadLetters)
	require.Equal(t, api.ServiceSharder, all[5].Service)
	require.EqualValues(t, events.Lanes, *all[5].Lanes)

	// And so what another writer of the table changes binds.
	acme := limited(t, w, "acme")
	_, err := acme.Acquire(t.Context(), "key", resource, tidegate.Consume{"rpm": 1})
	require.NoError(t, err)
	db := dynamodb.NewFromConfig(w.store(setupRole))
	id, err := config.NewNamespaces(db, table.DefaultName).Ensure(t.Context(), "acme")
	require.NoError(t, err)
	stored := config.NewLimitStore(db, table.DefaultName, audit.NewLog(db, table.DefaultName, func() (time.Time, error) { return time.Now(), nil }))
	lower := tenRPM(true)
	lower.Limits[0].Capacity = 4
	_, err = stored.Set(t.Context(), id, api.Principal{}, lower)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		status, err := acme.Status(t.Context(), "key", resource, nil)
		require.NoError(t, err)
		return status.Limits[0].Capacity == 4
	}, patience, time.Millisecond)
}
