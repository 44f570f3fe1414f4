package relay_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/relay"
)

const ns = "AAAAAAAAAAA"

// clock is the time, moved on by tests.
type clock struct{ ahead atomic.Int64 }

func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// world is a store and a NATS server, and what was written to the store.
type world struct {
	t      *testing.T
	clock  *clock
	engine *engine.Engine
	faults *fault.Transport // before the store of all relays
	client *dynamodb.Client // beside them
	nats   *natstest.Server

	expects []string // services, by relays

	mu      sync.Mutex
	written map[keys.Key][]uint64 // sequence numbers of each item's changes; guarded by mu
}

// newWorld makes them; faults befall the relays' reads.
func newWorld(t *testing.T, streams engine.StreamOptions, faults fault.Options) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{}, nats: natstest.Start(t), written: map[keys.Key][]uint64{}}
	w.engine = engine.New(engine.Options{Now: w.clock.Now, Streams: streams, OnCommit: w.commit})
	faults.Next, faults.Now = w.engine.HTTPClient(), w.clock.Now
	w.faults = fault.New(faults)
	w.client = dynamodb.NewFromConfig(engine.Config(w.engine.HTTPClient(), "us-east-1"))
	require.NoError(t, table.CreateTable(t.Context(), w.client, table.DefaultName))
	return w
}

// commit writes down what the feed must come to have.
func (w *world) commit(c engine.Commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range c.Changes {
		k := c.Changes[i].Keys()
		key := keys.Key{PK: k["PK"].Text(), SK: k["SK"].Text()}
		w.written[key] = append(w.written[key], c.Changes[i].Sequence)
	}
}

func (w *world) jetstream() jetstream.JetStream {
	w.t.Helper()
	js, err := jetstream.New(w.nats.Connect(w.t))
	require.NoError(w.t, err)
	return js
}

// put writes an item as a whole.
func (w *world) put(item table.Item) {
	w.t.Helper()
	name := table.DefaultName
	_, err := w.client.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: &name, Item: item})
	require.NoError(w.t, err)
}

// spend writes the nth state of a bucket.
func (w *world) spend(entity string, n int64) {
	w.t.Helper()
	w.put(table.EncodeBucket(&table.Bucket{
		Key: keys.Bucket{Namespace: ns, Entity: entity, Resource: "gpt-4"}, Level: 1, Want: 1, Fingerprint: "k3J9x1QaZ0c",
		Limits: []table.Limit{{
			Limit: bucket.Limit{Name: "rpm", Capacity: 100_000, Refill: 100_000, Period: 60_000},
			Drawn: n * 1000, Consumed: n * 1000,
		}},
		Acquires: n, WriteUnits: n, LastWrite: fmt.Sprint(n),
	}))
}

func (w *world) remove(key keys.Item) {
	w.t.Helper()
	name := table.DefaultName
	_, err := w.client.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{TableName: &name, Key: table.KeyItem(key.Key())})
	require.NoError(w.t, err)
}

// stream enables or disables the table's stream.
func (w *world) stream(on bool) {
	w.t.Helper()
	name := table.DefaultName
	s := &types.StreamSpecification{StreamEnabled: &on}
	if on {
		s.StreamViewType = types.StreamViewTypeNewAndOldImages
	}
	_, err := w.client.UpdateTable(context.Background(), &dynamodb.UpdateTableInput{TableName: &name, StreamSpecification: s})
	require.NoError(w.t, err)
}

// patience is how long tests wait for what must come: only what hangs takes so long.
const patience = time.Minute

// fast are the times of a relay in tests. It gives up on nobody who is merely slow.
func fast() relay.Tuning {
	return relay.Tuning{
		Poll: 5 * time.Millisecond, Survey: 20 * time.Millisecond, MemberTTL: 200 * time.Millisecond, StoreTimeout: patience,
		PublishTimeout: patience, MaxBackoff: 50 * time.Millisecond, Purge: time.Hour,
	}
}

// impatient are those of a relay whose requests to NATS get lost.
func impatient() relay.Tuning {
	tuning := fast()
	tuning.PublishTimeout = 300 * time.Millisecond
	return tuning
}

// process is a running relay.
type process struct {
	*relay.Relay
	conn    *nats.Conn
	metrics *prometheus.Registry
	stop    context.CancelFunc
	ended   chan error
}

func (w *world) start(name string, tuning relay.Tuning, options ...nats.Option) *process {
	w.t.Helper()
	return w.startWith(name, tuning, feed.Retention{}, options...)
}

func (w *world) startWith(name string, tuning relay.Tuning, retention feed.Retention, options ...nats.Option) *process {
	w.t.Helper()
	nc := w.nats.Connect(w.t, append([]nats.Option{nats.ErrorHandler(nil)}, options...)...)
	p := &process{conn: nc, metrics: prometheus.NewRegistry(), ended: make(chan error, 1)}
	var err error
	p.Relay, err = relay.New(relay.Config{
		NATS: nc, DynamoDB: engine.Config(w.faults, "us-east-1"), Table: table.DefaultName, Member: name,
		Now: w.clock.Now, Log: slog.New(slog.DiscardHandler), Metrics: p.metrics, Retention: retention, Expects: w.expects, Tuning: tuning,
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.ended <- p.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); err := <-p.ended; p.ended <- err })
	return p
}

// leave stops the relay as a signal would.
func (p *process) leave(t *testing.T) {
	t.Helper()
	p.stop()
	err := <-p.ended
	p.ended <- nil
	require.NoError(t, err)
}

// crash cuts the relay off in the middle of what it does.
func (p *process) crash() {
	p.conn.Close()
	p.stop()
	<-p.ended
	p.ended <- nil
}

func (p *process) metric(t *testing.T, name string) int {
	t.Helper()
	families, err := p.metrics.Gather()
	require.NoError(t, err)
	total := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return int(total)
}

// received is what the feed has, in its order.
func (w *world) received() (all []*events.Event) {
	w.t.Helper()
	stream, err := w.jetstream().Stream(w.t.Context(), events.StreamName)
	require.NoError(w.t, err)
	info, err := stream.Info(w.t.Context())
	require.NoError(w.t, err)
	for n := info.State.FirstSeq; n <= info.State.LastSeq; n++ {
		m, err := stream.GetMsg(w.t.Context(), n, jetstream.WithGetMsgSubject(events.ChangesAll))
		if err != nil {
			require.ErrorIs(w.t, err, jetstream.ErrMsgNotFound)
			break
		}
		n = m.Sequence
		e, err := events.Decode(m.Data)
		require.NoError(w.t, err)
		require.Equal(w.t, events.Subject(e.Kind(), events.Lane(e.Key)), m.Subject)
		all = append(all, e)
	}
	return all
}

// count is how many events the feed has.
func (w *world) count(js jetstream.JetStream) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, events.StreamName)
	if err != nil {
		return -1
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(events.ChangesAll))
	if err != nil {
		return -1
	}
	n := 0
	for _, of := range info.State.Subjects {
		n += int(of)
	}
	return n
}

// expected is how many events there are to be, of items that the feed carries.
func (w *world) expected() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, changes := range w.written {
		if carried(key) {
			n += len(changes)
		}
	}
	return n
}

func carried(key keys.Key) bool {
	item, err := keys.Parse(key)
	if err != nil {
		return false
	}
	_, ok := events.KindOf(item)
	return ok
}

// mustArrive waits for the feed to have as many events as there are to be, and
// requires each change once, and those of an item in their order.
func (w *world) mustArrive() {
	w.t.Helper()
	js := w.jetstream()
	require.Eventually(w.t, func() bool { return w.count(js) >= w.expected() }, patience, 10*time.Millisecond, "not everything arrives")
	w.mustBeExact()
}

func (w *world) mustBeExact() {
	w.t.Helper()
	got := map[keys.Key][]uint64{}
	for _, e := range w.received() {
		var sequence uint64
		_, err := fmt.Sscan(e.Position.Sequence(), &sequence)
		require.NoError(w.t, err)
		got[e.Key.Key()] = append(got[e.Key.Key()], sequence)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, changes := range w.written {
		if carried(key) {
			require.Equal(w.t, changes, got[key], "%s %s", key.PK, key.SK)
		}
		delete(got, key)
	}
	require.Empty(w.t, got)
}

// deadLetters are those of the relays.
func (w *world) deadLetters() []feed.DeadLetter {
	w.t.Helper()
	letters, _, err := feed.NewDeadLetters(w.jetstream()).List(w.t.Context(), "relay", 0, 1000)
	require.NoError(w.t, err)
	return letters
}
