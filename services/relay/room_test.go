package relay_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/relay"
)

// service is a service that follows kinds of the feed, by one durable consumer.
type service struct {
	w        *world
	consumer jetstream.Consumer

	mu   sync.Mutex
	seen map[keys.Key][]string // positions of each item's changes; guarded by mu
	n    int                   // changes; guarded by mu
}

// follows registers a service for kinds.
func (w *world) follows(name string, retention feed.Retention, kinds ...events.Kind) *service {
	w.t.Helper()
	stream, err := feed.EnsureFeed(w.t.Context(), w.jetstream(), retention)
	require.NoError(w.t, err)
	var subjects []string
	for _, kind := range kinds {
		subjects = append(subjects, events.KindSubject(kind))
	}
	c, err := stream.CreateOrUpdateConsumer(w.t.Context(), jetstream.ConsumerConfig{
		Durable: name, FilterSubjects: subjects, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 100,
	})
	require.NoError(w.t, err)
	return &service{w: w, consumer: c, seen: map[keys.Key][]string{}}
}

// works sees what there is and what comes, until the test ends.
func (s *service) works() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	s.w.t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			batch, err := s.consumer.Fetch(100, jetstream.FetchMaxWait(50*time.Millisecond))
			if err != nil {
				continue
			}
			for m := range batch.Messages() {
				s.sees(m)
			}
		}
	}()
}

func (s *service) sees(m jetstream.Msg) {
	if e, err := events.Decode(m.Data()); err == nil {
		s.mu.Lock()
		s.seen[e.Key.Key()] = append(s.seen[e.Key.Key()], e.Position.Sequence())
		s.n++
		s.mu.Unlock()
	}
	_ = m.Ack() // else it comes again
}

func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// mustHave waits for all changes of items whose sort keys begin so: each once, in order.
func (s *service) mustHave(sortKeys ...string) {
	s.w.t.Helper()
	s.w.mu.Lock()
	want, n := map[keys.Key][]string{}, 0
	for key, changes := range s.w.written {
		for _, number := range changes {
			if slices.ContainsFunc(sortKeys, func(prefix string) bool { return strings.HasPrefix(key.SK, prefix) }) {
				want[key] = append(want[key], fmt.Sprintf("%040d", number))
				n++
			}
		}
	}
	s.w.mu.Unlock()
	require.Eventually(s.w.t, func() bool { return s.count() >= n }, patience, 5*time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, positions := range s.seen {
		for i, position := range positions {
			s.seen[key][i] = strings.Repeat("0", 40-len(position)) + position
		}
	}
	require.Equal(s.w.t, want, s.seen)
}

func (w *world) entity(n int64) {
	w.t.Helper()
	w.put(table.EncodeEntity(&table.Entity{Key: keys.Entity{Namespace: ns, ID: fmt.Sprint("entity-", n%5)}, Version: n}))
}

// audit makes an audit event of more than a kilobyte.
func (w *world) audit(n int64) {
	w.t.Helper()
	w.put(table.EncodeAuditEvent(&table.AuditEvent{
		Key: keys.Audit{Namespace: ns, ID: "alice", AtMs: 1795262400000 + n, Sequence: n}, Action: api.AuditLimitsSet,
		By: api.Principal{User: "alice"}, After: `{"note":"` + strings.Repeat("x", 1000) + `"}`, MAC: []byte("seal"),
	}))
}

// of returns how many messages of a kind the feed has.
func (w *world) of(js jetstream.JetStream, kind events.Kind) (n int) {
	stream, err := js.Stream(w.t.Context(), events.StreamName)
	require.NoError(w.t, err)
	info, err := stream.Info(w.t.Context(), jetstream.WithSubjectFilter(events.KindSubject(kind)))
	require.NoError(w.t, err)
	for _, messages := range info.State.Subjects {
		n += int(messages)
	}
	return n
}

// small is a feed in which buckets may take 900 kB, audit events 150, others 50.
func small() feed.Retention { return feed.Retention{MaxBytes: 1_200_000} }

// purging are the times of a relay that purges often.
func purging() relay.Tuning {
	tuning := fast()
	tuning.Purge, tuning.Page, tuning.Checkpoint = 150*time.Millisecond, 50, 20*time.Millisecond
	return tuning
}

// No service sees buckets for long. They wait in DynamoDB's stream once they have taken
// their part of the feed; the other kinds pass them, whatever relays come and go and
// however often stream shards roll over. Each change is seen once, in order.
func TestBucketsThatWaitHoldNothingUp(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{ShardRecords: 400}, fault.Options{})
	usage := w.follows("aggregator-00", small(), events.KindBucket)
	others := w.follows("other-00", small(), events.KindEntity, events.KindAudit)
	others.works()
	a, b := w.startWith("a", purging(), small()), w.startWith("b", purging(), small())
	waits := func(p *process) bool { return p.metric(t, "tidegate_relay_buckets_wait") > 0 }
	n := int64(0)
	for ; !waits(a); n++ {
		w.spendAll(n, n)
	}
	js := w.jetstream()
	w.entity(1)
	require.Eventually(t, func() bool { return others.count() == 1 }, patience, 5*time.Millisecond)
	held := w.of(js, events.KindBucket)
	for m := int64(2); m <= 60; m++ {
		w.spendAll(n+m, n+m+3) // more than the stream shards take
		w.entity(m)
		if m == 20 {
			a.crash()
		}
		if m == 40 {
			a = w.startWith("c", purging(), small())
		}
		if m%20 == 0 {
			w.audit(m)
			require.Eventually(t, func() bool { return others.count() >= int(m+m/20) }, patience, 5*time.Millisecond)
		}
	}
	require.Less(t, w.of(js, events.KindBucket), held+1000, "buckets wait")
	require.Zero(t, b.metric(t, "tidegate_relay_dropped_total")+a.metric(t, "tidegate_relay_dropped_total"))
	others.mustHave("#META", "#AUDIT")
	usage.works()
	usage.mustHave("#STATE")
	others.mustHave("#META", "#AUDIT")
	require.Zero(t, a.metric(t, "tidegate_relay_trimmed_total")+b.metric(t, "tidegate_relay_trimmed_total"))
	require.Eventually(t, func() bool { return !waits(a) && !waits(b) }, patience, 5*time.Millisecond)
}

// An archive that is away for long neither stops usage nor fills the feed: audit events
// stay within their bound, the oldest are dropped, and that is told.
func TestAuditEventsBeyondTheirBoundAreDropped(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	w.follows("archiver-00", small(), events.KindAudit)
	usage := w.follows("aggregator-00", small(), events.KindBucket)
	usage.works()
	p := w.startWith("a", purging(), small())
	js := w.jetstream()
	for n := range int64(50) {
		w.audit(n)
		w.spendAll(n, n)
	}
	usage.mustHave("#STATE")
	require.Eventually(t, func() bool { return w.of(js, events.KindBucket) == 0 }, patience, 5*time.Millisecond, "audit events hold no other kind up")
	require.Equal(t, 50, w.of(js, events.KindAudit))
	require.Zero(t, p.metric(t, "tidegate_relay_dropped_total"))
	for n := int64(50); n < 400; n++ {
		w.audit(n)
	}
	require.Eventually(t, func() bool { return p.metric(t, "tidegate_relay_dropped_total") > 0 }, patience, 5*time.Millisecond)
	require.Eventually(t, func() bool { return w.of(js, events.KindAudit) < 130 }, patience, 5*time.Millisecond)
	w.spendAll(50, 60)
	usage.mustHave("#STATE")
	require.Zero(t, p.metric(t, "tidegate_relay_feed_full_total"))
}

// Nothing is lost by dropping a kind that no service follows.
func TestDroppingWhatNobodyFollowsIsNoLoss(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	p := w.startWith("a", purging(), small())
	for n := range int64(300) {
		w.audit(n)
	}
	js := w.jetstream()
	require.Eventually(t, func() bool {
		return p.metric(t, "tidegate_relay_records_total") == 300 && w.of(js, events.KindAudit) < 130
	}, patience, 5*time.Millisecond)
	require.Zero(t, p.metric(t, "tidegate_relay_dropped_total"))
}

// A sharder that is away holds buckets up until they wait. Then it is the sharder that
// misses changes, and not the aggregator.
func TestASharderThatIsAwayStopsNoUsage(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	w.follows("sharder-00", small(), events.KindBucket)
	usage := w.follows("aggregator-00", small(), events.KindBucket)
	usage.works()
	p := w.startWith("a", purging(), small())
	for n := int64(0); n < 700; n += 10 {
		w.spendAll(n, n+9)
	}
	usage.mustHave("#STATE")
	require.NotZero(t, p.metric(t, "tidegate_relay_dropped_total"))
}

// An aggregator that is started first after a sharder has all changes: they wait for it
// from the first relay on.
func TestChangesWaitForAnExpectedService(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	sharder := w.follows("sharder-00", small(), events.KindBucket)
	sharder.works()
	other := w.follows("other-00", small(), events.KindEntity)
	other.works()
	w.expects = []string{api.ServiceAggregator}
	p := w.startWith("a", purging(), small())
	w.spendAll(1, 20)
	w.entity(1)
	sharder.mustHave("#STATE")
	js := w.jetstream()
	require.Eventually(t, func() bool { return w.of(js, events.KindEntity) == 0 }, patience, 5*time.Millisecond, "the feed is purged, also of what came after the changes")
	require.Equal(t, w.expected()-1, w.of(js, events.KindBucket))
	usage := w.follows("aggregator-00", small(), events.KindBucket)
	usage.works()
	usage.mustHave("#STATE")
	require.Eventually(t, func() bool { return w.of(js, events.KindBucket) == 0 }, patience, 5*time.Millisecond)
	require.Zero(t, p.metric(t, "tidegate_relay_dropped_total"))
}

// Changes that grow too old for the feed before a service saw them are told.
func TestChangesThatExpireUnseenAreTold(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	retention := feed.Retention{MaxAge: 2 * time.Second}
	w.follows("aggregator-00", retention, events.KindBucket)
	done := w.follows("archiver-00", retention, events.KindAudit)
	done.works()
	p := w.startWith("a", purging(), retention)
	w.spendAll(1, 5)
	w.audit(1)
	js := w.jetstream()
	require.Eventually(t, func() bool { return done.count() == 1 && w.of(js, events.KindBucket) == 25 }, patience, 5*time.Millisecond)
	require.Eventually(t, func() bool { return p.metric(t, "tidegate_relay_dropped_total") > 0 }, patience, 5*time.Millisecond)
	require.Equal(t, 1, p.metric(t, "tidegate_relay_dropped_total"), "of buckets alone")
}

// A feed that is half full is purged at once, not with the next round.
func TestAHalfFullFeedIsPurgedAtOnce(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	usage := w.follows("aggregator-00", small(), events.KindBucket)
	usage.works()
	tuning := purging()
	tuning.Purge = time.Hour
	w.startWith("a", tuning, small())
	js := w.jetstream()
	stream, err := js.Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	taken := func() uint64 {
		info, err := stream.Info(t.Context())
		require.NoError(t, err)
		return info.State.Bytes
	}
	for n := int64(0); taken() < 700_000; n++ {
		w.spendAll(n, n)
		usage.mustHave("#STATE") // writes do not outrun the relay
	}
	w.clock.advance(time.Hour) // all consumers know of what was there
	require.Eventually(t, func() bool { return taken() < 600_000 }, patience, 5*time.Millisecond)
}

// full are the times of a relay that purges only because its feed is half full.
func full() relay.Tuning {
	tuning := purging()
	tuning.Purge, tuning.Quarantine = time.Hour, time.Nanosecond
	return tuning
}

// Changes of several times the feed's size pass a feed whose services keep up, although a
// round of purges is an hour: a half full feed is purged up to the last acknowledgement.
// The purge goes up to no change that a slower service has yet to handle, also of lanes in which
// little happens.
func TestAFeedThatFillsUpIsPurgedUpToTheLastAcknowledgement(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{ShardRecords: 400}, fault.Options{})
	usage := w.follows("aggregator-00", small(), events.KindBucket, events.KindEntity)
	other := w.follows("other-00", small(), events.KindEntity)
	usage.works()
	other.works()
	a, b := w.startWith("a", full(), small()), w.startWith("b", full(), small())
	for n := range int64(500) {
		w.spendAll(n, n)
		if n%50 == 0 {
			w.entity(n)
		}
	}
	usage.mustHave("#STATE", "#META")
	other.mustHave("#META")
	js := w.jetstream()
	require.Eventually(t, func() bool { return w.of(js, events.KindBucket) < 1000 }, patience, 5*time.Millisecond, "of 2500")
	require.Zero(t, a.metric(t, "tidegate_relay_dropped_total")+b.metric(t, "tidegate_relay_dropped_total"))
}

// A full feed that cannot be purged, because a service is slow, makes relays wait. Nothing
// is purged that the service has not handled, and nothing is lost once it goes on.
func TestAFullFeedOfASlowServiceWaits(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	slow := w.follows("aggregator-00", small(), events.KindBucket)
	quick := w.follows("other-00", small(), events.KindBucket)
	quick.works()
	p := w.startWith("a", full(), small())
	for n := int64(0); p.metric(t, "tidegate_relay_buckets_wait") == 0; n++ {
		w.spendAll(n, n)
	}
	w.spendAll(5000, 5100)
	js := w.jetstream()
	held, purged := w.of(js, events.KindBucket), p.metric(t, "tidegate_relay_purged_sequence")
	batch, err := slow.consumer.Fetch(50, jetstream.FetchMaxWait(patience))
	require.NoError(t, err)
	for m := range batch.Messages() {
		slow.sees(m)
	}
	require.Eventually(t, func() bool { return p.metric(t, "tidegate_relay_purged_sequence") > purged }, patience, 5*time.Millisecond)
	require.GreaterOrEqual(t, w.of(js, events.KindBucket), held-50, "no more than the slow service has handled")
	slow.works()
	slow.mustHave("#STATE")
	quick.mustHave("#STATE")
	require.Zero(t, p.metric(t, "tidegate_relay_dropped_total"))
}
