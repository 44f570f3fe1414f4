package tidegate_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

func TestLeaseSequence(t *testing.T) {
	w := newWire(t)
	var n atomic.Int64
	w.respond(func(m *nats.Msg) *nats.Msg {
		_, verb, _ := api.ParseSubject(m.Subject)
		switch verb {
		case api.VerbAcquire:
			return &nats.Msg{Data: []byte(admitted)}
		case api.VerbRelease:
			return &nats.Msg{Data: []byte(`{"released":true}`)}
		}
		q, err := api.DecodeAdjust(m.Data)
		if want := fmt.Sprintf("L%d", n.Load()); err != nil || q.Lease != want {
			return refuse(api.Errorf(api.CodeLeaseConflict, "lease", "%v: not %s", err, want))(m)
		}
		return &nats.Msg{Data: fmt.Appendf(nil, `{"lease":"L%d","limits":[]}`, n.Add(1))}
	})
	lease, err := w.client().Acquire(t.Context(), "e", "r", one)
	require.NoError(t, err)

	var group sync.WaitGroup
	failures := make(chan error, 50)
	for range cap(failures) {
		group.Go(func() {
			failures <- lease.Adjust(t.Context(), tidegate.Deltas{"rpm": 1})
			_ = lease.Token()
			_ = lease.Limits()
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err, "each adjust sends the token that the one before was given")
	}
	require.Equal(t, "L50", lease.Token())

	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, lease.Release(t.Context()))
	require.Equal(t, 1, strings.Count(w.log(), "release"))
	require.ErrorIs(t, lease.Adjust(t.Context(), tidegate.Deltas{"rpm": 1}), tidegate.ErrReleased)
}

// A lease can be settled by another process than the one it was granted to.
func TestLeaseOfAToken(t *testing.T) {
	w := newWire(t)
	w.script(map[api.Verb]string{
		api.VerbAdjust:  `{"lease":"L8","limits":[]}`,
		api.VerbRelease: `{"released":true}`,
	})
	lease := w.client().Lease("L7")
	require.Equal(t, "L7", lease.Token())
	require.NoError(t, lease.Adjust(t.Context(), tidegate.Deltas{"rpm": 1}))
	require.Equal(t, "L8", lease.Token())
	require.NoError(t, lease.Release(t.Context()))
	require.Equal(t, "adjust {\"lease\":\"L7\",\"deltas\":{\"rpm\":1}}\nrelease {\"lease\":\"L8\"}\n", w.log())

	degraded := w.client().Lease("")
	require.True(t, degraded.Degraded())
	require.NoError(t, degraded.Adjust(t.Context(), tidegate.Deltas{"rpm": 1}))
}

func TestSettlementIsRepeated(t *testing.T) {
	w := newWire(t)
	var adjusts atomic.Int64
	w.respond(func(m *nats.Msg) *nats.Msg {
		_, verb, _ := api.ParseSubject(m.Subject)
		if verb == api.VerbAcquire {
			return &nats.Msg{Data: []byte(admitted)}
		}
		if adjusts.Add(1) < 3 {
			return nil
		}
		return &nats.Msg{Data: []byte(`{"lease":"L1","limits":[]}`)}
	})
	lease, err := w.client(tidegate.WithTimeout(500*time.Millisecond)).Acquire(t.Context(), "e", "r", one)
	require.NoError(t, err)
	require.NoError(t, lease.Adjust(t.Context(), tidegate.Deltas{"rpm": 1}))
	require.EqualValues(t, 3, adjusts.Load())
	require.Equal(t, "L1", lease.Token())

	adjusts.Store(-1000)
	var down *tidegate.UnavailableError
	require.ErrorAs(t, lease.Adjust(t.Context(), tidegate.Deltas{"rpm": 1}), &down)
	require.Equal(t, "L1", lease.Token())
}

func TestSettlementWaitsItsTurn(t *testing.T) {
	w := newWire(t)
	first := make(chan struct{})
	proceed := make(chan struct{})
	w.respond(func(m *nats.Msg) *nats.Msg {
		if _, verb, _ := api.ParseSubject(m.Subject); verb == api.VerbAcquire {
			return &nats.Msg{Data: []byte(admitted)}
		}
		close(first)
		<-proceed
		return &nats.Msg{Data: []byte(`{"lease":"L1","limits":[]}`)}
	})
	lease, err := w.client(tidegate.WithTimeout(time.Hour)).Acquire(t.Context(), "e", "r", one)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- lease.Adjust(t.Context(), tidegate.Deltas{"rpm": 1}) }()
	<-first
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, lease.Release(ctx), context.Canceled, "waiting ends with the context")
	close(proceed)
	require.NoError(t, <-done)
}

func TestSettlementRefused(t *testing.T) {
	w := newWire(t)
	w.respond(func(m *nats.Msg) *nats.Msg {
		if _, verb, _ := api.ParseSubject(m.Subject); verb == api.VerbAcquire {
			return &nats.Msg{Data: []byte(admitted)}
		}
		return refuse(api.Errorf(api.CodeExpiredLease, "lease", "too old"))(m)
	})
	lease, err := w.client().Acquire(t.Context(), "e", "r", one)
	require.NoError(t, err)
	var e *tidegate.Error
	require.ErrorAs(t, lease.Adjust(t.Context(), tidegate.Deltas{"rpm": -1}), &e)
	require.Equal(t, api.CodeExpiredLease, e.Code)
	require.ErrorAs(t, lease.Release(t.Context()), &e)
}

func TestDo(t *testing.T) {
	failure := errors.New("the model said no")
	replies := map[api.Verb]string{api.VerbAcquire: admitted, api.VerbRelease: `{"released":true}`}
	do := func(t *testing.T, ctx context.Context, use func(context.Context, *tidegate.Lease) error) (released bool, err error) {
		t.Helper()
		w := newWire(t)
		w.script(replies)
		defer func() { released = strings.Contains(w.log(), `release {"lease":"L0"}`) }()
		return false, w.client().Do(ctx, "e", "r", one, use)
	}
	t.Run("success keeps", func(t *testing.T) {
		released, err := do(t, t.Context(), func(_ context.Context, l *tidegate.Lease) error {
			require.Equal(t, "L0", l.Token())
			return nil
		})
		require.NoError(t, err)
		require.False(t, released)
	})
	t.Run("failure releases", func(t *testing.T) {
		released, err := do(t, t.Context(), func(context.Context, *tidegate.Lease) error { return failure })
		require.ErrorIs(t, err, failure)
		require.True(t, released)
	})
	t.Run("a cancelled context releases", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		released, err := do(t, ctx, func(ctx context.Context, _ *tidegate.Lease) error { cancel(); return ctx.Err() })
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, released)
	})
	t.Run("a panic releases and goes on", func(t *testing.T) {
		w := newWire(t)
		w.script(replies)
		require.PanicsWithValue(t, "boom", func() {
			_ = w.client().Do(t.Context(), "e", "r", one, func(context.Context, *tidegate.Lease) error { panic("boom") })
		})
		require.Contains(t, w.log(), `release {"lease":"L0"}`)
	})
	t.Run("an exit releases", func(t *testing.T) {
		w := newWire(t)
		w.script(replies)
		client, gone := w.client(), make(chan struct{})
		go func() {
			defer close(gone)
			_ = client.Do(t.Context(), "e", "r", one, func(context.Context, *tidegate.Lease) error { runtime.Goexit(); return nil })
		}()
		<-gone
		require.Contains(t, w.log(), `release {"lease":"L0"}`)
	})
	t.Run("a failed release is told", func(t *testing.T) {
		w := newWire(t)
		w.respond(func(m *nats.Msg) *nats.Msg {
			if _, verb, _ := api.ParseSubject(m.Subject); verb == api.VerbAcquire {
				return &nats.Msg{Data: []byte(admitted)}
			}
			return refuse(api.Errorf(api.CodeInternal, "", "broken"))(m)
		})
		err := w.client().Do(t.Context(), "e", "r", one, func(context.Context, *tidegate.Lease) error { return failure })
		require.ErrorIs(t, err, failure)
		var e *tidegate.Error
		require.ErrorAs(t, err, &e)
	})
	t.Run("a denial does not call", func(t *testing.T) {
		w := newWire(t)
		w.script(map[api.Verb]string{api.VerbAcquire: denied})
		var d *tidegate.DeniedError
		err := w.client().Do(t.Context(), "e", "r", one, func(context.Context, *tidegate.Lease) error { panic("called") })
		require.ErrorAs(t, err, &d)
	})
}
