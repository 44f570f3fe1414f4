package main

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

func TestServicesOfUp(t *testing.T) {
	t.Parallel()
	s := share(t)
	type list struct {
		Services []api.Service `json:"services"`
	}
	var got list
	require.Eventually(t, func() bool { // until admission follows the feed, and the list is whole
		w := newWorld()
		w.env = s.environment()
		require.Equal(t, exitDone, runWithin(t, []string{"services", "--json", "--quiet", "500ms"}, w), w.stderr)
		got = list{}
		require.NoError(t, json.Unmarshal([]byte(w.stdout.String()), &got))
		return len(got.Services) >= 5 && !slices.ContainsFunc(got.Services, func(s api.Service) bool { return s.Warning != "" })
	}, patience, time.Millisecond)
	require.Len(t, got.Services, 5)
	for i, name := range []string{api.ServiceAdmission, api.ServiceAggregator, api.ServiceArchiver, api.ServiceRelay, api.ServiceSharder} {
		one := got.Services[i]
		require.Equal(t, name, one.Service)
		require.Equal(t, thisVersion().Version, one.Version)
		require.Empty(t, one.Warning)
		require.Equal(t, name != api.ServiceAdmission, one.Lanes != nil && one.LagSeconds != nil && one.DeadLetters != nil)
		require.Equal(t, name != api.ServiceAdmission && name != api.ServiceRelay, one.Waiting != nil)
	}
	bad := newWorld()
	bad.env = s.environment()
	require.Equal(t, exitUsage, runWithin(t, []string{"services", "--quiet", "0s"}, bad))
}

func TestServicesAsATable(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	lag := func(seconds float64) *float64 { return &seconds }
	now := time.UnixMilli(1795262400000)
	var text page
	printServices(&text, []api.Service{
		{Service: "admission", ID: "x1", Version: "1.4.0", StartedMs: now.Add(-26 * time.Hour).UnixMilli(), ServiceStatus: api.ServiceStatus{Warning: "the change feed is not followed"}},
		{Service: "aggregator", ID: "x2", Version: "1.4.0", StartedMs: now.Add(-90 * time.Second).UnixMilli(), ServiceStatus: api.ServiceStatus{Lanes: n(32), Waiting: n(1200), LagSeconds: lag(3.25), DeadLetters: n(2)}},
		{Service: "aggregator", ID: "x3", Version: "1.3.9", StartedMs: now.Add(time.Second).UnixMilli(), ServiceStatus: api.ServiceStatus{Lanes: n(32), Warning: "lanes that fail and wait: 3, see the log"}},
		{Service: "relay", ID: "x4", Version: "1.4.0", StartedMs: now.UnixMilli(), ServiceStatus: api.ServiceStatus{Lanes: n(4), LagSeconds: lag(0.21), DeadLetters: n(0)}},
	}, now)
	golden(t, "services.txt", text.String())
}
