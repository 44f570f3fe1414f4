package tidegate_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// TestGoldenWire pins what every call sends.
func TestGoldenWire(t *testing.T) {
	w := newWire(t)
	level := `{"entity":"e","resource":"r","limits":[{"name":"rpm","capacity":10,"refill_amount":10,"refill_period_seconds":60}],"config_version":1}`
	w.script(map[api.Verb]string{
		api.VerbAcquire: admitted, api.VerbAcquireOverride: admitted,
		api.VerbAdjust: `{"lease":"L1","limits":[]}`, api.VerbRelease: `{"released":true}`,
		api.VerbStatus:    `{"allowed":true,"limits":[]}`,
		api.VerbLimitsSet: level, api.VerbLimitsGet: level, api.VerbLimitsDelete: `{"deleted":true}`,
		api.VerbLimitsList:    `{"levels":[` + level + `],"cursor":"next"}`,
		api.VerbLimitsResolve: `{"winner":{"entity":"e","resource":"r"},"limits":[],"on_unavailable":"block","levels":[]}`,
	})
	c := w.client(tidegate.WithNamespace("tenant-a"), tidegate.WithTimeout(1500*time.Millisecond), tidegate.WithOnUnavailable(tidegate.Block))
	ctx := t.Context()
	rpm := tidegate.Limit{Name: "rpm", Capacity: 10, RefillAmount: 10, RefillPeriodSeconds: 60}

	lease, err := c.Acquire(ctx, "e", "r", tidegate.Consume{"tpm": 500, "rpm": 1, "daily": 0})
	require.NoError(t, err)
	require.NoError(t, lease.Adjust(ctx, tidegate.Deltas{"tpm": -200, "rpm": 1}))
	require.NoError(t, lease.Release(ctx))
	_, err = c.Acquire(ctx, "e", "r", one, tidegate.OnUnavailable(tidegate.Allow), tidegate.OverrideLimits(rpm))
	require.NoError(t, err)
	_, err = c.Status(ctx, "e", "", nil)
	require.NoError(t, err)
	status, err := c.Status(ctx, "e", "r", one)
	require.NoError(t, err)
	require.True(t, *status.Allowed)

	own := api.LimitsTarget{Entity: "e", Resource: "r"}
	set, err := c.Admin().SetLimits(ctx, api.LimitsSetRequest{LimitsTarget: own, Limits: []tidegate.Limit{rpm}})
	require.NoError(t, err)
	require.Equal(t, api.LimitsLevel{LimitsTarget: own, Limits: []tidegate.Limit{rpm}, Version: 1}, set)
	got, err := c.Admin().GetLimits(ctx, own)
	require.NoError(t, err)
	require.Equal(t, set, got)
	require.NoError(t, c.Admin().DeleteLimits(ctx, api.LimitsTarget{System: true}))
	page, err := c.Admin().ListLimits(ctx, api.LimitsListRequest{Cursor: "here", Limit: 10})
	require.NoError(t, err)
	require.Equal(t, api.LimitsListReply{Levels: []api.LimitsLevel{set}, Cursor: "next"}, page)
	resolved, err := c.Admin().ResolveLimits(ctx, "e", "r")
	require.NoError(t, err)
	require.Equal(t, own, resolved.Winner)

	var b strings.Builder
	for _, m := range w.seen {
		require.True(t, strings.HasPrefix(m.Reply, api.InboxPrefix("default")+"."), m.Reply)
		// Settlements wait on a context of their own, so theirs is a little less.
		timeout := m.Header.Get(api.HeaderTimeout)
		if _, verb, _ := api.ParseSubject(m.Subject); verb == api.VerbAdjust || verb == api.VerbRelease {
			ms, err := strconv.Atoi(timeout)
			require.NoError(t, err)
			require.LessOrEqual(t, ms, 1500)
			timeout = "at most 1500"
		}
		fmt.Fprintf(&b, "%s\n  %s: %s\n  %s\n", m.Subject, api.HeaderTimeout, timeout, m.Data)
		requireDecodes(t, m)
	}
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile("testdata/wire.txt", []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile("testdata/wire.txt")
	require.NoError(t, err, "run go test -update")
	require.Equal(t, string(want), b.String())
}

// requireDecodes holds what the client sends against the decoders of services.
func requireDecodes(t *testing.T, m *nats.Msg) {
	t.Helper()
	_, verb, ok := api.ParseSubject(m.Subject)
	require.True(t, ok)
	var err error
	switch verb {
	case api.VerbAcquire, api.VerbAcquireOverride:
		_, err = api.DecodeAcquire(m.Data, verb == api.VerbAcquireOverride)
	case api.VerbAdjust:
		_, err = api.DecodeAdjust(m.Data)
	case api.VerbRelease:
		_, err = api.DecodeRelease(m.Data)
	case api.VerbStatus:
		_, err = api.DecodeStatus(m.Data)
	case api.VerbLimitsSet:
		_, err = api.DecodeLimitsSet(m.Data)
	case api.VerbLimitsGet:
		_, err = api.DecodeLimitsGet(m.Data)
	case api.VerbLimitsDelete:
		_, err = api.DecodeLimitsDelete(m.Data)
	case api.VerbLimitsList:
		_, err = api.DecodeLimitsList(m.Data)
	case api.VerbLimitsResolve:
		_, err = api.DecodeLimitsResolve(m.Data)
	default:
		t.Fatalf("the client has a verb %s that this test does not know", verb)
	}
	require.NoError(t, err, "%s %s", m.Subject, m.Data)
}
