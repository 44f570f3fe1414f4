package rollback_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/internal/rollback"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
)

// patience is how long tests wait for what must come.
const patience = time.Minute

const bucket = "TEST"

// world is a NATS server, a bucket in it, and a table.
type world struct {
	t     *testing.T
	nats  *natstest.Server
	store *tabletest.Bench
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, nats: natstest.Start(t), store: tabletest.New(t)}
	w.open()
	return w
}

// open makes the bucket, or opens it.
func (w *world) open() jetstream.KeyValue {
	w.t.Helper()
	js, err := jetstream.New(w.nats.Connect(w.t))
	require.NoError(w.t, err)
	kv, err := rollback.OpenBucket(w.t.Context(), js, rollback.Bucket{Name: bucket, TTL: time.Hour})
	require.NoError(w.t, err)
	return kv
}

// restart restarts the server and waits until the nodes have connected to it.
func (w *world) restart(t *testing.T, nodes ...*node) {
	t.Helper()
	w.nats.Restart(t)
	w.reconnected(t, nodes...)
}

// goBack rolls the stream back to a moment and waits until the nodes have connected again.
func (w *world) goBack(t *testing.T, to *natstest.Moment, nodes ...*node) {
	t.Helper()
	w.nats.GoBack(t, "KV_"+bucket, to, nil)
	w.reconnected(t, nodes...)
}

// reconnected waits until nodes have connected to the server's present process. A node
// that has not yet noticed a restart is certain of the term before it.
func (w *world) reconnected(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		require.Eventually(t, func() bool { return n.conn.ConnectedServerId() == w.nats.ID() }, patience, time.Millisecond)
	}
}

// fast are the times of a node in tests. Only what hangs takes as long as the
// quarantine.
func fast() rollback.Tuning {
	return rollback.Tuning{Look: 10 * time.Millisecond, Quarantine: patience, Timeout: 500 * time.Millisecond}
}

// node is an admission node's part.
type node struct {
	*rollback.Guard
	conn    *nats.Conn
	epochs  *rollback.Epochs
	metrics *prometheus.Registry
	stop    context.CancelFunc
	ended   chan error
}

func (w *world) start(tuning rollback.Tuning, options ...nats.Option) *node {
	w.t.Helper()
	n := &node{
		conn: w.nats.Connect(w.t, options...), epochs: rollback.NewEpochs(w.store.DB, w.store.Table),
		metrics: prometheus.NewRegistry(), ended: make(chan error, 1),
	}
	var err error
	n.Guard, err = rollback.New(rollback.Config{
		NATS: n.conn, Bucket: bucket, Subject: api.EpochSubject, Epochs: n.epochs, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Metrics: n.metrics, Tuning: tuning,
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	go func() { n.ended <- n.Run(ctx) }()
	w.t.Cleanup(n.leave)
	return n
}

// leave stops a node as a signal would.
func (n *node) leave() {
	n.stop()
	err := <-n.ended
	n.ended <- err
}

// crash ends a node that can tell nobody.
func (n *node) crash() {
	n.conn.Close()
	n.leave()
}

// write writes a key that has a revision, until the outcome is definite.
func (n *node) write(t *testing.T, key, value string, revision uint64) (uint64, int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sequence, epoch, err := n.Write(ctx, key, []byte(value), revision)
	require.NoError(t, err)
	return sequence, epoch
}

// certain is the epoch once it is certain.
func (n *node) certain(t *testing.T) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	epoch, err := n.Certain(ctx)
	require.NoError(t, err)
	return epoch
}

func (n *node) alarms(t *testing.T) int {
	t.Helper()
	families, err := n.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "tidegate_settlements_forgotten_total" {
			return int(family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	require.Fail(t, "the metric is gone")
	return 0
}

// last waits for a key to be there.
func (n *node) last(t *testing.T, key string) (*leader.Message, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for {
		m, err := leader.Last(ctx, n.conn, "KV_"+bucket, "$KV."+bucket+"."+key)
		if err == nil || ctx.Err() != nil {
			return m, err
		}
	}
}
