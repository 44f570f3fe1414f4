package rollback_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/internal/rollback"
	"github.com/tidegate/tidegate/pkg/api"
)

// A value is written over the revision that is expected, and over no other.
func TestAWriteIsConditional(t *testing.T) {
	w := newWorld(t)
	n := w.start(fast())
	first, epoch := n.write(t, "lease", "1", 0)
	require.Zero(t, epoch)
	_, _, err := n.Write(t.Context(), "lease", []byte("x"), 0)
	require.ErrorIs(t, err, rollback.ErrRefused)
	second, _ := n.write(t, "lease", "2", first)
	_, _, err = n.Write(t.Context(), "lease", []byte("x"), first)
	require.ErrorIs(t, err, rollback.ErrRefused)

	entry, err := w.open().Get(t.Context(), "lease")
	require.NoError(t, err)
	require.Equal(t, second, entry.Revision())
	require.Equal(t, "2", string(entry.Value()))
}

// Writes that come together share a batch, and one that is refused takes none of
// the others with it.
func TestWritesThatComeTogether(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(fast()), w.start(fast())
	const writers, rounds = 48, 10
	var all sync.WaitGroup
	var mu sync.Mutex
	won := map[string]int{}
	for i := range writers {
		n := []*node{a, b}[i%2]
		all.Go(func() {
			for round := range rounds {
				key := fmt.Sprintf("contended-%d", round)
				_, _, err := n.Write(t.Context(), key, []byte{byte(i)}, 0)
				if err == nil {
					mu.Lock()
					won[key]++
					mu.Unlock()
				} else if !errors.Is(err, rollback.ErrRefused) {
					t.Error(err)
				}
				if _, _, err := n.Write(t.Context(), fmt.Sprintf("own-%d-%d", i, round), nil, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for round := range rounds {
		require.Equal(t, 1, won[fmt.Sprintf("contended-%d", round)], "round %d", round)
	}
	require.Zero(t, a.alarms(t)+b.alarms(t))
}

// A full bucket takes no new key, and says so. It takes new values of keys that it has, also in
// a batch with a write that it refuses.
func TestAFullBucket(t *testing.T) {
	w := newWorld(t)
	n := w.start(fast())
	var revisions []uint64
	for i := range 20 {
		revision, _ := n.write(t, fmt.Sprintf("k.%d", i), "x", 0)
		revisions = append(revisions, revision)
	}
	js, err := jetstream.New(n.conn)
	require.NoError(t, err)
	info, err := leader.Info(t.Context(), n.conn, "KV_"+bucket)
	require.NoError(t, err)
	_, err = rollback.OpenBucket(t.Context(), js, rollback.Bucket{Name: bucket, TTL: time.Hour, MaxBytes: int64(info.State.Bytes) + 50}) //nolint:gosec // bytes
	require.NoError(t, err)
	var all sync.WaitGroup
	full := make(chan error, 1)
	all.Go(func() {
		_, _, err := n.Write(t.Context(), "new", make([]byte, 100), 0)
		full <- err
	})
	for i, revision := range revisions {
		all.Go(func() {
			if _, _, err := n.Write(t.Context(), fmt.Sprintf("k.%d", i), []byte(""), revision); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	err = <-full
	require.ErrorIs(t, err, rollback.ErrNotWritten)
	require.True(t, leader.IsFull(err), "%v", err)
	require.Zero(t, n.alarms(t))
}

// A stream that goes back to before a node's last write is noticed, by the node that
// lost something. The others adopt its epoch, and so does a node that starts later.
func TestARollbackEndsTheEpoch(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(fast()), w.start(fast())
	a.write(t, "a", "1", 0)
	b.write(t, "b", "1", 0)
	before := w.nats.Moment(t)
	a.write(t, "lost", "1", 0)

	w.goBack(t, before, a, b)
	require.EqualValues(t, 1, b.certain(t), "b has lost nothing, and knows of what a has lost")
	require.EqualValues(t, 1, a.certain(t))
	require.Equal(t, 1, a.alarms(t))
	require.Zero(t, b.alarms(t), "it has lost nothing")

	c := w.start(fast())
	require.EqualValues(t, 1, c.certain(t))
	_, epoch := a.write(t, "lost", "2", 0)
	require.EqualValues(t, 1, epoch, "it goes on")
	require.Equal(t, 1, a.alarms(t), "one rollback is one alarm")
}

// A restart that loses nothing is no rollback. Nor is a message that another node
// overwrote.
func TestNoRollbackIsInvented(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(fast()), w.start(fast())
	at, _ := a.write(t, "lease", "a", 0)
	for range 5 {
		at, _ = b.write(t, "lease", "b", at)
		at, _ = a.write(t, "lease", "a", at)
		at, _ = b.write(t, "lease", "b", at)
		w.restart(t, a, b)
		require.Zero(t, a.certain(t))
		require.Zero(t, b.certain(t))
	}
	require.Zero(t, a.alarms(t)+b.alarms(t))
}

// Other nodes fill the stream up again before the node that lost a write looks: its
// sequence numbers say nothing, its beat does.
func TestARollbackIsNoticedThoughTheStreamIsLongAgain(t *testing.T) {
	w := newWorld(t)
	slow := fast()
	slow.Look = patience // it looks when it writes
	a := w.start(slow)
	<-a.Ready()
	before := w.nats.Moment(t)
	lost, _ := a.write(t, "lost", "1", 0)
	w.goBack(t, before, a)

	hasty := fast()
	hasty.Quarantine = 1 // it waits for nobody, and writes at once
	b := w.start(hasty)
	for n := uint64(0); n < 3*lost; n++ {
		b.write(t, fmt.Sprintf("other-%d", n), "b", 0)
	}
	_, _, err := a.Write(t.Context(), "more", []byte("1"), 0)
	require.ErrorIs(t, err, rollback.ErrUncertain, "it is not reported as certain")
	require.Equal(t, 1, a.alarms(t))
	require.EqualValues(t, 1, a.epochs.Current())
}

// Until all nodes that were known to live have looked, none is certain; a node that
// does not come back is not waited for without end.
func TestNodesWaitForEachOther(t *testing.T) {
	w := newWorld(t)
	b := w.start(fast())
	b.certain(t)
	a := w.start(fast()) // it finds b by its beat, before b's next report
	a.certain(t)
	w.restart(t, a, b)
	a.certain(t)
	b.certain(t)

	b.crash()
	w.restart(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	uncertain := make(chan error, 1)
	go func() {
		_, err := a.Certain(ctx)
		uncertain <- err
	}()
	a.mustWrite(t)
	cancel()
	require.Error(t, <-uncertain, "b may have lost something that only it knows of")

	short := fast()
	short.Quarantine = 1
	require.Zero(t, w.start(short).certain(t))
}

// mustWrite writes until a write is stored, certain or not.
func (n *node) mustWrite(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := 0; ; i++ {
		written := make(chan error, 1)
		go func() {
			_, _, err := n.Write(ctx, fmt.Sprintf("must-%d", i), nil, 0)
			written <- err
		}()
		if _, err := n.last(t, fmt.Sprintf("must-%d", i)); err == nil {
			return
		}
	}
}

func TestANodeThatLeavesIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(fast()), w.start(fast())
	a.write(t, "a", "1", 0)
	b.write(t, "b", "1", 0)
	b.leave()
	w.restart(t, a)
	require.Zero(t, a.certain(t))
	require.Zero(t, w.start(fast()).certain(t), "nor by a node that starts")
}

// Connections break before and after batches are committed, and the stream goes
// back again and again: a write that is reported as certain in an epoch is there,
// or the epoch is over.
func TestThroughBrokenConnectionsAndRollbacks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	way := natstest.NewCuts(rand.New(rand.NewPCG(seed, 1)))
	nodes := []*node{w.start(fast(), nats.SetCustomDialer(way)), w.start(fast(), nats.SetCustomDialer(way)), w.start(fast())}
	alarms := 0
	for round := range 8 {
		before := w.nats.Moment(t)
		claims := w.claim(t, nodes, round, 5+random.IntN(30))
		back := random.IntN(2) == 0
		if back {
			w.goBack(t, before, nodes...)
		} else {
			w.restart(t, nodes...)
		}
		before.Drop()
		now := int64(0)
		for _, n := range nodes {
			now = max(now, n.certain(t))
		}
		for _, n := range nodes {
			require.Equal(t, now, n.certain(t), "all know the same epoch")
		}
		kv := w.open()
		for key, epoch := range claims {
			_, err := kv.Get(t.Context(), key)
			require.True(t, err == nil || epoch < now, "%s is forgotten, and its epoch %d goes on", key, epoch)
			require.True(t, err == nil || back, "%s is forgotten without a rollback: %v", key, err)
		}
		if back && len(claims) > 0 {
			alarms++
		}
	}
	require.EqualValues(t, alarms, nodes[0].certain(t), "each rollback ends one epoch")
	t.Logf("%d rollbacks, %d cuts", alarms, way.Count())
}

// claim has nodes write keys of their own at once. It returns those that were
// certain, with the epoch.
func (w *world) claim(t *testing.T, nodes []*node, round, count int) map[string]int64 {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	certain := map[string]int64{}
	for i, n := range nodes {
		for j := range count {
			all.Go(func() {
				key := fmt.Sprintf("%d-%d-%d", round, i, j)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if _, epoch, err := n.Write(ctx, key, nil, 0); err == nil {
					mu.Lock()
					defer mu.Unlock()
					certain[key] = epoch
				}
			})
		}
	}
	all.Wait()
	return certain
}

// A guard refuses a connection that keeps writes through an interruption.
func TestAConnectionThatBuffersIsRefused(t *testing.T) {
	w := newWorld(t)
	_, err := rollback.New(rollback.Config{
		NATS: w.nats.Connect(t, nats.ReconnectBufSize(nats.DefaultReconnectBufSize)), Bucket: bucket, Subject: api.EpochSubject,
		Epochs: rollback.NewEpochs(w.store.DB, w.store.Table), Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	require.ErrorContains(t, err, "nats.ReconnectBufSize(-1)")
}
