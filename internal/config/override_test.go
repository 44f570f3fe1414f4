package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

func TestBroughtLimitsHaveAFingerprintOfTheirOwn(t *testing.T) {
	rpm := api.Limit{Name: "rpm", Capacity: 10, RefillAmount: 10, RefillPeriodSeconds: 60}
	tpm := api.Limit{Name: "tpm", Capacity: 20, RefillAmount: 10, RefillPeriodSeconds: 60}
	by, fingerprint := config.Override([]api.Limit{tpm, rpm})
	require.Equal(t, []bucket.Limit{
		{Name: "rpm", Capacity: 10_000, Refill: 10_000, Period: 60_000},
		{Name: "tpm", Capacity: 20_000, Refill: 10_000, Period: 60_000},
	}, by)
	_, again := config.Override([]api.Limit{rpm, tpm})
	require.Equal(t, fingerprint, again, "the order makes no difference")

	seen := map[string]bool{fingerprint: true}
	for _, other := range []api.Limit{
		{Name: "rps", Capacity: 10, RefillAmount: 10, RefillPeriodSeconds: 60},
		{Name: "rpm", Capacity: 11, RefillAmount: 10, RefillPeriodSeconds: 60},
		{Name: "rpm", Capacity: 10, RefillAmount: 11, RefillPeriodSeconds: 60},
		{Name: "rpm", Capacity: 10, RefillAmount: 10, RefillPeriodSeconds: 61},
	} {
		_, print := config.Override([]api.Limit{other, tpm})
		require.False(t, seen[print], other)
		seen[print] = true
	}
}

func TestBroughtLimitsReplaceTheStoredOnes(t *testing.T) {
	by, _ := config.Override([]api.Limit{{Name: "rpm", Capacity: 10, RefillAmount: 10, RefillPeriodSeconds: 60}})
	stored := config.Resolved{
		Limits: []bucket.Limit{{Name: "tpm", Capacity: 1, Refill: 1, Period: 1}}, Permanent: true,
		Cascade: true, Parent: "team", OnUnavailable: api.PolicyAllow, Fingerprint: "stored",
	}
	r := stored.With(by)
	require.Equal(t, by, r.Limits)
	require.False(t, r.Permanent)
	require.True(t, r.Cascade)
	require.Equal(t, "team", r.Parent)
	require.Equal(t, api.PolicyAllow, r.OnUnavailable)
	require.Equal(t, config.Fingerprint(&r), r.Fingerprint)
	require.NotEqual(t, "stored", r.Fingerprint)
	require.Equal(t, "tpm", stored.Limits[0].Name)
}
