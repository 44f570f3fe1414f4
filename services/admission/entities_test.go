package admission

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// An entity that gets a parent or a cascade after its bucket exists is obeyed
// by every node at once, and so is the end of it.
func TestAChangedFamilyReachesEveryNode(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1_000_000))
	first, second := w.node(t, Tuning{}), w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	const spend = `{"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1}}`
	for range 8 { // so that both nodes know the bucket
		acquire(t, nc, spend)
	}
	for _, step := range []struct {
		verb    api.Verb
		body    string
		parent  string
		cascade bool
	}{
		{api.VerbEntityCreate, `{"entity":"acme"}`, "", false},
		{api.VerbEntityCreate, `{"entity":"api-key-123","parent":"acme"}`, "acme", false},
		{api.VerbEntityUpdate, `{"entity":"api-key-123","cascade":true}`, "acme", true},
		{api.VerbEntityUpdate, `{"entity":"api-key-123","parent":""}`, "", false},
		{api.VerbEntityUpdate, `{"entity":"api-key-123","parent":"acme"}`, "acme", false},
		{api.VerbEntityDelete, `{"entity":"api-key-123"}`, "", false},
	} {
		ask[json.RawMessage](t, nc, step.verb, step.body)
		for _, n := range []*node{first, second} {
			require.Eventually(t, func() bool {
				acquire(t, nc, spend)
				item := w.item(t, "api-key-123", "gpt-4")
				return item.Parent == step.parent && item.Cascade == step.cascade && !n.knowsOutdated()
			}, patience, time.Millisecond, "%s", step.body)
		}
	}
}

// knowsOutdated reports whether the node has yet to look again at a bucket.
func (n *node) knowsOutdated() bool {
	n.router.members.mu.Lock()
	defer n.router.members.mu.Unlock()
	for _, m := range n.router.members.lru.Values() {
		if m.writer.settings.isOutdated() {
			return true
		}
	}
	return false
}

// The header that the server writes names the sender. The sender is verified only where
// callers cannot write the header, and there nobody else changes anything.
func TestAuditEventsSayWhoAsked(t *testing.T) {
	const header = `{"acc":"OPS","user":"alice","rtt":1}`
	for name, c := range map[string]struct {
		trusted bool
		headers []string
		want    api.Principal
		refused bool
	}{
		"trusted":                     {true, []string{header}, api.Principal{User: "alice", Account: "OPS", Verified: true}, false},
		"trusted, none":               {true, nil, api.Principal{}, true},
		"trusted, names nobody":       {true, []string{`{"rtt":1}`}, api.Principal{}, true},
		"trusted, cannot be read":     {true, []string{"alice"}, api.Principal{}, true},
		"trusted, twice":              {true, []string{header, header}, api.Principal{}, true},
		"trusted, in another's value": {true, []string{header + api.HeaderRequestInfo}, api.Principal{}, true},
		"not trusted":                 {false, []string{header}, api.Principal{User: "alice", Account: "OPS"}, false},
		"not trusted, none":           {false, nil, api.Principal{}, false},
		"not trusted, twice":          {false, []string{header, header}, api.Principal{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.trusts = c.trusted
			w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			m := nats.NewMsg(api.Subject(api.DefaultNamespace, api.VerbEntityCreate))
			m.Data = []byte(`{"entity":"acme"}`)
			m.Header[api.HeaderRequestInfo] = c.headers
			reply, err := nc.RequestMsg(m, patience)
			require.NoError(t, err)
			if c.refused {
				require.Equal(t, api.CodeForbidden, api.DecodeError(reply.Data).Code)
				require.Empty(t, ask[api.AuditListReply](t, nc, api.VerbAuditList, `{}`).Events)
				return
			}
			require.Empty(t, reply.Header.Get(api.HeaderErrorCode), string(reply.Data))
			events := ask[api.AuditListReply](t, nc, api.VerbAuditList, `{}`).Events
			require.Len(t, events, 1)
			require.Equal(t, c.want, events[0].Who)
		})
	}
}
