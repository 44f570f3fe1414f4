package tidegate_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	admitted = `{"allowed":true,"lease":"L0","limits":[{"entity":"e","name":"rpm","capacity":10,"requested":1,"available":9}]}`
	denied   = `{"allowed":false,"retry_after_ms":590,"limits":[{"entity":"e","name":"rpm","capacity":10,"requested":1,"available":0,"exceeded":true,"retry_after_ms":590}]}`
	never    = `{"allowed":false,"retry_after_ms":-1,"never":true,"limits":[{"entity":"e","name":"rpm","capacity":10,"requested":11,"available":10,"exceeded":true,"retry_after_ms":-1,"never":true}]}`
)

// wire is a NATS server of a test's own, and what went over it.
type wire struct {
	t      *testing.T
	nc     *nats.Conn // the client's
	answer *nats.Conn // the responder's

	mu   sync.Mutex
	seen []*nats.Msg // guarded by mu; in order of arrival
}

func newWire(t *testing.T) *wire {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	w := &wire{t: t}
	for _, nc := range []**nats.Conn{&w.nc, &w.answer} {
		*nc, err = nats.Connect("", nats.InProcessServer(s), tidegate.InboxPrefix("default"))
		require.NoError(t, err)
		t.Cleanup((*nc).Close)
	}
	return w
}

// respond answers all requests from now on. A nil reply is none.
func (w *wire) respond(reply func(m *nats.Msg) *nats.Msg) {
	w.t.Helper()
	_, err := w.answer.Subscribe(api.SubjectAll, func(m *nats.Msg) {
		w.mu.Lock()
		w.seen = append(w.seen, m)
		w.mu.Unlock()
		if r := reply(m); r != nil {
			_ = m.RespondMsg(r) // if it fails, the caller misses it and the test fails
		}
	})
	require.NoError(w.t, err)
	require.NoError(w.t, w.answer.Flush())
}

// script answers by verb; the empty text is silence.
func (w *wire) script(replies map[api.Verb]string) {
	w.t.Helper()
	w.respond(func(m *nats.Msg) *nats.Msg {
		_, verb, _ := api.ParseSubject(m.Subject)
		if replies[verb] == "" {
			return nil
		}
		return &nats.Msg{Data: []byte(replies[verb])}
	})
}

// log is what was asked: verb and payload, one a line.
func (w *wire) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, m := range w.seen {
		_, verb, _ := api.ParseSubject(m.Subject)
		fmt.Fprintf(&b, "%s %s\n", verb, m.Data)
	}
	return b.String()
}

func (w *wire) client(opts ...tidegate.Option) *tidegate.Client {
	w.t.Helper()
	c, err := tidegate.New(w.nc, opts...)
	require.NoError(w.t, err)
	return c
}

func refuse(e *api.Error) func(*nats.Msg) *nats.Msg {
	return func(*nats.Msg) *nats.Msg {
		return &nats.Msg{Data: e.JSON(), Header: nats.Header{
			api.HeaderErrorCode: {strconv.Itoa(e.Status())}, api.HeaderError: {e.Message},
		}}
	}
}

var one = tidegate.Consume{"rpm": 1}

func TestAcquireAdmitted(t *testing.T) {
	w := newWire(t)
	w.script(map[api.Verb]string{api.VerbAcquire: admitted})
	lease, err := w.client().Acquire(t.Context(), "e", "r", one)
	require.NoError(t, err)
	require.False(t, lease.Degraded())
	require.Equal(t, "L0", lease.Token())
	require.Equal(t, []tidegate.LimitStatus{{Entity: "e", Name: "rpm", Capacity: 10, Requested: 1, Available: 9}}, lease.Limits())
}

func TestAcquireDenied(t *testing.T) {
	w := newWire(t)
	w.script(map[api.Verb]string{api.VerbAcquire: denied, api.VerbAcquireOverride: never})
	_, err := w.client().Acquire(t.Context(), "e", "r", one)
	var d *tidegate.DeniedError
	require.ErrorAs(t, err, &d)
	require.Equal(t, 590*time.Millisecond, d.RetryAfter)
	require.False(t, d.Never)
	require.Len(t, d.Limits, 1)
	require.Equal(t, "denied: e for r, rpm of e has 0 of 1; retry after 590ms", d.Error())
	for range 1000 {
		require.GreaterOrEqual(t, d.Jittered(), d.RetryAfter)
		require.Less(t, d.Jittered(), d.RetryAfter*3/2)
	}
	short := tidegate.DeniedError{RetryAfter: time.Millisecond}
	require.Less(t, short.Jittered(), 11*time.Millisecond)

	_, err = w.client().Acquire(t.Context(), "e", "r", one, tidegate.OverrideLimits(tidegate.Limit{Name: "rpm"}))
	require.ErrorAs(t, err, &d)
	require.True(t, d.Never)
	require.Equal(t, time.Duration(math.MaxInt64), d.RetryAfter)
	require.Equal(t, d.RetryAfter, d.Jittered())
	require.Contains(t, d.Error(), "never")
}

// A slow limit in deep debt can take longer than a Duration can say.
func TestVeryLongWaits(t *testing.T) {
	w := newWire(t)
	w.script(map[api.Verb]string{api.VerbAcquire: strings.ReplaceAll(denied, "590", "9223372036854775807")})
	_, err := w.client().Acquire(t.Context(), "e", "r", one)
	var d *tidegate.DeniedError
	require.ErrorAs(t, err, &d)
	require.Greater(t, d.RetryAfter, 290*365*24*time.Hour)
	require.GreaterOrEqual(t, d.Jittered(), d.RetryAfter)
}

func TestAcquireRefused(t *testing.T) {
	for _, code := range api.Codes() {
		t.Run(string(code), func(t *testing.T) {
			w := newWire(t)
			w.respond(refuse(api.Errorf(code, "consume.tpm", "because")))
			_, err := w.client().Acquire(t.Context(), "e", "r", one)
			var e *tidegate.Error
			require.ErrorAs(t, err, &e)
			want := api.Errorf(code, "consume.tpm", "because")
			want.RequestID = w.ids()[0]
			require.Equal(t, want, e)
			var down *tidegate.UnavailableError
			undecided := code.Status() == 503 || code.Status() == 408
			require.Equal(t, undecided, errors.As(err, &down))

			lease, err := w.client(tidegate.WithOnUnavailable(tidegate.Allow)).Acquire(t.Context(), "e", "r", one)
			if undecided {
				require.NoError(t, err)
				require.True(t, lease.Degraded())
			} else {
				require.ErrorAs(t, err, &e)
			}
		})
	}
}

func TestNoResponders(t *testing.T) {
	w := newWire(t)
	// A client that waited for its time to be up would hang here for good.
	patient := tidegate.WithTimeout(24 * time.Hour)
	_, err := w.client(patient).Acquire(t.Context(), "e", "r", one)
	var down *tidegate.UnavailableError
	require.ErrorAs(t, err, &down)
	require.ErrorIs(t, err, nats.ErrNoResponders)

	lease, err := w.client(patient, tidegate.WithOnUnavailable(tidegate.Allow)).Acquire(t.Context(), "e", "r", one)
	require.NoError(t, err)
	require.True(t, lease.Degraded())
	require.Empty(t, lease.Token())
	require.Empty(t, lease.Limits())
	require.NoError(t, lease.Adjust(t.Context(), tidegate.Deltas{"rpm": 5}), "settling nothing needs nobody")
	require.NoError(t, lease.Release(t.Context()))

	_, err = w.client(patient, tidegate.WithOnUnavailable(tidegate.Allow)).
		Acquire(t.Context(), "e", "r", one, tidegate.OnUnavailable(tidegate.Block))
	require.ErrorAs(t, err, &down, "the call's policy overrules the client's")
}

func TestNoReply(t *testing.T) {
	background := context.Background()
	for name, c := range map[string]struct {
		ctx   func() (context.Context, context.CancelFunc)
		cause error
	}{
		"own timeout":              {func() (context.Context, context.CancelFunc) { return background, func() {} }, nats.ErrTimeout},
		"own timeout, cancellable": {func() (context.Context, context.CancelFunc) { return context.WithCancel(background) }, context.DeadlineExceeded},
		"deadline": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(background, 20*time.Millisecond)
		}, context.DeadlineExceeded},
		"deadline passed": {func() (context.Context, context.CancelFunc) { return context.WithTimeout(background, -1) }, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			w.script(nil)
			ctx, cancel := c.ctx()
			defer cancel()
			client := w.client(tidegate.WithTimeout(20 * time.Millisecond))
			_, err := client.Acquire(ctx, "e", "r", one)
			var down *tidegate.UnavailableError
			require.ErrorAs(t, err, &down)
			require.ErrorIs(t, err, c.cause)
			require.LessOrEqual(t, strings.Count(w.log(), "\n"), 1, "an acquire is never repeated")

			lease, err := client.Acquire(ctx, "e", "r", one, tidegate.OnUnavailable(tidegate.Allow))
			require.NoError(t, err)
			require.True(t, lease.Degraded())
		})
	}
}

func TestCancelled(t *testing.T) {
	w := newWire(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.respond(func(*nats.Msg) *nats.Msg { cancel(); return nil })
	_, err := w.client(tidegate.WithOnUnavailable(tidegate.Allow)).Acquire(ctx, "e", "r", one)
	require.ErrorIs(t, err, context.Canceled, "who gave up is not let in")
	var down *tidegate.UnavailableError
	require.NotErrorAs(t, err, &down)
}

func TestTooLarge(t *testing.T) {
	w := newWire(t)
	_, err := w.client(tidegate.WithOnUnavailable(tidegate.Allow)).Acquire(t.Context(), strings.Repeat("e", 2<<20), "r", one)
	require.ErrorIs(t, err, nats.ErrMaxPayload)
}

func TestStrangeReply(t *testing.T) {
	w := newWire(t)
	w.respond(func(*nats.Msg) *nats.Msg { return &nats.Msg{Data: []byte("hello")} })
	_, err := w.client().Acquire(t.Context(), "e", "r", one)
	require.ErrorContains(t, err, "read the reply to acquire")
	_, err = w.client().Status(t.Context(), "e", "", nil)
	require.ErrorContains(t, err, "read the reply to status")
}

// The status of an entity takes as many requests as it has pages, and fails with any of them.
func TestStatusFollowsPages(t *testing.T) {
	w := newWire(t)
	reply := map[string]string{
		"":  `{"limits":[{"entity":"e","resource":"a","name":"rpm","capacity":1,"requested":0,"available":1}],"cursor":"1"}`,
		"1": `{"limits":[],"damaged":["b"],"cursor":"2"}`,
		"2": `{"limits":[{"entity":"e","resource":"c","name":"rpm","capacity":1,"requested":0,"available":0}],"damaged":["d"]}`,
	}
	w.respond(func(m *nats.Msg) *nats.Msg {
		q, err := api.DecodeStatus(m.Data)
		require.NoError(t, err)
		return &nats.Msg{Data: []byte(reply[q.Cursor])}
	})
	want := api.StatusReply{Damaged: []string{"b", "d"}, Limits: []api.LimitStatus{
		{Entity: "e", Resource: "a", Name: "rpm", Capacity: 1, Available: 1}, {Entity: "e", Resource: "c", Name: "rpm", Capacity: 1},
	}}
	all, err := w.client().Status(t.Context(), "e", "", nil)
	require.NoError(t, err)
	require.Equal(t, want, all)
	page, err := w.client().StatusPage(t.Context(), api.StatusRequest{Entity: "e", Cursor: "1", Limit: 7})
	require.NoError(t, err)
	require.Equal(t, api.StatusReply{Limits: []api.LimitStatus{}, Damaged: []string{"b"}, Cursor: "2"}, page)
	require.Contains(t, w.log(), `{"entity":"e","cursor":"1","limit":7}`)

	reply["2"] = "no reply"
	all, err = w.client().Status(t.Context(), "e", "", nil)
	require.ErrorContains(t, err, "read the reply to status")
	require.Empty(t, all)
}

func TestDeadlineHeader(t *testing.T) {
	w := newWire(t)
	w.script(map[api.Verb]string{api.VerbAcquire: admitted})
	header := func() string { return w.seen[len(w.seen)-1].Header.Get(api.HeaderTimeout) }

	_, err := w.client().Acquire(t.Context(), "e", "r", one)
	require.NoError(t, err)
	require.Equal(t, "2000", header(), "what a request announces is what makes a node tell the time")

	_, err = w.client(tidegate.WithTimeout(1500*time.Millisecond)).Acquire(t.Context(), "e", "r", one)
	require.NoError(t, err)
	require.Equal(t, "1500", header())

	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	_, err = w.client().Acquire(ctx, "e", "r", one)
	require.NoError(t, err)
	ms, err := strconv.ParseInt(header(), 10, 64)
	require.NoError(t, err)
	require.LessOrEqual(t, ms, time.Hour.Milliseconds())
	require.Greater(t, ms, time.Minute.Milliseconds(), "the deadline of the context, not the client's timeout")
}

// From the first reply on, requests say in the store's time until when they wait.
func TestDeadlinesInTheStoresTime(t *testing.T) {
	w := newWire(t)
	const ahead = 42 * time.Hour
	w.respond(func(m *nats.Msg) *nats.Msg {
		require.True(t, m.Header.Get(api.HeaderTimeout) != "" || m.Header.Get(api.HeaderDeadline) != "", "which is what asks for the time")
		return &nats.Msg{Data: []byte(admitted), Header: nats.Header{api.HeaderTime: {api.FormatTime(time.Now().Add(ahead))}}}
	})
	header := func(name string) string { return w.seen[len(w.seen)-1].Header.Get(name) }
	c := w.client(tidegate.WithTimeout(time.Hour))
	require.NoError(t, acquireOne(t.Context(), c))
	require.Empty(t, header(api.HeaderDeadline))

	before := time.Now()
	require.NoError(t, acquireOne(t.Context(), c))
	require.Equal(t, "3600000", header(api.HeaderTimeout), "for nodes that know no deadlines")
	until, known, err := api.ParseDeadline(header(api.HeaderDeadline))
	require.NoError(t, err)
	require.True(t, known)
	require.GreaterOrEqual(t, until, before.Add(ahead+time.Hour).UnixMilli())
	require.Less(t, until, before.Add(ahead+2*time.Hour).UnixMilli())

	usual := w.client()
	require.NoError(t, acquireOne(t.Context(), usual))
	require.NoError(t, acquireOne(t.Context(), usual))
	require.Empty(t, header(api.HeaderTimeout), "the default is what its absence means to all nodes")
	require.NotEmpty(t, header(api.HeaderDeadline))
}

func acquireOne(ctx context.Context, c *tidegate.Client) error {
	_, err := c.Acquire(ctx, "e", "r", one)
	return err
}

// A node whose clock is ahead refuses a request whose caller still waits: nothing was
// spent, so it is sent once more, without the deadline that was misunderstood.
func TestALiveRequestThatIsTooLateIsSentOnceMore(t *testing.T) {
	w := newWire(t)
	patience := true // of the node, with requests that have no deadline
	w.respond(func(m *nats.Msg) *nats.Msg {
		reply := &nats.Msg{Data: []byte(admitted), Header: nats.Header{}}
		if m.Header.Get(api.HeaderDeadline) != "" || !patience {
			reply = refuse(api.Errorf(api.CodeDeadlineExceeded, "", "too late"))(m)
		}
		reply.Header.Set(api.HeaderTime, api.FormatTime(time.Now()))
		return reply
	})
	c := w.client(tidegate.WithTimeout(time.Hour))
	for range 2 {
		require.NoError(t, acquireOne(t.Context(), c))
	}
	require.Len(t, w.seen, 3)
	last := w.seen[2].Header
	require.Empty(t, last.Get(api.HeaderDeadline))
	require.NotEmpty(t, last.Get(api.HeaderTimeout))

	patience = false
	var down *tidegate.UnavailableError
	require.ErrorAs(t, acquireOne(t.Context(), c), &down)
	require.Len(t, w.seen, 5, "once")

	ctx, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	require.ErrorIs(t, acquireOne(ctx, c), context.DeadlineExceeded)
}

func TestNewRefuses(t *testing.T) {
	w := newWire(t)
	for _, opt := range []tidegate.Option{
		tidegate.WithNamespace("a.b"), tidegate.WithNamespace(""), tidegate.WithOnUnavailable("perhaps"), tidegate.WithTimeout(0),
	} {
		_, err := tidegate.New(w.nc, opt)
		require.Error(t, err)
	}
}
