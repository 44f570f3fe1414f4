package e2e_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/relay"
)

// everywhere waits until every node answers as it should: each gave answers since
// the last that was not so.
func everywhere(t *testing.T, nodes []*process, what string, asItShould func() bool) {
	t.Helper()
	const answers = 10
	served := func(p *process) int { return p.metric(t, "tidegate_admission_requests_total") }
	since := make([]int, len(nodes))
	begin := func() {
		for i, p := range nodes {
			since[i] = served(p)
		}
	}
	begin()
	require.Eventually(t, func() bool {
		if !asItShould() {
			begin()
		}
		for i, p := range nodes {
			if served(p) < since[i]+answers {
				return false
			}
		}
		return true
	}, patience, time.Millisecond, what)
}

// followsAll waits until every node follows the feed.
func followsAll(t *testing.T, nodes []*process) {
	t.Helper()
	for _, p := range nodes {
		require.Eventually(t, func() bool { return p.metric(t, "tidegate_admission_feed_followed") == 1 }, patience, time.Millisecond)
	}
}

// edit sets the capacity of a config item as somebody does in the console: nothing
// else of the item is touched, and nobody is told.
func (w *world) edit(t *testing.T, key keys.Item, rpm int64) {
	t.Helper()
	set := "SET l_rpm_cp = :n, l_rpm_ra = :n"
	_, err := w.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &w.table, Key: table.KeyItem(key.Key()), UpdateExpression: &set,
		ExpressionAttributeValues: table.Item{":n": &types.AttributeValueMemberN{Value: strconv.FormatInt(rpm, 10)}},
	})
	require.NoError(t, err)
}

// P8: whoever changes limits, entities and namespaces in the table, every node goes
// by it as soon as the feed has it. NATS restarts meanwhile, and the relay is away for a while.
func TestWhatAnyWriterChangesBindsEveryNode(t *testing.T) {
	w := newWorld(t, options{})
	const entity, resource = "api-key-123", "gpt-4"
	item := keys.ResourceConfig{Namespace: w.ns, Resource: resource}
	w.setLimits(t, api.LimitsTarget{Resource: resource}, perDay("rpm", 1_000_000))
	relays := w.relay(t, "relay-1", relay.Tuning{})
	nodes := []*process{w.admission(t), w.admission(t)}
	followsAll(t, nodes)
	client := w.client(t)
	var last error
	spend := func(of string) []api.LimitStatus {
		lease, err := client.Acquire(t.Context(), of, resource, tidegate.Consume{"rpm": 1})
		if last = err; err != nil {
			return nil
		}
		return lease.Limits()
	}
	capacity := func(n int64) func() bool {
		return func() bool { l := spend(entity); return len(l) == 1 && l[0].Capacity == n }
	}
	everywhere(t, nodes, "at first", capacity(1_000_000))

	w.edit(t, item, 900_000)
	everywhere(t, nodes, "a limit is lowered in the console", capacity(900_000))

	w.nats.Stop()
	w.edit(t, item, 800_000)
	w.nats.Restart(t)
	everywhere(t, nodes, "lowered while NATS is away", capacity(800_000))
	followsAll(t, nodes)

	relays.crash()
	w.edit(t, item, 700_000)
	w.relay(t, "relay-2", relay.Tuning{})
	everywhere(t, nodes, "lowered while no relay runs", capacity(700_000))

	now := func() (time.Time, error) { return w.clock.now(), nil }
	log := audit.NewLog(w.db, w.table, now)
	for _, req := range []api.EntityCreateRequest{{ID: "acme"}, {ID: entity, Parent: "acme", Cascade: true}} {
		_, err := config.NewEntityStore(w.db, w.table, log).Create(t.Context(), w.ns, api.Principal{}, req)
		require.NoError(t, err)
	}
	everywhere(t, nodes, "the entity has a parent now", func() bool { l := spend(entity); return len(l) == 2 && l[1].Entity == "acme" })

	registry := config.NewNamespaces(w.db, w.table)
	_, err := registry.Ensure(t.Context(), "tenant-a")
	require.NoError(t, err)
	tenant, err := tidegate.New(w.connect(t), tidegate.WithNamespace("tenant-a"))
	require.NoError(t, err)
	refused := func(code api.Code) func() bool {
		return func() bool {
			_, err := tenant.Acquire(t.Context(), entity, resource, tidegate.Consume{"rpm": 1})
			var refusal *tidegate.Error
			return errors.As(err, &refusal) && refusal.Code == code
		}
	}
	everywhere(t, nodes, "a tenant has no limits yet", refused(api.CodeNoLimits))
	_, err = config.NewNamespaceOperator(registry, log, now).Delete(t.Context(), "tenant-a", api.Principal{})
	require.NoError(t, err)
	everywhere(t, nodes, "the namespace is deleted", refused(api.CodeUnknownNamespace))
	require.NoError(t, last)
}
