package feed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
)

// Members stop at any step of a heartbeat, one after another. The next member handles
// the lanes of the member before it at once, and not only when its TTL has ended.
func TestAMemberThatLeavesIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	p := w.publisher(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	tuning := calm()
	tuning.Heartbeat = time.Millisecond
	handled := make(chan struct{}, 1)
	handle := func(context.Context, *feed.Batch) error { handled <- struct{}{}; return nil }
	for n := range 15 {
		m := w.memberOf(t, fmt.Sprintf("member-%d", n), handle, tuning, events.Decode)
		p.publish(t, fmt.Sprintf("entity-%d", n))
		select {
		case <-handled:
		case <-time.After(patience / 2):
			require.Failf(t, "the record is not handled", "member %d waits for a member that left", n)
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		m.leave(t)
	}
}

// A heartbeat that the signal to stop interrupts leaves no entry behind.
func TestAMemberLeavesAfterAnInterruptedHeartbeat(t *testing.T) {
	w := newWorld(t)
	membership := func(name string) feed.Membership {
		return feed.Membership{Service: "test", Member: name, TTL: patience}
	}
	other, err := feed.Join(t.Context(), w.connect(t), membership("other"))
	require.NoError(t, err)
	m, err := feed.Join(t.Context(), w.connect(t), membership("stopped"))
	require.NoError(t, err)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Beat(stopped)
	require.ErrorIs(t, err, context.Canceled)
	living, err := other.Beat(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"other", "stopped"}, living)
	require.NoError(t, m.Leave(t.Context()))
	living, err = other.Beat(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"other"}, living)
}

// A member that is stopped while it joins leaves no entry behind either.
func TestAMemberThatIsStoppedWhileItJoinsLeaves(t *testing.T) {
	w := newWorld(t)
	membership := func(name string) feed.Membership {
		return feed.Membership{Service: "test", Member: name, TTL: patience}
	}
	other, err := feed.Join(t.Context(), w.connect(t), membership("other"))
	require.NoError(t, err)
	spy := w.nats.Connect(t)
	put := make(chan struct{}, 10)
	_, err = spy.Subscribe("$KV.TIDEGATE_MEMBERS_test.*", func(m *nats.Msg) {
		if strings.Contains(m.Subject, "joining") && m.Header.Get("KV-Operation") == "" {
			put <- struct{}{}
		}
	})
	require.NoError(t, err)
	require.NoError(t, spy.Flush())
	for n := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-put; cancel() }()
		m, err := feed.Join(ctx, w.connect(t), membership(fmt.Sprintf("joining-%d", n)))
		if err == nil { // the signal came too late
			require.NoError(t, m.Leave(t.Context()))
		}
		<-ctx.Done()
		living, err := other.Beat(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"other"}, living)
	}
}

// silent is a bucket whose watchers tell nothing: nats.go forgets to close a watcher whose
// connection was closed at the wrong moment.
type silent struct {
	jetstream.KeyValue
	updates chan jetstream.KeyValueEntry
}

func (s silent) WatchAll(context.Context, ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	return s, nil
}
func (s silent) Updates() <-chan jetstream.KeyValueEntry { return s.updates }
func (silent) Stop() error                               { return nats.ErrConnectionClosed }

// A heartbeat ends with its context, whatever becomes of the connection.
func TestAListOfMembersEndsWithItsContext(t *testing.T) {
	s := silent{updates: make(chan jetstream.KeyValueEntry)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := feed.KeysOf(ctx, s)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(s.updates)
	_, err = feed.KeysOf(t.Context(), s)
	require.ErrorIs(t, err, nats.ErrConnectionClosed)
}
