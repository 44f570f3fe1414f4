package admission

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

// journal holds the lines that a node logs, as JSON and at every level.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// newJournal makes the nodes of a world log into one.
func newJournal(w *world) *journal {
	j := new(journal)
	w.log = slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug})
	return j
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// logged is one line.
type logged struct {
	Msg, Outcome string
	RequestID    string   `json:"request_id"`
	RequestIDs   []string `json:"request_ids"`
}

func (j *journal) lines(t *testing.T) (lines []logged) {
	t.Helper()
	for line := range strings.Lines(j.String()) {
		var l logged
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		lines = append(lines, l)
	}
	return lines
}

// about are the lines that name a request.
func (j *journal) about(t *testing.T, id string) (messages []string) {
	t.Helper()
	for _, l := range j.lines(t) {
		if l.RequestID == id || slices.Contains(l.RequestIDs, id) {
			messages = append(messages, l.Msg)
		}
	}
	return messages
}

// sendAs sends a request under an id, or without a header for it where that is
// empty, and does not wait for its reply.
func sendAs(t *testing.T, nc *nats.Conn, verb api.Verb, id, body string) *nats.Subscription {
	t.Helper()
	m := nats.NewMsg(api.Subject(api.DefaultNamespace, verb))
	m.Data, m.Reply = []byte(body), nc.NewInbox()
	m.Header.Set(api.HeaderTimeout, api.FormatTimeout(patience))
	if id != "" {
		m.Header.Set(api.HeaderRequestID, id)
	}
	replies, err := nc.SubscribeSync(m.Reply)
	require.NoError(t, err)
	require.NoError(t, nc.PublishMsg(m))
	return replies
}

func replyTo(t *testing.T, replies *nats.Subscription) *nats.Msg {
	t.Helper()
	m, err := replies.NextMsg(patience)
	require.NoError(t, err)
	return m
}

// hold keeps all requests to the store back until release, and lets them meet a
// fault then. sent tells that there is one.
func (n *node) hold(t *testing.T, f fault.Fault) (sent <-chan struct{}, release func()) {
	t.Helper()
	held, first := make(chan struct{}), make(chan struct{})
	tell := sync.OnceFunc(func() { close(first) })
	release = sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	n.faults.Match(func(string, []byte) fault.Fault {
		tell()
		<-held
		return f
	})
	return first, release
}

// The reply has the id that the request has. Where it has none that is fit, the
// node makes one, and says so where somebody may have to look for it.
func TestRepliesHaveTheRequestsID(t *testing.T) {
	w := tpmWorld(t)
	j := newJournal(w)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	const unknown = `{"entity":"key-1","resource":"gpt-4","consume":{"x":1}}`
	for _, c := range []struct {
		id, body string
		told     bool
	}{
		{"trace-1", tokens500, true},
		{"trace-2", unknown, true},
		{"", tokens500, false},
		{"", unknown, true},
		{"not an id", unknown, true},
	} {
		m := replyTo(t, sendAs(t, nc, api.VerbAcquire, c.id, c.body))
		got := m.Header.Get(api.HeaderRequestID)
		require.Equal(t, c.told, got != "", "%q: %s", c.id, m.Data)
		if api.IsRequestID(c.id) {
			require.Equal(t, c.id, got)
		}
		if got != "" {
			require.True(t, api.IsRequestID(got))
			require.Eventually(t, func() bool { return slices.Contains(j.about(t, got), "answered") }, patience, time.Millisecond)
		}
	}
	for _, l := range j.lines(t) {
		if l.Msg == "answered" {
			require.NotEmpty(t, l.RequestID)
			require.NotEqual(t, "not an id", l.RequestID)
		}
	}
}

// What goes wrong with a request is logged under its id; with one write of many
// requests, under all of theirs.
func TestEveryLineAboutARequestNamesIt(t *testing.T) {
	w := tpmWorld(t)
	j := newJournal(w)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, tokens500).Lease

	failing := func(verb api.Verb, id, body string) {
		t.Helper()
		require.NotEmpty(t, replyTo(t, sendAs(t, nc, verb, id, body)).Header.Get(api.HeaderErrorCode))
		require.Eventually(t, func() bool {
			about := j.about(t, id)
			return slices.Contains(about, "answered") && len(about) > 1
		}, patience, time.Millisecond, id)
	}
	refuse := func(string, []byte) fault.Fault { return fault.Fault{Kind: fault.Refused} }
	n.faults.Match(refuse)
	failing(api.VerbAcquire, "acquire", tokens500)
	failing(api.VerbAcquire, "first", `{"entity":"key-2","resource":"gpt-4","consume":{"tpm":1}}`)
	failing(api.VerbAdjust, "adjust", adjustBody(lease, `{"tpm":1}`))
	failing(api.VerbStatus, "status", `{"entity":"key-1"}`)
	failing(api.VerbLimitsSet, "limits", `{"system":true,"limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":60}]}`)

	// Those that wait for one write are all named by the line about it.
	_, release := n.hold(t, fault.Fault{Kind: fault.Refused})
	var replies []*nats.Subscription
	const many = 5
	for i := range many {
		replies = append(replies, sendAs(t, nc, api.VerbAcquire, "together-"+strconv.Itoa(i), tokens500))
	}
	require.Eventually(t, func() bool { return n.pending.Load() == many }, patience, time.Millisecond)
	release()
	for i, r := range replies {
		require.NotEmpty(t, replyTo(t, r).Header.Get(api.HeaderErrorCode))
		require.Contains(t, j.about(t, "together-"+strconv.Itoa(i)), "the store failed", j.String())
	}
	for _, l := range j.lines(t) {
		if l.Msg == "the store failed" || l.Msg == "an admin request failed" {
			require.True(t, l.RequestID != "" || len(l.RequestIDs) > 0, l.Msg)
		}
	}
}

// An id that the node makes is made once: the reply, the lines about the request and
// its trace have the same.
func TestTheNodesIDIsTheSameEverywhere(t *testing.T) {
	w := tpmWorld(t)
	j, r := newJournal(w), newRecorder(t, w)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	n.faults.Match(func(string, []byte) fault.Fault { return fault.Fault{Kind: fault.Refused} })
	ids := map[string]bool{}
	for i := range 3 {
		id := replyTo(t, sendAs(t, nc, api.VerbAcquire, "", tokens500)).Header.Get(api.HeaderRequestID)
		require.True(t, api.IsRequestID(id), id)
		require.Eventually(t, func() bool {
			about := j.about(t, id)
			return slices.Contains(about, "the store failed") && slices.Contains(about, "answered")
		}, 10*time.Second, time.Millisecond, id)
		span := r.of(t, "admission acquire", i+1)[i]
		require.Equal(t, id, attributes(span)["tidegate.request_id"])
		ids[id] = true
	}
	require.Len(t, ids, 3, "and each request has its own")
}

// Whoever reads logs can neither spend nor give back for others: no line has a
// lease, or a part of one, nor a key that signs them.
func TestLogsHoldNoSecrets(t *testing.T) {
	w := tpmWorld(t)
	j := newJournal(w)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	first := acquire(t, nc, tokens500).Lease
	second := ask[api.AdjustReply](t, nc, api.VerbAdjust, `{"lease":"`+first+`","deltas":{"tpm":1}}`).Lease
	forged := first[:len(first)-4] + "AAAA"
	for _, body := range []string{releaseBody(forged), `{"lease":"` + first + `","oops":1}`, `{"lease":{"` + first + `":1}}`} {
		refused(t, nc, api.VerbRelease, body, patience)
	}
	refused(t, nc, api.VerbAdjust, adjustBody(first, `{"tpm":2}`), patience)
	n.faults.Match(func(string, []byte) fault.Fault { return fault.Fault{Kind: fault.Refused} })
	refused(t, nc, api.VerbAdjust, `{"lease":"`+second+`","deltas":{"tpm":1}}`, patience)

	said := j.String()
	require.Contains(t, said, "the store failed")
	require.Contains(t, said, "answered")
	for _, token := range []string{first, second, forged} {
		for from := 0; from+24 <= len(token); from += 8 {
			require.NotContains(t, said, token[from:from+24], "a part of a lease")
		}
	}
	keys, err := store.EnsureSigningKeys(t.Context(), w.client, w.table, table.LeaseKeys, func() (time.Time, error) { return w.now(), nil })
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	for _, k := range keys {
		for _, form := range []string{hex.EncodeToString(k.Secret), base64.StdEncoding.EncodeToString(k.Secret), base64.RawURLEncoding.EncodeToString(k.Secret), string(k.Secret)} {
			require.NotContains(t, said, form)
		}
	}
}
