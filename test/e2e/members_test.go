package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/services/relay"
)

// One aggregator becomes four, and then two, one of them lost to a crash, while
// callers spend, at the times that production has: the lanes go to those that live,
// each works, and nothing is lost or counted twice. A snapshot leaves out what comes
// out of order, so that the sums tell of that too.
func TestAggregatorsComeAndGoUnderLoad(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t, options{})
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1_000_000), perDay("tpm", 1_000_000_000))
	w.admission(t)
	w.relay(t, "relay", relay.Tuning{})
	all := map[string]*process{}
	start := func(names ...string) {
		for _, name := range names {
			all[name] = w.aggregatorWith(t, name, feed.Tuning{})
		}
	}
	start("a")
	stop := w.load(t, seed)
	w.shared(t, all, time.Now())
	joined := time.Now()
	start("b", "c", "d")
	w.shared(t, all, joined)
	lost := time.Now()
	crashed, left := all["a"], all["c"]
	delete(all, "a")
	delete(all, "c")
	crashed.crash()
	left.leave(t)
	w.shared(t, all, lost)
	stop()
	w.mustBeCounted(t)
}

// load lets callers spend until it is stopped.
func (w *world) load(t *testing.T, seed uint64) (stop func()) {
	t.Helper()
	c := newCrowd(t, w, seed)
	over, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-over:
				ended <- nil
				return
			default:
				err = c.round(context.Background(), 100)
			}
		}
		ended <- err
	}()
	return func() { close(over); require.NoError(t, <-ended) }
}

// shared waits until the living have all lanes among them and each has handled
// records with that share, and says how long it took since others came or went, and
// how it is spread.
func (w *world) shared(t *testing.T, living map[string]*process, since time.Time) {
	t.Helper()
	lanes := func() (n int) {
		for _, p := range living {
			own := p.metric(t, "tidegate_feed_lanes")
			if n += own; own == 0 {
				return 0
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return lanes() == events.Lanes }, patience, 10*time.Millisecond, "lanes belong to nobody, or to two")
	moved := time.Since(since)
	before := map[string]int{}
	for name, p := range living {
		before[name] = p.metric(t, "tidegate_feed_records_total")
	}
	handled := func(name string) int { return living[name].metric(t, "tidegate_feed_records_total") - before[name] }
	require.Eventually(t, func() bool {
		for name := range living {
			if handled(name) < 50 {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond, "somebody does nothing")
	var spread strings.Builder
	for name, p := range living {
		_, _ = fmt.Fprintf(&spread, " %s: %d lanes, %d records;", name, p.metric(t, "tidegate_feed_lanes"), handled(name))
	}
	t.Logf("%d aggregators: lanes moved in %v, all at work in %v;%s", len(living), moved.Round(time.Millisecond), time.Since(since).Round(time.Millisecond), spread.String())
}
