package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// in sends a request in a namespace; the error is nil unless it was refused.
func in(t *testing.T, nc *nats.Conn, namespace string, verb api.Verb, body string) ([]byte, *api.Error) {
	t.Helper()
	m := nats.NewMsg(api.Subject(namespace, verb))
	m.Data = []byte(body)
	m.Header.Set(api.HeaderTimeout, api.FormatTimeout(patience))
	reply, err := nc.RequestMsg(m, 2*patience)
	require.NoError(t, err)
	if reply.Header.Get(api.HeaderErrorCode) != "" {
		return nil, api.DecodeError(reply.Data)
	}
	return reply.Data, nil
}

// operate asks an operator's verb about a namespace.
func operate(t *testing.T, nc *nats.Conn, verb api.Verb, name string) []byte {
	t.Helper()
	body, refusal := in(t, nc, api.OperatorNamespace, verb, fmt.Sprintf(`{"name":%q}`, name))
	require.Nil(t, refusal)
	return body
}

// tenant makes a namespace with a limit for everybody.
func tenant(t *testing.T, nc *nats.Conn, name string, limit api.Limit) {
	t.Helper()
	operate(t, nc, api.VerbNamespaceCreate, name)
	set, err := json.Marshal(api.LimitsSetRequest{LimitsTarget: api.LimitsTarget{System: true}, Limits: []api.Limit{limit}})
	require.NoError(t, err)
	_, refusal := in(t, nc, name, api.VerbLimitsSet, string(set))
	require.Nil(t, refusal)
}

// acquireIn acquires and must not be refused.
func acquireIn(t *testing.T, nc *nats.Conn, namespace string) api.AcquireReply {
	t.Helper()
	body, refusal := in(t, nc, namespace, api.VerbAcquire, one)
	require.Nil(t, refusal)
	var reply api.AcquireReply
	require.NoError(t, json.Unmarshal(body, &reply))
	return reply
}

// The same entity and resource in two namespaces share nothing.
func TestTenantsShareNothing(t *testing.T) {
	w := newWorld(t)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	tenant(t, nc, "tenant-a", perDay("rpm", 2))
	tenant(t, nc, "tenant-b", perDay("rpm", 3))
	for n := range int64(2) {
		require.Equal(t, 1-n, acquireIn(t, nc, "tenant-a").Limits[0].Available)
	}
	require.False(t, acquireIn(t, nc, "tenant-a").Allowed)
	b := acquireIn(t, nc, "tenant-b")
	require.EqualValues(t, 3, b.Limits[0].Capacity)
	require.EqualValues(t, 2, b.Limits[0].Available)

	for _, verb := range []api.Verb{api.VerbRelease, api.VerbAdjust} {
		body := map[api.Verb]string{
			api.VerbRelease: fmt.Sprintf(`{"lease":%q}`, b.Lease),
			api.VerbAdjust:  fmt.Sprintf(`{"lease":%q,"deltas":{"rpm":-1}}`, b.Lease),
		}[verb]
		_, refusal := in(t, nc, "tenant-a", verb, body)
		require.NotNil(t, refusal)
		require.Equal(t, api.CodeInvalidLease, refusal.Code, "a lease of one is refused in the other")
	}
	require.False(t, acquireIn(t, nc, "tenant-a").Allowed, "nothing was given back")
	_, refusal := in(t, nc, "tenant-b", api.VerbRelease, fmt.Sprintf(`{"lease":%q}`, b.Lease))
	require.Nil(t, refusal)

	_, refusal = in(t, nc, "tenant-a", api.VerbLimitsDelete, `{"system":true}`)
	require.Nil(t, refusal)
	require.EqualValues(t, 2, acquireIn(t, nc, "tenant-b").Limits[0].Available, "limits of one are not the other's")
}

// A deleted namespace is refused on every node as soon as the change is announced,
// and comes back whole.
func TestADeletedNamespaceIsRefusedEverywhere(t *testing.T) {
	w := newWorld(t)
	nodes := []*node{w.node(t, Tuning{}), w.node(t, Tuning{})}
	nc := w.nats.Connect(t)
	tenant(t, nc, "tenant-a", perDay("rpm", 10))
	known := func() bool {
		for _, n := range nodes {
			if _, ok := n.namespaces.Cached("tenant-a"); !ok {
				return false
			}
		}
		return true
	}
	spent := int64(0)
	for !known() { // until both nodes have served it
		spent++
		require.Equal(t, 10-spent, acquireIn(t, nc, "tenant-a").Limits[0].Available)
	}
	lease := acquireIn(t, nc, "tenant-a").Lease

	operate(t, nc, api.VerbNamespaceDelete, "tenant-a")
	require.Eventually(t, func() bool {
		for _, n := range nodes {
			if _, ok := n.namespaces.Cached("tenant-a"); ok {
				return false
			}
		}
		return true
	}, patience, time.Millisecond, "the broadcast reaches every node")
	for range 10 {
		_, refusal := in(t, nc, "tenant-a", api.VerbAcquire, strings.Replace(one, `}}`, `},"on_unavailable":"allow"}`, 1))
		require.NotNil(t, refusal)
		require.Equal(t, api.CodeUnknownNamespace, refusal.Code)
		require.Contains(t, refusal.Message, "deleted")
		require.Contains(t, refusal.Message, "recover")
	}
	_, refusal := in(t, nc, "tenant-a", api.VerbRelease, fmt.Sprintf(`{"lease":%q}`, lease))
	require.Equal(t, api.CodeUnknownNamespace, refusal.Code)

	operate(t, nc, api.VerbNamespaceRecover, "tenant-a")
	require.Eventually(t, func() bool {
		_, refusal := in(t, nc, "tenant-a", api.VerbStatus, `{"entity":"api-key-123","resource":"gpt-4"}`)
		return refusal == nil && known()
	}, patience, 5*time.Millisecond, "both nodes serve it again")
	body, refusal := in(t, nc, "tenant-a", api.VerbRelease, fmt.Sprintf(`{"lease":%q}`, lease))
	require.Nil(t, refusal, "leases hold across it: the id is the same")
	require.JSONEq(t, `{"released":true}`, string(body))
}

// A purged name is a new namespace; a node that had not heard of it writes where
// nobody looks, and leases of the old one are worth nothing.
func TestAPurgedNameIsANewNamespace(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	tenant(t, nc, "tenant-a", perDay("rpm", 10))
	lease := acquireIn(t, nc, "tenant-a").Lease
	old, _ := n.namespaces.Cached("tenant-a")
	operate(t, nc, api.VerbNamespaceDelete, "tenant-a")
	for {
		var reply api.NamespacePurgeReply
		require.NoError(t, json.Unmarshal(operate(t, nc, api.VerbNamespacePurge, "tenant-a"), &reply))
		if reply.Done {
			break
		}
	}
	require.Empty(t, w.itemIn(t, old), "the bucket is gone with it")
	tenant(t, nc, "tenant-a", perDay("rpm", 10))

	late := n.router.member(keys.Bucket{Namespace: old, Entity: "api-key-123", Resource: "gpt-4"})
	require.NotNil(t, late.writer.settings.last(), "the node still knows the old bucket's settings")
	done := make(chan shardResult, 1)
	require.True(t, late.writer.submit(&call{
		operation: operation{amounts: api.Amounts{{Name: "rpm", Tokens: 5}}},
		asker:     asker{request: &request{service: n.Service}, deadline: never, answerBy: never}, caller: told(func(r shardResult) { done <- r }),
	}))
	<-done // whether the old id could still be spent from or not:
	require.EqualValues(t, 9, acquireIn(t, nc, "tenant-a").Limits[0].Available)
	_, refusal := in(t, nc, "tenant-a", api.VerbRelease, fmt.Sprintf(`{"lease":%q}`, lease))
	require.NotNil(t, refusal)
	require.Equal(t, api.CodeInvalidLease, refusal.Code)
}

// Operators' verbs are none of a tenant's, and a tenant's are none of theirs.
func TestOperatorsAskUnderASubjectOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	for _, v := range api.Verbs() {
		if v.ForOperators() {
			_, refusal := in(t, nc, api.DefaultNamespace, v, `{"name":"tenant-a"}`)
			require.NotNil(t, refusal)
			require.Equal(t, api.CodeUnknownVerb, refusal.Code, "%s", v)
			continue
		}
		_, refusal := in(t, nc, api.OperatorNamespace, v, `{}`)
		switch v {
		case api.VerbAuditList:
			require.Nil(t, refusal, "operators read the events of their own changes")
			continue
		case api.VerbAuditShow, api.VerbAuditVerify:
			continue
		}
		require.NotNil(t, refusal, "%s", v)
		require.Equal(t, api.CodeUnknownVerb, refusal.Code, "%s", v)
	}
}

// Where the namespace itself cannot be looked up, a request's own policy holds;
// without one, and for what is wrong with a request, nothing fails open.
func TestPolicyOfARequestInANamespaceNotKnown(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 10)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	always(n, fault.Fault{Kind: fault.Unreachable})
	blocked := refused(t, nc, api.VerbAcquire, one, time.Second)
	require.Equal(t, api.CodeUnavailable, blocked.Code, "a node that was restarted in an outage knows no policy: it blocks")
	reply := acquire(t, nc, strings.Replace(one, `}}`, `},"on_unavailable":"allow"}`, 1))
	require.True(t, reply.Allowed)
	require.True(t, reply.Degraded)
	bad := refused(t, nc, api.VerbAcquire, `{"entity":"a\tb","resource":"gpt-4","consume":{"rpm":1},"on_unavailable":"allow"}`, patience)
	require.Equal(t, api.CodeInvalidEntity, bad.Code)
}

// itemIn reads the bucket that the acquires above spend from, in a namespace.
func (w *world) itemIn(t *testing.T, ns string) table.Item {
	t.Helper()
	key := keys.Bucket{Namespace: ns, Entity: "api-key-123", Resource: "gpt-4"}
	out, err := w.client.GetItem(t.Context(), table.ReadInput(w.table, key.Key()))
	require.NoError(t, err)
	return out.Item
}
