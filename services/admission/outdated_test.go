package admission

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// hold makes a shard of a bucket hold so many tokens of each limit, behind the nodes'
// backs.
func (w *world) hold(t *testing.T, entity string, shard int, tokens int64) {
	t.Helper()
	b := w.tree(t, entity).Find(shard)
	now := bucket.At(w.now())
	for i := range b.Limits {
		l := &b.Limits[i]
		l.Drawn = l.Window(b.Shard(), now).Refilled - tokens*bucket.Milli
	}
	_, err := w.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &w.table, Item: table.EncodeBucket(b)})
	require.NoError(t, err)
}

// expire deletes a bucket whose ttl has come, as DynamoDB does.
func (w *world) expire(t *testing.T, entity string) {
	t.Helper()
	if b := w.item(t, entity, "gpt-4"); b != nil && b.TTL != 0 && b.TTL <= w.now().Unix() {
		w.remove(t, entity, "gpt-4")
	}
}

// interceptor is a way to the store on which something happens once, when a request of
// an operation for an entity's bucket is on its way. What happens may ask the node.
type interceptor struct {
	next      http.RoundTripper
	operation string
	entity    string
	do        func()
	armed     atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (i *interceptor) RoundTrip(req *http.Request) (*http.Response, error) {
	content, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(content))
	if strings.HasSuffix(req.Header.Get("X-Amz-Target"), "."+i.operation) &&
		bytes.Contains(content, []byte("/BUCKET#"+i.entity+"#")) && i.armed.CompareAndSwap(true, false) {
		i.do()
	}
	return i.next.RoundTrip(req)
}

// hearOf tells the node that an entity has changed.
func (n *node) hearOf(entity string) {
	(&listener{Service: n.Service}).configChanged(&nats.Msg{Subject: api.ConfigSubject(api.DefaultNamespace), Data: fmt.Appendf(nil, `{"entity":%q}`, entity)})
}

// intercepted is a node behind an interceptor, which begins when it is armed.
func (w *world) intercepted(t *testing.T, operation, entity string) (*node, *interceptor) {
	t.Helper()
	behind := *w
	i := &interceptor{next: w.next, operation: operation, entity: entity}
	behind.next = i
	return behind.node(t, Tuning{}), i
}

// A limit that was removed in deep debt stays on the item, and the item does not
// expire before the debt is paid, whatever is spent of the other limits. Added
// again, the limit is as deep in debt as it would have been.
func TestADebtOutlivesTheRemovalOfItsLimit(t *testing.T) {
	w, m := newManualWorld(t)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	rest := []api.Limit{{Name: "rpm", Capacity: 60, RefillAmount: 60, RefillPeriodSeconds: 60}}
	set := func(ls ...api.Limit) {
		w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, ls...)
		n.hear(t)
	}
	set(append(rest, perDay("tpd", 5))...)
	spent := n.acquireAt(t, nc, spendOf("tpd", 1))
	require.True(t, spent.Allowed)
	require.NotZero(t, w.item(t, "api-key-123", "gpt-4").TTL)
	ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(spent.Lease, `{"tpd":200}`)) // 40 days

	set(rest...)
	for range 3 {
		require.True(t, n.acquireAt(t, nc, one).Allowed)
		require.Zero(t, w.item(t, "api-key-123", "gpt-4").TTL, "the item has to be remembered for the removed limit")
		m.pass(4 * 24 * time.Hour)
		w.expire(t, "api-key-123")
	}
	set(append(rest, perDay("tpd", 5))...)
	reply := n.acquireAt(t, nc, spendOf("tpd", 1))
	require.False(t, reply.Allowed, "12 of 40 days' debt is paid")
	require.EqualValues(t, -136, reply.Limits[1].Available)

	set(rest...)
	m.pass(29 * 24 * time.Hour)
	require.True(t, n.acquireAt(t, nc, one).Allowed)
	require.True(t, n.acquireAt(t, nc, one).Allowed)
	item := w.item(t, "api-key-123", "gpt-4")
	require.Nil(t, item.Find("tpd"), "full again by its old settings, it is forgotten")
	require.NotZero(t, item.TTL)
}

// A node that has not heard of a change resolves the limits again before it touches an
// item that another node has brought to newer ones: it never takes the item back.
func TestAnItemIsNotTakenBackToOlderSettings(t *testing.T) {
	for _, count := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d shards", count), func(t *testing.T) {
			w := newWorld(t)
			w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 1000))
			late, prompt := w.node(t, Tuning{}), w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			require.True(t, late.acquireAt(t, nc, one).Allowed)
			w.divide(t, "api-key-123", count)
			require.True(t, late.acquireAt(t, nc, one).Allowed)
			for capacity := int64(900); capacity >= 500; capacity -= 100 {
				w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", capacity))
				prompt.hear(t)
				for range 2 * count {
					require.Equal(t, capacity, prompt.acquireAt(t, nc, one).Limits[0].Capacity)
				}
				synced := map[int]string{}
				for _, b := range w.tree(t, "api-key-123") {
					synced[b.Key.Shard] = b.Fingerprint
				}
				for range 2 * count {
					require.True(t, late.acquireAt(t, nc, one).Allowed)
				}
				settings, err := w.limits.Resolve(t.Context(), w.ns, "api-key-123", "gpt-4")
				require.NoError(t, err)
				for _, b := range w.tree(t, "api-key-123") {
					if synced[b.Key.Shard] == settings.Fingerprint {
						require.Equal(t, settings.Fingerprint, b.Fingerprint, "shard %d went back", b.Key.Shard)
						require.Equal(t, capacity*bucket.Milli, b.Find("rpm").Capacity)
					}
				}
			}
		})
	}
}

// The family changes while an acquire is between its levels: the parent has spent
// already when the child gets another one. The acquire starts again, and what it
// spent under the settings of before is given back, also where the node knows the new
// settings by then from another request.
func TestACascadeIsOfOneMoment(t *testing.T) {
	for name, resolved := range map[string]bool{"the node has heard of it": false, "the node has read it": true} {
		t.Run(name, func(t *testing.T) {
			w, m := newManualWorld(t)
			w.under(t, "child", "parent")
			w.setLimits(t, own("child"), perDay("rpm", 100))
			w.setLimits(t, own("parent"), perDay("rpm", 1))
			w.setLimits(t, own("other"), perDay("rpm", 100))
			n, parent := w.intercepted(t, "UpdateItem", "parent")
			parent.do = func() {
				w.under(t, "child", "other")
				n.hearOf("child")
				if resolved {
					n.do(w, "child", operation{peek: true})
				}
			}
			nc := w.nats.Connect(t)
			require.True(t, acquire(t, nc, oneRPM("child")).Allowed)
			w.hold(t, "parent", 0, 1)          // the node believes it short, not by a state
			m.pass(maxDenialAge + time.Second) // to deny by, and asks it before the child
			parent.armed.Store(true)
			reply := acquire(t, nc, oneRPM("child"))
			require.False(t, parent.armed.Load())
			require.True(t, reply.Allowed)
			require.Equal(t, []string{"child", "other"}, entitiesOf(reply.Limits))
			for entity, tokens := range map[string]int64{"child": 2, "parent": 1, "other": 1} {
				spent, acquires := w.spent(t, entity)
				require.Equal(t, tokens, spent, entity)
				require.Equal(t, tokens, acquires, entity)
			}
			ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(reply.Lease))
			spent, _ := w.spent(t, "other")
			require.Zero(t, spent, "the lease is of the levels that were spent from")
		})
	}
}

// The family changes while a denial looks at the levels it has to tell of: it was the
// old parent that was short, and that has no say any more.
func TestADenialIsOfTheLevelsThatHold(t *testing.T) {
	w, m := newManualWorld(t)
	w.under(t, "child", "parent")
	w.setLimits(t, own("child"), perDay("rpm", 100))
	w.setLimits(t, own("parent"), perDay("rpm", 1))
	w.setLimits(t, own("other"), perDay("rpm", 100))
	n, child := w.intercepted(t, "GetItem", "child")
	child.do = func() {
		w.under(t, "child", "other")
		n.hearOf("child")
	}
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, oneRPM("child")).Allowed)
	m.pass(maxDenialAge + time.Second)
	require.False(t, acquire(t, nc, oneRPM("parent")).Allowed) // its state is new, the child's is not
	child.armed.Store(true)
	reply := acquire(t, nc, oneRPM("child"))
	require.False(t, child.armed.Load())
	require.True(t, reply.Allowed)
	require.Equal(t, []string{"child", "other"}, entitiesOf(reply.Limits))
}

// A shard has less than it was seen to have: then what was seen of the others is as
// old, and is looked at again before anybody is denied.
func TestADenialAfterASurpriseLooksAgain(t *testing.T) {
	w, _ := newManualWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 20))
	n := w.node(t, Tuning{})
	require.True(t, admits(t, n.spend(w, "e", 0)))
	w.divide(t, "e", 2)
	w.hold(t, "e", 0, 10)
	w.hold(t, "e", 1, 0)
	require.True(t, admits(t, n.spend(w, "e", 1)), "from shard 0, which alone holds it")
	w.hold(t, "e", 0, 0)
	w.hold(t, "e", 1, 9)
	require.True(t, admits(t, n.spend(w, "e", 5)), "shard 1 holds it by now")
	require.Equal(t, 4*bucket.Milli, w.leftOf(t, "e", "rpm"))
}
