package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
)

const (
	// renewalSpread is over how long before maxSettingsAge buckets renew their
	// settings, so that buckets that were resolved together do not renew together.
	renewalSpread = 15 * time.Second
	// maxRenewals is how many settings are renewed by age at a time.
	maxRenewals = 32
	// renewalRest is how long after a failed renewal a bucket tries again, and the
	// longest that a node does not renew by age while the store throttles that.
	renewalRest = time.Second
	// askDivisor is the part of the callers' time, and of the store's, that a bucket
	// with known settings waits for newer ones.
	askDivisor = 3
)

// renewal is one read of known settings, which goes on beside the flight.
type renewal struct {
	began  time.Duration
	waited bool          // the flight has waited for it
	done   chan struct{} // closed when the rest is there

	resolved config.Resolved
	err      error
	ended    time.Duration
}

// over reports whether the read has ended.
func (r *renewal) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// rests reports whether another read is not to be begun yet. There may be none.
func (r *renewal) rests(now time.Duration) bool {
	return r != nil && (!r.over() || now-r.ended < renewalRest)
}

// tried reports whether the flight has waited for it in vain, less than a moment ago.
// There may be none.
func (r *renewal) tried(now time.Duration) bool {
	switch {
	case r == nil:
		return false
	case r.over():
		return now-r.ended < renewalRest
	}
	return r.waited && now-r.began < renewalRest
}

// renewalAge is the age at which settings are renewed, drawn by when they were read.
func renewalAge(resolvedAt time.Duration) time.Duration {
	drawn := uint64(resolvedAt) * 0x9E3779B97F4A7C15 //nolint:gosec // its bits, mixed
	return maxSettingsAge - time.Duration(drawn%uint64(renewalSpread))
}

// takeRenewal takes over what a renewal brought, unless there was news after it began.
// One that failed stays, for another one not to follow at once.
func (c *committer) takeRenewal() {
	r := c.renewing
	if r == nil || !r.over() {
		return
	}
	if c.outdated.Load() || c.doubted.Load() || c.govern(r.began, &r.resolved, r.err) {
		c.renewing = nil
	}
}

// renewBeside renews the settings while the bucket goes by those that it has.
func (c *committer) renewBeside() {
	now := c.node.clock.Mono()
	if c.renewing.rests(now) || !c.node.renewals.begin(now) {
		return
	}
	c.startRenewal(now, true)
}

// askAgain reads the settings again, and waits for that for a part of the callers'
// time. If it takes longer, or fails, the bucket goes by those that it has.
func (c *committer) askAgain(calls []*call) {
	now, doubted := c.node.clock.Mono(), c.doubted.Load()
	if c.refusal == nil && !doubted { // by age: nothing says that they changed
		if !c.node.renewals.begin(now) {
			return
		}
	}
	c.doubted.Store(false)
	c.startRenewal(now, c.refusal == nil && !doubted)
	wait := c.node.tuning.StoreTimeout
	for _, q := range calls {
		wait = min(wait, q.answerBy-now)
	}
	c.renewing.waited = true
	timer := time.NewTimer(max(0, wait/askDivisor))
	defer timer.Stop()
	select {
	case <-c.renewing.done:
	case <-timer.C:
	}
	c.isOutdated()
	c.takeRenewal()
}

// startRenewal begins a renewal, which counts among those of the node or not.
func (c *committer) startRenewal(now time.Duration, counts bool) {
	r := &renewal{began: now, done: make(chan struct{})}
	c.renewing = r
	node := c.node
	node.flights.Go(func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(node.abort, node.tuning.StoreTimeout)
		defer cancel()
		r.resolved, r.err = c.lookUp(ctx)
		r.ended = node.clock.Mono()
		if counts {
			node.renewals.end(node, r)
		}
	})
}

// renewals paces the reads of settings that are merely old. While the store throttles
// them or is slow, the node rests between them: no bucket needs one.
type renewals struct {
	mu       sync.Mutex
	running  int           // guarded by mu
	failures int           // guarded by mu: in a row
	rest     time.Duration // guarded by mu: monotonic time before which none is begun
}

// begin reports whether a renewal may begin now.
func (n *renewals) begin(now time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running >= maxRenewals || now < n.rest {
		return false
	}
	n.running++
	return true
}

// end takes in how a renewal ended.
func (n *renewals) end(node *Service, r *renewal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running--
	var refusal *api.Error
	if r.err == nil || errors.As(r.err, &refusal) {
		n.failures = 0
		return
	}
	if n.failures == 0 {
		node.log.Warn("limits cannot be read again: buckets go by the known ones", "error", r.err)
	}
	longest := min(renewalRest, minBackoff<<min(n.failures, 10))
	n.failures++
	n.rest = r.ended + longest/2 + rand.N(longest/2)
}
