package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// inOrder is the precedence that is promised, spelled anew.
func inOrder() []api.LimitsTarget {
	return []api.LimitsTarget{
		{Entity: "alice", Resource: "gpt-4"}, {Entity: "alice"}, {Resource: "gpt-4"}, {System: true},
	}
}

func milli(name string, perMinute int64) bucket.Limit {
	return bucket.Limit{Name: name, Capacity: perMinute * 1000, Refill: perMinute * 1000, Period: 60_000}
}

func TestTheFirstStoredLevelWinsAsAWhole(t *testing.T) {
	for mask := range 16 {
		t.Run(fmt.Sprintf("%04b", mask), func(t *testing.T) {
			f := newLimitFixture(t)
			// Levels that do not count: other entities', other resources', another namespace's.
			f.set(api.LimitsTarget{Entity: "bob"}, limit("no", 1))
			f.set(api.LimitsTarget{Entity: "bob", Resource: "gpt-4"}, limit("no", 1))
			f.set(api.LimitsTarget{Entity: "alice", Resource: "gpt-5"}, limit("no", 1))
			f.set(api.LimitsTarget{Resource: "gpt-5"}, limit("no", 1))
			_, err := f.other.Set(t.Context(), otherNs, by(), setTo(api.LimitsTarget{System: true}, limit("no", 1)))
			require.NoError(t, err)

			winner := -1
			var stored []config.Level
			for i, target := range inOrder() {
				if mask&(1<<i) == 0 {
					continue
				}
				f.set(target, limit("z", int64(10+i)), limit("a", int64(20+i)))
				stored = append(stored, config.Level(i))
				if winner < 0 {
					winner = i
				}
			}
			x, err := f.store.Explain(t.Context(), ns, "alice", "gpt-4")
			require.Equal(t, stored, x.Stored)
			for i, level := range x.Levels {
				require.Equal(t, inOrder()[i], level.LimitsTarget)
				require.Equal(t, mask&(1<<i) != 0, level.Stored)
				require.Equal(t, i == winner, level.Wins)
				require.Equal(t, level.Stored, len(level.Limits) == 2 && level.Version == 1)
			}
			if winner < 0 {
				refusal := requireCode(t, api.CodeNoLimits, err)
				for _, place := range []string{"entity alice with resource gpt-4", "entity alice for all resources", "resource gpt-4", "system"} {
					require.Contains(t, refusal.Message, place)
				}
				return
			}
			require.NoError(t, err)
			require.Equal(t, config.Level(winner), x.Level)
			require.Equal(t, []bucket.Limit{milli("a", int64(20+winner)), milli("z", int64(10+winner))}, x.Limits)
			require.Equal(t, winner == 0, x.Permanent)

			r, err := f.store.Resolve(t.Context(), ns, "alice", "gpt-4")
			require.NoError(t, err)
			require.Equal(t, x.Resolved, r)
		})
	}
}

func TestTheFirstPolicyHoldsWhicheverLevelWins(t *testing.T) {
	for mask := range 16 {
		t.Run(fmt.Sprintf("%04b", mask), func(t *testing.T) {
			f := newLimitFixture(t)
			var want api.Policy
			for i, target := range inOrder() {
				if mask&(1<<i) == 0 {
					continue
				}
				policy := []api.Policy{api.PolicyAllow, api.PolicyBlock}[i%2]
				f.setPolicy(target, policy)
				if want == "" {
					want = policy
				}
			}
			r, err := f.store.Resolve(t.Context(), ns, "alice", "gpt-4")
			requireCode(t, api.CodeNoLimits, err)
			require.Equal(t, want, r.OnUnavailable, "the policy is told even without limits")

			f.set(api.LimitsTarget{Resource: "gpt-4"}, limit("rpm", 5))
			r, err = f.store.Resolve(t.Context(), ns, "alice", "gpt-4")
			require.NoError(t, err)
			require.Equal(t, config.LevelResource, r.Level, "a level that holds a policy alone does not win")
			require.Equal(t, want, r.OnUnavailable)
		})
	}
}

func TestResolveIsOneConsistentRead(t *testing.T) {
	f := newLimitFixture(t)
	f.set(api.LimitsTarget{System: true}, limit("rpm", 5))
	var request struct {
		RequestItems map[string]struct {
			Keys           []any
			ConsistentRead bool
		}
	}
	f.Faults.Match(func(_ string, body []byte) fault.Fault {
		require.NoError(t, json.Unmarshal(body, &request))
		return fault.Fault{}
	})
	_, err := f.store.Resolve(t.Context(), ns, "alice", "gpt-4")
	require.NoError(t, err)
	require.Equal(t, 1, f.Calls(""))
	require.Equal(t, 1, f.Calls("BatchGetItem"))
	require.Len(t, request.RequestItems[f.Table].Keys, 5)
	require.True(t, request.RequestItems[f.Table].ConsistentRead)
}

func TestResolveReadsTheEntity(t *testing.T) {
	f := newLimitFixture(t)
	f.set(api.LimitsTarget{System: true}, limit("rpm", 5))
	plain, err := f.store.Resolve(t.Context(), ns, "alice", "gpt-4")
	require.NoError(t, err)
	require.False(t, plain.Cascade)
	require.Empty(t, plain.Parent)

	e := &table.Entity{Key: keys.Entity{Namespace: ns, ID: "alice"}, Parent: "acme", Cascade: true, Version: 1}
	_, err = f.Direct.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &f.Table, Item: table.EncodeEntity(e)})
	require.NoError(t, err)
	r, err := f.store.Resolve(t.Context(), ns, "alice", "gpt-4")
	require.NoError(t, err)
	require.True(t, r.Cascade)
	require.Equal(t, "acme", r.Parent)
	require.NotEqual(t, plain.Fingerprint, r.Fingerprint)
}

func TestResolveOfWhatCannotBeRead(t *testing.T) {
	f := newLimitFixture(t)
	f.set(api.LimitsTarget{System: true}, limit("rpm", 5))
	f.Fail("BatchGetItem", fault.InternalError())
	_, err := f.store.Resolve(t.Context(), ns, "alice", "gpt-4")
	var refusal *api.Error
	require.Error(t, err)
	require.NotErrorAs(t, err, &refusal, "an outage is not the caller's mistake")

	f.attribute(keys.SystemConfig{Namespace: ns}, "l_rpm_cp", text("many"))
	_, err = f.store.Resolve(t.Context(), ns, "alice", "gpt-4")
	require.ErrorIs(t, err, table.ErrDamaged)
}

func TestFingerprintIsGolden(t *testing.T) {
	samples := map[string]config.Resolved{
		"nothing":    {},
		"one limit":  {Limits: []bucket.Limit{milli("rpm", 100)}},
		"two limits": {Limits: []bucket.Limit{milli("rpm", 100), milli("tpm", 10_000)}},
		"permanent":  {Limits: []bucket.Limit{milli("rpm", 100)}, Permanent: true},
		"parent":     {Limits: []bucket.Limit{milli("rpm", 100)}, Parent: "acme"},
		"cascade":    {Limits: []bucket.Limit{milli("rpm", 100)}, Parent: "acme", Cascade: true},
	}
	prints := map[string]string{}
	for name, r := range samples {
		prints[name] = config.Fingerprint(&r)
		require.Len(t, prints[name], 11)
	}
	got, err := json.MarshalIndent(prints, "", "  ")
	require.NoError(t, err)
	file := filepath.Join("testdata", "fingerprints.json")
	if *update {
		require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the tests of this package with -update to write it")
	require.JSONEq(t, string(want), string(got), "a changed fingerprint syncs every bucket of every user anew")
}

func drawResolved(t *rapid.T) config.Resolved {
	var ls []bucket.Limit
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "aa", "b", "ab"}), 0, 3, rapid.ID[string]).Draw(t, "names") {
		ls = append(ls, bucket.Limit{
			Name: name, Capacity: rapid.Int64Range(1, 3).Draw(t, "capacity"),
			Refill: rapid.Int64Range(1, 3).Draw(t, "refill"), Period: rapid.Int64Range(1, 3).Draw(t, "period"),
		})
	}
	return config.Resolved{
		Limits: ls, Permanent: rapid.Bool().Draw(t, "permanent"), Cascade: rapid.Bool().Draw(t, "cascade"),
		Parent:        rapid.SampledFrom([]string{"", "a", "b", "\x01"}).Draw(t, "parent"),
		OnUnavailable: rapid.SampledFrom([]api.Policy{"", api.PolicyAllow}).Draw(t, "policy"),
		Level:         config.Level(rapid.IntRange(0, 3).Draw(t, "level")),
	}
}

func TestFingerprintTellsSettingsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawResolved(t), drawResolved(t)
		same := fmt.Sprint(a.Limits, a.Permanent, a.Cascade, a.Parent) == fmt.Sprint(b.Limits, b.Permanent, b.Cascade, b.Parent)
		require.Equal(t, same, config.Fingerprint(&a) == config.Fingerprint(&b))
	})
}

func TestLevelsAreNamed(t *testing.T) {
	want := []string{"entity_resource", "entity", "resource", "system", "level 4"}
	for i, name := range want {
		require.Equal(t, name, config.Level(i).String())
	}
	for i, target := range inOrder() {
		require.Equal(t, target, config.Level(i).Target("alice", "gpt-4"))
	}
}

// What the edge lets in, the token maths can take: both spell the same bounds.
func TestBoundsAgreeWithThoseOfBuckets(t *testing.T) {
	edges := func(highest int64) *rapid.Generator[int64] {
		return rapid.OneOf(rapid.SampledFrom([]int64{1, highest - 1, highest}), rapid.Int64Range(1, highest))
	}
	rapid.Check(t, func(t *rapid.T) {
		l := api.Limit{
			Name:                "rpm",
			Capacity:            edges(api.MaxAmount).Draw(t, "capacity"),
			RefillAmount:        edges(api.MaxAmount).Draw(t, "amount"),
			RefillPeriodSeconds: edges(api.MaxPeriodSeconds).Draw(t, "period"),
		}
		if rapid.Bool().Draw(t, "at the fastest rate") {
			l.RefillAmount = min(api.MaxAmount, api.MaxRate*l.RefillPeriodSeconds+rapid.Int64Range(-1, 1).Draw(t, "off by"))
		}
		converted := config.BucketLimits([]api.Limit{l})[0]
		require.Equal(t, l.Check() == nil, converted.Validate() == nil, "%+v", l)
	})
	require.Equal(t, bucket.MaxLimits, api.MaxLimits)
}
