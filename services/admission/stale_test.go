package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// The status of an entity finds its buckets in an index, which may be behind the table. A
// bucket made a moment ago may be missing and appears as the index catches up. A bucket
// that is gone is not shown, even while the index has it.
func TestStatusOfAnEntityBehindTheTable(t *testing.T) {
	w, m := newManualWorld(t)
	w.forgets = true
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 100))
	n := w.nodeWith(t, Tuning{}, fault.Options{Stale: fault.Stale{UpTo: table.IndexLag}})
	late := dynamodb.NewFromConfig(w.config(n.faults))
	nc := w.nats.Connect(t)
	remove := func(entity, resource string) {
		key := keys.Bucket{Namespace: w.ns, Entity: entity, Resource: resource}.Key()
		_, err := late.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &w.table, Key: table.KeyItem(key)})
		require.NoError(t, err)
	}
	// available goes by the names that the table has.
	available := func(entity string) map[string]int64 {
		status := ask[api.StatusReply](t, nc, api.VerbStatus, fmt.Sprintf(`{"entity":%q}`, entity))
		require.Empty(t, status.Damaged)
		found := map[string]int64{}
		for _, l := range status.Limits {
			resource := l.Resource
			if name, fingerprint, ok := strings.Cut(resource, "~"); ok {
				resource = keys.OverrideResource(name, fingerprint)
			}
			require.NotContains(t, found, resource, "shown twice")
			found[resource] = l.Available
		}
		return found
	}
	hidden := 0
	for i := range 30 {
		entity := fmt.Sprint("e", i)
		spend := func(resource string) {
			require.True(t, acquire(t, nc, fmt.Sprintf(`{"entity":%q,"resource":%q,"consume":{"rpm":3}}`, entity, resource)).Allowed)
		}
		spend("settled")
		spend("removed")
		brought := ask[api.AcquireReply](t, nc, api.VerbAcquireOverride, fmt.Sprintf(
			`{"entity":%q,"resource":"brought","consume":{"rpm":3},"limits":[{"name":"rpm","capacity":10,"refill_amount":10,"refill_period_seconds":86400}]}`, entity))
		require.True(t, brought.Allowed)
		m.pass(2 * table.IndexLag)
		before := available(entity)
		require.Len(t, before, 3)
		for resource := range before {
			if resource != "settled" {
				remove(entity, resource)
			}
		}
		spend("new")
		m.pass(table.IndexLag / 10)

		found := available(entity)
		require.EqualValues(t, 97, found["settled"])
		delete(found, "settled")
		if _, shown := found["new"]; !shown {
			hidden++
			found["new"] = 97
		}
		require.Equal(t, map[string]int64{"new": 97}, found)

		m.pass(2 * table.IndexLag)
		require.Equal(t, map[string]int64{"settled": 97, "new": 97}, available(entity))
	}
	require.NotZero(t, hidden)
}
