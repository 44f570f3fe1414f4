package admission

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/config"
)

const (
	// renewalSpread is the time before maxSettingsAge over which buckets renew their
	// settings, so that buckets that were resolved together do not renew together.
	renewalSpread = 15 * time.Second
	// askDivisor is the part of the callers' time, and of the store's, for which a bucket
	// with known settings waits for newer settings.
	askDivisor = 3
)

// renewal is a read of known settings in the background of the flight.
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

// rests reports whether it is too early for another read. r may be nil.
func (r *renewal) rests(now time.Duration) bool {
	return r != nil && (!r.over() || now-r.ended < renewalRest)
}

// tried reports whether the flight has waited for the read in vain, less than a moment
// ago. r may be nil.
func (r *renewal) tried(now time.Duration) bool {
	switch {
	case r == nil:
		return false
	case r.over():
		return now-r.ended < renewalRest
	}
	return r.waited && now-r.began < renewalRest
}

// renewalAge returns the age at which settings are renewed, drawn by when they were read.
func renewalAge(resolvedAt time.Duration) time.Duration {
	drawn := uint64(resolvedAt) * 0x9E3779B97F4A7C15 //nolint:gosec // its bits, mixed
	return maxSettingsAge - time.Duration(drawn%uint64(renewalSpread))
}

// takeRenewal takes over the settings that a renewal brought, unless they changed after
// it began. A failed renewal stays, so that the next does not follow at once. It reports
// whether the settings were taken over.
func (g *governance) takeRenewal() bool {
	r := g.renewing
	if r == nil || !r.over() {
		return false
	}
	if g.outdated.Load() || g.doubted.Load() {
		g.renewing = nil
		return false
	}
	if !g.govern(r.began, &r.resolved, r.err) {
		return false
	}
	g.renewing = nil
	return true
}

// renewInBackground renews the settings while the bucket goes by the known settings.
func (g *governance) renewInBackground() {
	now := g.env.clock.Mono()
	if g.renewing.rests(now) || !g.env.settings.renewals.begin(now) {
		return
	}
	g.startRenewal(now, true)
}

// askAgain reads the settings again, and waits for them for a part of the calls' time.
// If it takes longer, or fails, the bucket goes by the known settings. It reports
// whether settings were taken over.
func (g *governance) askAgain(calls []*call) bool {
	now, doubted := g.env.clock.Mono(), g.doubted.Load()
	if g.refusal == nil && !doubted { // by age: there is no sign of a change
		if !g.env.settings.renewals.begin(now) {
			return false
		}
	}
	g.doubted.Store(false)
	g.startRenewal(now, g.refusal == nil && !doubted)
	wait := g.env.store.timeout
	for _, q := range calls {
		wait = min(wait, q.answerBy-now)
	}
	g.renewing.waited = true
	timer := time.NewTimer(max(0, wait/askDivisor))
	defer timer.Stop()
	select {
	case <-g.renewing.done:
	case <-timer.C:
	}
	g.isOutdated()
	return g.takeRenewal()
}

// startRenewal begins a renewal. counts says whether it counts among the node's renewals
// by age.
func (g *governance) startRenewal(now time.Duration, counts bool) {
	r := &renewal{began: now, done: make(chan struct{})}
	g.renewing = r
	e := g.env
	e.pool.Go(func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(e.abort, e.store.timeout)
		defer cancel()
		r.resolved, r.err = g.lookUp(ctx)
		r.ended = e.clock.Mono()
		if counts {
			e.settings.renewals.end(e.log, r)
		}
	})
}
