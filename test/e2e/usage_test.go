package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/relay"
)

const (
	numEntities  = 24
	numResources = 2
)

// P7, from the acquire to the snapshot: callers spend, adjust and release from many
// buckets, over midnight, and buckets expire; relays and aggregators come, leave
// and are killed at any step; stream shards roll over; pages come again, late and
// without their answers; events come twice and out of order; every third write of
// a snapshot fails, or seems to. At the end each snapshot equals the change of the
// counters, and there is no other.
func TestUsageIsExactFromTheAcquireToTheSnapshot(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	w := newWorld(t, options{
		began: midnight.Add(-10 * time.Minute), streams: engine.StreamOptions{ShardRecords: 150},
		reads: fault.Options{Seed: seed, Chances: []fault.Chance{
			{Probability: .05, Operations: []string{"GetRecords"}, Fault: fault.Fault{Kind: fault.PageAgain}},
			{Probability: .05, Operations: []string{"GetRecords"}, Fault: fault.Fault{Kind: fault.PageOverlaps}},
			{Probability: .03, Operations: []string{"GetRecords"}, Fault: fault.Fault{Kind: fault.ShardHeld, Delay: 30 * time.Millisecond}},
			{Probability: .02, Operations: []string{"GetRecords"}, Fault: fault.ExpiredIterator()},
			{Probability: .02, Fault: fault.Fault{Kind: fault.ReplyLost}},
			{Probability: .02, Fault: fault.InternalError()},
		}},
	})
	w.writes.Match(tabletest.Mishaps(rand.New(rand.NewPCG(seed, 1))))
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1000), perDay("tpm", 100_000))
	w.admission(t)
	w.admission(t)
	s := &staff{w: w, random: rand.New(rand.NewPCG(seed, 2)), way: natstest.NewCuts(rand.New(rand.NewPCG(seed, 3)))}
	c := newCrowd(t, w, seed)
	for round := 0; round < 14 || w.clock.now().Before(midnight.Add(time.Second)); round++ {
		s.hire(t)
		if left := midnight.Sub(w.clock.now()); round == 5 && left > time.Second { // midnight comes while they spend
			w.clock.advance(left - 100*time.Millisecond)
		}
		c.spend(t, 100)
		w.expire(t, s.random)
		w.repeat(t, s.random)
		s.dismiss(t)
	}
	s.hire(t)
	w.mustBeCounted(t)

	shards := w.streamShards(t)
	t.Logf("%d snapshots, %d stream shards, %d relays and %d aggregators, %d cuts", len(w.ledger.Totals()), shards, s.relays, s.aggregators, s.way.Count())
	require.Greater(t, shards, 3, "stream shards roll over")
	windows := map[string]bool{}
	for key := range w.ledger.Totals() {
		windows[key.Window+" "+key.Start] = true
	}
	require.Equal(t, map[string]bool{
		"hourly 2026-03-01T23:00:00Z": true, "daily 2026-03-01T00:00:00Z": true,
		"hourly 2026-03-02T00:00:00Z": true, "daily 2026-03-02T00:00:00Z": true,
	}, windows, "an hour and a day that begin at once are two snapshots")
}

// staff are the relays and aggregators that work at the moment.
type staff struct {
	w      *world
	random *rand.Rand
	way    *natstest.Cuts

	relays, aggregators int // so far
	working             map[string]*process
}

// hire sees to it that two relays and three aggregators work.
func (s *staff) hire(t *testing.T) {
	t.Helper()
	if s.working == nil {
		s.working = map[string]*process{}
	}
	for range 2 - s.count("relay") {
		s.relays++
		name := fmt.Sprintf("relay-%d", s.relays)
		s.working[name] = s.w.relay(t, name, relay.Tuning{Page: 1 + s.random.IntN(50), Purge: 300 * time.Millisecond}, nats.SetCustomDialer(s.way))
	}
	for range 3 - s.count("aggre") {
		s.aggregators++
		name := fmt.Sprintf("aggregator-%d", s.aggregators)
		s.working[name] = s.w.aggregator(t, name)
	}
}

func (s *staff) count(prefix string) (n int) {
	for name := range s.working {
		if name[:5] == prefix[:5] {
			n++
		}
	}
	return n
}

// dismiss lets some leave, and kills others.
func (s *staff) dismiss(t *testing.T) {
	t.Helper()
	for name, p := range s.working {
		switch s.random.IntN(6) {
		case 0:
			p.leave(t)
			delete(s.working, name)
		case 1:
			p.crash()
			delete(s.working, name)
		}
	}
}

// crowd are the callers.
type crowd struct {
	clients []*tidegate.Client
	seed    uint64
	rounds  uint64
}

func newCrowd(t *testing.T, w *world, seed uint64) *crowd {
	t.Helper()
	c := &crowd{seed: seed}
	for range 4 {
		c.clients = append(c.clients, w.client(t))
	}
	return c
}

// spend lets the callers together do so much.
func (c *crowd) spend(t *testing.T, times int) {
	t.Helper()
	require.NoError(t, c.round(t.Context(), times))
}

// round is spend from any goroutine, one at a time.
func (c *crowd) round(ctx context.Context, times int) error {
	c.rounds++
	var all sync.WaitGroup
	errs := make([]error, len(c.clients))
	for i, client := range c.clients {
		random := rand.New(rand.NewPCG(c.seed+c.rounds, uint64(10+i))) //nolint:gosec // a small number
		all.Go(func() {
			for range times / len(c.clients) {
				errs[i] = errors.Join(errs[i], once(ctx, client, random))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// once spends, and settles in one way or another.
func once(ctx context.Context, client *tidegate.Client, random *rand.Rand) error {
	entity, resource := fmt.Sprintf("entity-%d", random.IntN(numEntities)), fmt.Sprintf("resource-%d", random.IntN(numResources))
	lease, err := client.Acquire(ctx, entity, resource, tidegate.Consume{"rpm": 1, "tpm": 1 + random.Int64N(500)})
	var denied *tidegate.DeniedError
	switch {
	case errors.As(err, &denied):
		return nil
	case err != nil:
		return err
	}
	switch random.IntN(4) {
	case 0:
		return lease.Adjust(ctx, tidegate.Deltas{"tpm": random.Int64N(300)})
	case 1:
		return lease.Adjust(ctx, tidegate.Deltas{"tpm": -1})
	case 2:
		return lease.Release(ctx)
	}
	return nil
}

// expire removes some buckets, as their time to live does: their counters begin
// anew, and the first acquire counts.
func (w *world) expire(t *testing.T, random *rand.Rand) {
	t.Helper()
	for range 3 {
		key := keys.Bucket{
			Namespace: w.ns, Entity: fmt.Sprintf("entity-%d", random.IntN(numEntities)), Resource: fmt.Sprintf("resource-%d", random.IntN(numResources)),
		}
		_, err := w.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &w.table, Key: table.KeyItem(key.Key())})
		require.NoError(t, err)
	}
}

// repeat puts some events of the past into the feed once more, behind those that
// came after them.
func (w *world) repeat(t *testing.T, random *rand.Rand) {
	t.Helper()
	js := w.jetstream(t)
	feed, err := js.Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	info, err := feed.Info(t.Context())
	require.NoError(t, err)
	for range 10 {
		from := info.State.FirstSeq + random.Uint64N(info.State.LastSeq-info.State.FirstSeq+1)
		m, err := feed.GetMsg(t.Context(), from, jetstream.WithGetMsgSubject(events.KindSubject(events.KindBucket)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // purged, or the last one
		}
		require.NoError(t, err)
		_, err = js.Publish(t.Context(), m.Subject, m.Data)
		require.NoError(t, err)
	}
}

// streamShards is how many stream shards the relays have come across.
func (w *world) streamShards(t *testing.T) int {
	t.Helper()
	feed, err := w.jetstream(t).Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	info, err := feed.Info(t.Context(), jetstream.WithSubjectFilter(events.CheckpointsAll))
	require.NoError(t, err)
	return len(info.State.Subjects)
}
