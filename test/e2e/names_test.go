package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/relay"
)

// names are identifiers of models, callers and API keys that people have, and the characters
// with a meaning in keys of the table, in audit ids and in JSON.
func names() []string {
	return []string{
		"anthropic.claude-3-5-sonnet-20240620-v1:0", "llama3.1:8b", "deepseek/deepseek-r1:free", "ft:gpt-4o-mini:acme::7p4",
		"arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.nova-pro-v1:0", "auth0|5f7c", "user+tag@x.com", "spiffe://td/ns/a",
		"dGlkZQ+/w==", "用户-李", "Jürgen Groß", "🦀",
		"a#b", "a", "b", "a#", "#a", "a~b", "~", "a~", "_x", "$SYSTEM", "=$SYSTEM", "$RESOURCE:a", "%23", "..", "*", ">", "a.>", `"\<&>`, "a,b;c\u3008",
		strings.Repeat("#", 256), strings.Repeat("~", 256), strings.Repeat("é", 128),
	}
}

// named draws an identifier of printable characters.
func named(random *rand.Rand) string {
	name := ""
	for range 1 + random.IntN(40) {
		for {
			c := rune(random.IntN(0x3000))
			if random.IntN(2) == 0 {
				c = rune("#~_$=/:|%\\\"ab"[random.IntN(13)])
			}
			if unicode.IsPrint(c) {
				name += string(c)
				break
			}
		}
	}
	return name
}

// Whatever printable identifiers an entity and a resource have, they have a bucket, limits,
// a parent, usage and an audit log of their own.
func TestIdentifiersOfAllKinds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	all := names()
	for len(all) < 48 {
		if name := named(random); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	w := newWorld(t, options{})
	w.admission(t)
	w.relay(t, "relay-1", relay.Tuning{})
	w.aggregator(t, "aggregator-1")
	client := w.client(t)
	admin := client.Admin()
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1000))
	for i, entity := range all {
		_, err := admin.CreateEntity(t.Context(), api.EntityCreateRequest{ID: entity})
		require.NoError(t, err)
		resource := all[(i+1)%len(all)]
		own(t, admin, entity, resource, int64(100+i))
		lease, err := client.Acquire(t.Context(), entity, resource, tidegate.Consume{"rpm": 3})
		require.NoError(t, err)
		require.NoError(t, lease.Adjust(t.Context(), tidegate.Deltas{"rpm": 2}))
		override := tidegate.OverrideLimits(perDay("rpm", int64(10_000+i)))
		_, err = client.Acquire(t.Context(), entity, resource, tidegate.Consume{"rpm": 7}, override)
		require.NoError(t, err)
	}
	for _, entity := range all[1:] {
		_, err := admin.UpdateEntity(t.Context(), api.EntityUpdateRequest{ID: entity, Parent: &all[0]})
		require.NoError(t, err)
	}
	w.mustBeCounted(t)
	for i, entity := range all {
		resource := all[(i+1)%len(all)]
		isApart(t, client, entity, resource, int64(100+i))
	}
	children, err := admin.ListChildren(t.Context(), api.EntityChildrenRequest{ID: all[0]})
	require.NoError(t, err)
	ids := []string{all[0]}
	for _, child := range children.Entities {
		ids = append(ids, child.ID)
	}
	require.ElementsMatch(t, all, ids)
	log, err := admin.VerifyAudit(t.Context(), api.AuditVerifyRequest{})
	require.NoError(t, err)
	require.Empty(t, log.Findings)
}

// own gives an entity limits of its own for a resource.
func own(t *testing.T, admin tidegate.Admin, entity, resource string, tokens int64) {
	t.Helper()
	target := api.LimitsTarget{Entity: entity, Resource: resource}
	_, err := admin.SetLimits(t.Context(), api.LimitsSetRequest{LimitsTarget: target, Limits: []api.Limit{perDay("rpm", tokens)}})
	require.NoError(t, err)
	got, err := admin.GetLimits(t.Context(), target)
	require.NoError(t, err)
	require.Equal(t, tokens, got.Limits[0].Capacity)
}

// isApart requires that an entity's state on a resource is what it alone did.
func isApart(t *testing.T, client *tidegate.Client, entity, resource string, tokens int64) {
	t.Helper()
	name := fmt.Sprintf("%q on %q", entity, resource)
	admin := client.Admin()
	status, err := client.Status(t.Context(), entity, resource, nil)
	require.NoError(t, err, name)
	require.Equal(t, tokens, status.Limits[0].Capacity, name)
	require.Equal(t, tokens-5, status.Limits[0].Available, name)

	totals, err := admin.UsageSummary(t.Context(), api.UsageRequest{Entity: entity, Resource: resource, Window: api.WindowDaily})
	require.NoError(t, err, name)
	used := map[bool]int64{}
	for _, total := range totals.Totals {
		require.Equal(t, resource, total.Resource, name)
		used[total.Override != ""] += total.Used
	}
	require.Equal(t, map[bool]int64{false: 5, true: 7}, used, name)

	var holders []string
	for q := (api.CapacityRequest{Resource: resource}); ; {
		page, err := admin.Capacity(t.Context(), q)
		require.NoError(t, err, name)
		for _, e := range page.Entities {
			holders = append(holders, e.Entity)
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			break
		}
	}
	require.Equal(t, []string{entity}, holders, name)

	changes, err := admin.ListAudit(t.Context(), api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: entity}})
	require.NoError(t, err, name)
	require.GreaterOrEqual(t, len(changes.Events), 2, name)
	for _, change := range changes.Events {
		require.Equal(t, keys.AuditEntity(entity), change.Target)
	}
	_, err = admin.ResetBucket(t.Context(), entity, resource)
	require.NoError(t, err, name)
}
