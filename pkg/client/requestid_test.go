package tidegate_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// ids are those of the requests that were sent.
func (w *wire) ids() (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.seen {
		ids = append(ids, m.Header.Get(api.HeaderRequestID))
	}
	return ids
}

// Each call has an id of its own, but for an acquire: the service gives it one.
func TestEveryCallHasAnID(t *testing.T) {
	w := newWire(t)
	w.script(map[api.Verb]string{api.VerbAcquire: denied, api.VerbStatus: `{"limits":[]}`})
	c := w.client()
	for range 2 {
		_, err := c.Status(t.Context(), "e", "r", nil)
		require.NoError(t, err)
	}
	_, err := c.Acquire(t.Context(), "e", "r", one)
	var short *tidegate.DeniedError
	require.ErrorAs(t, err, &short)
	_, err = c.Acquire(tidegate.WithRequestID(t.Context(), "order-17"), "e", "r", one)
	var shortToo *tidegate.DeniedError
	require.ErrorAs(t, err, &shortToo)
	sent := w.ids()
	require.Len(t, sent, 4)
	require.True(t, api.IsRequestID(sent[0]), sent[0])
	require.NotEqual(t, sent[0], sent[1])
	require.Equal(t, []string{"", "order-17"}, sent[2:])
	require.Equal(t, []string{"", "order-17"}, []string{short.RequestID, shortToo.RequestID})
}

func TestErrorsTellTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		reply func(*nats.Msg) *nats.Msg
		id    func(error) string
	}{
		"refused": {refuse(api.Errorf(api.CodeUnknownLimit, "consume.rpm", "no")), func(err error) string {
			var refused *tidegate.Error
			require.ErrorAs(t, err, &refused)
			return refused.RequestID
		}},
		"down": {refuse(api.Errorf(api.CodeUnavailable, "", "down")), func(err error) string {
			var down *tidegate.UnavailableError
			require.ErrorAs(t, err, &down)
			var refused *tidegate.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, down.RequestID, refused.RequestID)
			return down.RequestID
		}},
		"silent": {func(*nats.Msg) *nats.Msg { return nil }, func(err error) string {
			var down *tidegate.UnavailableError
			require.ErrorAs(t, err, &down)
			return down.RequestID
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			w.respond(func(m *nats.Msg) *nats.Msg {
				reply := c.reply(m)
				if reply != nil && m.Header.Get(api.HeaderRequestID) == "" {
					reply.Header.Set(api.HeaderRequestID, "the-services")
				}
				return reply
			})
			client := w.client(tidegate.WithTimeout(50 * time.Millisecond))
			_, err := client.Acquire(tidegate.WithRequestID(t.Context(), "order-17"), "e", "r", one)
			require.Equal(t, "order-17", c.id(err))
			_, err = client.Status(t.Context(), "e", "r", nil)
			require.Equal(t, w.ids()[1], c.id(err))
			_, err = client.Acquire(t.Context(), "e", "r", one)
			if name == "silent" {
				require.Empty(t, c.id(err))
			} else {
				require.Equal(t, "the-services", c.id(err))
			}
		})
	}
}

// An id of the caller's own goes with all that is done under it, and a settlement
// that is repeated keeps its id.
func TestTheCallersIDIsUsed(t *testing.T) {
	w := newWire(t)
	w.script(map[api.Verb]string{api.VerbAcquire: admitted, api.VerbRelease: `{"released":true}`})
	c := w.client(tidegate.WithTimeout(20 * time.Millisecond))
	ctx := tidegate.WithRequestID(t.Context(), "order-17")
	lease, err := c.Acquire(ctx, "e", "r", one)
	require.NoError(t, err)
	require.NoError(t, lease.Release(ctx))
	require.Equal(t, []string{"order-17", "order-17"}, w.ids())

	lease, err = c.Acquire(tidegate.WithRequestID(t.Context(), "no id"), "e", "r", one)
	require.NoError(t, err)
	require.Error(t, lease.Adjust(t.Context(), tidegate.Deltas{"rpm": 1}), "nobody answers")
	ids := w.ids()[2:]
	require.Len(t, ids, 4)
	require.Empty(t, ids[0], "an id that is none is not used")
	require.True(t, api.IsRequestID(ids[1]), ids[1])
	require.Equal(t, []string{ids[1], ids[1]}, ids[2:], "one call, sent three times")
}

// What is observed has an id, also an acquire: the one that travels is the one that
// the observer is told, and the error.
func TestAnObservedRequestHasAnID(t *testing.T) {
	w := newWire(t)
	w.script(map[api.Verb]string{api.VerbAcquire: denied, api.VerbStatus: `{"limits":[]}`})
	var told []string
	c := w.client(tidegate.WithTimeout(20*time.Millisecond), tidegate.WithObserver(func(_ context.Context, call *tidegate.Call) func(error) {
		told = append(told, call.RequestID)
		return func(error) {}
	}))
	_, err := c.Acquire(t.Context(), "e", "r", one)
	var short *tidegate.DeniedError
	require.ErrorAs(t, err, &short)
	_, err = c.Status(t.Context(), "e", "r", nil)
	require.NoError(t, err)
	_, err = c.Acquire(tidegate.WithRequestID(t.Context(), "order-17"), "e", "r", one)
	require.Error(t, err)
	require.Error(t, c.Lease("L0").Release(t.Context()), "nobody answers")
	require.Equal(t, told, w.ids())
	require.Len(t, told, 6)
	require.True(t, api.IsRequestID(told[0]), told[0])
	require.Equal(t, told[0], short.RequestID)
	require.NotEqual(t, told[0], told[1])
	require.Equal(t, "order-17", told[2])
	require.Equal(t, []string{told[3], told[3]}, told[4:], "one call, sent three times")
}
