package relay_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

func (w *world) spendAll(from, to int64) {
	for n := from; n <= to; n++ {
		for e := range 5 {
			w.spend(fmt.Sprintf("entity-%d", e), n)
		}
	}
}

// A relay that was paused for longer than its iterators live goes on from where
// the feed is.
func TestIteratorsExpire(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	w.start("a", fast())
	w.spendAll(1, 10)
	w.mustArrive()
	w.clock.advance(16 * time.Minute)
	w.spendAll(11, 20)
	w.mustArrive()
}

// Changes that DynamoDB keeps no longer are lost, and somebody is told; what
// there is arrives. They go with their stream shard, or leave it behind.
func TestTheStreamIsTrimmed(t *testing.T) {
	for name, streams := range map[string]engine.StreamOptions{
		"with its shard": {}, "in an open shard": {ShardAge: 1000 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) { theStreamIsTrimmed(t, streams) })
	}
}

func theStreamIsTrimmed(t *testing.T, streams engine.StreamOptions) {
	t.Helper()
	w := newWorld(t, streams, fault.Options{})
	p := w.start("a", fast())
	w.spendAll(1, 10)
	w.mustArrive()
	p.leave(t)

	w.spendAll(11, 20) // nobody relays these
	w.mu.Lock()
	for key, changes := range w.written {
		w.written[key] = changes[:min(10, len(changes))]
	}
	w.mu.Unlock()
	w.clock.advance(26 * time.Hour)
	w.spendAll(21, 30)

	p = w.start("b", fast())
	w.mustArrive()
	require.Equal(t, 1, p.metric(t, "tidegate_relay_trimmed_total"))
}

// A stream that is disabled and enabled again has another label; the changes of
// the older one come first.
func TestTheStreamIsEnabledAnew(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{ShardRecords: 20}, fault.Options{})
	w.spendAll(1, 10)
	w.stream(false)
	w.stream(true)
	w.spendAll(11, 20)
	w.start("a", fast())
	w.start("b", fast())
	w.mustArrive()
	w.stream(false)
	w.stream(true)
	w.spendAll(21, 30)
	w.mustArrive()
}

func TestNATSRestarts(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{ShardRecords: 50}, fault.Options{})
	a, b := w.start("a", impatient()), w.start("b", impatient())
	w.spendAll(1, 20)
	<-a.Ready()
	<-b.Ready()
	w.nats.Stop()
	w.spendAll(21, 40)
	w.nats.Restart(t)
	w.spendAll(41, 60)
	w.mustArrive()
}

// DynamoDB cannot be reached for a while, also while a relay starts.
func TestTheStoreIsUnreachable(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{ShardRecords: 50}, fault.Options{})
	refused := make(chan struct{}, 1000)
	w.start("a", fast())
	w.spendAll(1, 10)
	w.mustArrive()
	w.faults.Match(func(string, []byte) fault.Fault {
		select {
		case refused <- struct{}{}:
		default:
		}
		return fault.Fault{Kind: fault.Unreachable}
	})
	b := w.start("b", fast())
	w.spendAll(11, 30)
	for range 50 {
		<-refused
	}
	select {
	case <-b.Ready():
		t.Fatal("a relay that has seen no stream is not ready")
	default:
	}
	w.faults.Match(nil)
	w.mustArrive()
	<-b.Ready()
}

// The feed takes no more than it may. What services have seen makes room, and
// nothing else does.
func TestTheFeedIsFull(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	js := w.jetstream()
	retention := feed.Retention{MaxBytes: 100 << 10}
	stream, err := feed.EnsureFeed(t.Context(), js, retention)
	require.NoError(t, err)
	slow, err := stream.CreateOrUpdateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "slow", FilterSubject: events.ChangesAll, AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	_, err = stream.CreateOrUpdateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "idle", FilterSubject: events.KindSubject(events.KindNamespace), AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)

	tuning := fast()
	tuning.Purge, tuning.Page = 400*time.Millisecond, 50
	p := w.startWith("a", tuning, retention)
	w.spendAll(1, 60)
	require.Eventually(t, func() bool { return p.metric(t, "tidegate_relay_feed_full_total") > 0 }, patience, 5*time.Millisecond)
	require.Less(t, w.count(js), w.expected())

	seen := map[string]int{}
	for len(seen) < w.expected() {
		batch, err := slow.Fetch(20, jetstream.FetchMaxWait(time.Second))
		require.NoError(t, err)
		for m := range batch.Messages() {
			e, err := events.Decode(m.Data())
			require.NoError(t, err)
			seen[e.Position.String()]++
			require.NoError(t, m.DoubleAck(t.Context()))
		}
	}
	for position, times := range seen {
		require.Equal(t, 1, times, position)
	}
	require.Eventually(t, func() bool { return w.count(js) == 0 }, patience, 5*time.Millisecond, "what all have seen is dropped")
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(events.CheckpointsAll))
	require.NoError(t, err)
	require.NotEmpty(t, info.State.Subjects, "checkpoints stay")
}

// Events grow old; checkpoints do not.
func TestCheckpointsOutliveEvents(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{ShardRecords: 20}, fault.Options{})
	retention := feed.Retention{MaxAge: time.Second}
	p := w.startWith("a", fast(), retention)
	w.spendAll(1, 10)
	js := w.jetstream()
	require.Eventually(t, func() bool { return p.metric(t, "tidegate_relay_records_total") == 50 }, patience, 5*time.Millisecond)
	require.Eventually(t, func() bool { return w.count(js) == 0 }, patience, 20*time.Millisecond, "events grow old")
	p.leave(t)
	p = w.startWith("b", fast(), retention)
	w.spendAll(11, 11)
	require.Eventually(t, func() bool { return p.metric(t, "tidegate_relay_records_total") >= 5 }, patience, 5*time.Millisecond)
	p.leave(t)
	require.Equal(t, 5, p.metric(t, "tidegate_relay_records_total"), "nothing comes again")
}

// Records that the feed does not carry move the checkpoint now and then, not with
// every page.
func TestRecordsOutsideTheFeedMoveTheCheckpoint(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	tuning := fast()
	tuning.Page = 1
	p := w.start("a", tuning)
	for n := range int64(20) {
		w.put(table.EncodeVersion(keys.Version{Namespace: ns}, n+1))
	}
	outside := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return p.metric(t, "tidegate_relay_outside_total") == n }, patience, 5*time.Millisecond)
	}
	outside(20)
	require.Zero(t, p.metric(t, "tidegate_relay_batches_total"))
	w.put(table.EncodeVersion(keys.Version{Namespace: ns}, 100))
	outside(21) // and is read: whichever page comes next finds the checkpoint old
	w.clock.advance(2 * time.Minute)
	require.Eventually(t, func() bool { return p.metric(t, "tidegate_relay_batches_total") == 1 }, patience, 5*time.Millisecond)
	p.leave(t)

	p = w.start("b", fast()) // begins behind the checkpoint
	w.spend("entity", 1)
	w.mustArrive()
	require.Zero(t, p.metric(t, "tidegate_relay_outside_total"))
}

// An item that no event can be made of goes to the dead letters with its reason;
// the items behind it go on. What may be a secret does not.
func TestDamagedItemsGoToTheDeadLetters(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	damaged := keys.Bucket{Namespace: ns, Entity: "damaged", Resource: "gpt-4"}
	w.put(table.KeyItem(damaged.Key()))
	w.spend("sound", 1)
	secret := table.KeyItem(keys.Key{PK: "_/SYSTEM#", SK: "#OTHER_KEY#1"})
	secret["secret"] = &types.AttributeValueMemberS{Value: "damaging"}
	w.put(secret)
	w.spend("sound", 2)
	w.mu.Lock()
	delete(w.written, damaged.Key())
	w.mu.Unlock()

	tuning := fast()
	tuning.Purge = 10 * time.Millisecond // which without services purges nothing
	w.start("a", tuning)
	w.mustArrive()
	letters := w.deadLetters()
	require.Len(t, letters, 2)
	require.Contains(t, letters[0].Reason, "new image: ")
	require.Contains(t, string(letters[0].Data), `"new":{`)
	require.Contains(t, letters[1].Reason, "unknown item")
	require.Contains(t, string(letters[1].Data), "#OTHER_KEY#1")
	require.NotContains(t, string(letters[1].Data), "damaging", "the images of an unknown item stay where they are")

	// Tried again by the same release it is as damaged as before, and still there.
	dead := feed.NewDeadLetters(w.jetstream())
	for range 3 {
		number := letters[0].Number
		require.NoError(t, dead.Replay(t.Context(), number))
		require.Eventually(t, func() bool {
			letters = w.deadLetters()
			return len(letters) == 2 && letters[1].Number > number
		}, patience, 5*time.Millisecond)
		letters[0] = letters[1]
	}
	w.mustArrive()
}

// A dead letter that a newer release can read comes into the feed late, and with
// its mark.
func TestDeadLettersAreReplayed(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	p := w.start("a", fast())
	<-p.Ready()
	js := w.jetstream()
	dead := feed.NewDeadLetters(js)
	require.NoError(t, dead.Put(t.Context(), "relay", feed.DeadRecord{
		Subject: events.ReplaySubject("relay", 0), Mark: "2026-11-21T12:00:00.000/7", Reason: errors.New("not known yet"),
		Data: []byte(`{"stream":"2026-11-21T12:00:00.000","sequence":"7","operation":"INSERT","at_ms":1795262400000,` +
			`"keys":{"PK":{"S":"_/SYSTEM#"},"SK":{"S":"#NAMESPACE#acme"}},` +
			`"new":{"PK":{"S":"_/SYSTEM#"},"SK":{"S":"#NAMESPACE#acme"},"namespace_id":{"S":"AAAAAAAAAAA"}}}`),
	}))
	require.NoError(t, dead.Replay(t.Context(), w.deadLetters()[0].Number))
	require.Eventually(t, func() bool { return w.count(js) == 1 }, patience, 5*time.Millisecond)
	require.Empty(t, w.deadLetters())
	all := w.received()
	require.Equal(t, keys.NamespaceName{Name: "acme"}, all[0].Key)
	stream, err := js.Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	m, err := stream.GetLastMsgForSubject(t.Context(), events.Subject(events.KindNamespace, events.Lane(all[0].Key)))
	require.NoError(t, err)
	require.Equal(t, "2026-11-21T12:00:00.000/7", m.Header.Get(feed.HeaderReplay))
}

// A relay that is told to stop leaves its group, and others take over at once.
func TestRelaysShareTheStreamShards(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{ShardRecords: 20, OpenShards: 16}, fault.Options{})
	w.spendAll(1, 300)
	a, b := w.start("a", fast()), w.start("b", fast())
	w.mustArrive()
	shards := func(p *process) int { return p.metric(t, "tidegate_relay_stream_shards") }
	require.Eventually(t, func() bool { return shards(a) > 0 && shards(b) > 0 }, patience, 5*time.Millisecond)
	a.leave(t)
	w.spendAll(301, 310)
	w.mustArrive()
}

// What the relay aborts itself, because it is to stop, is no failure to tell of,
// whichever of its readers hears of it first.
func TestWhatTheRelayAbortsIsNoFailure(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	var aborted atomic.Int64
	w.faults.Match(func(operation string, _ []byte) fault.Fault {
		if operation != "GetRecords" || aborted.Add(1) > 3 {
			return fault.Fault{}
		}
		return fault.Fault{Kind: fault.ReplyLost, Err: context.Canceled}
	})
	p := w.start("a", fast())
	w.spendAll(1, 10)
	w.mustArrive()
	require.Greater(t, aborted.Load(), int64(3))
	require.Zero(t, p.metric(t, "tidegate_relay_failures_total"))
}
