package admission

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/live"
)

const (
	// maxSettingsAge is the age at which resolved settings are read again although no
	// change was announced: the fallback for a lost broadcast.
	maxSettingsAge = time.Minute
	// refusalAge is how long a node trusts that there are no limits, or not the limit that
	// a request names.
	refusalAge = time.Second
	// readAttempts bounds the attempts to read settings that fail for another reason than
	// a throttle. Throttles are waited out until the callers' time is up.
	readAttempts = 4
)

// need says how settings have to be read before a bucket goes by them.
type need uint8

const (
	needNone         need = iota
	needInBackground      // soon: meanwhile the bucket goes by the known settings
	needAsk               // first, if that takes a moment only; otherwise the bucket goes by the known settings
	needCertain           // first: the settings are unknown, or known to have changed
)

// governance holds the settings of a bucket for the writer of a shard of it. The
// settings are kept when they are outdated, because their unavailable policy outlives
// an outage.
type governance struct {
	env *env
	key *keys.Bucket

	settings atomic.Pointer[config.Resolved] // nil until first resolved
	outdated atomic.Bool                     // the settings are known to have changed
	doubted  atomic.Bool                     // the settings may have changed
	checked  atomic.Uint64                   // how many invalidations were taken into account
	// given holds the limits that the requests of an override bucket bring.
	given atomic.Pointer[[]bucket.Limit]

	// owned by the flight
	resolvedAt time.Duration // monotonic time at which the last resolution began
	renewing   *renewal      // a read of known settings; nil while no read is due
	refusal    *api.Error    // the last resolution's, where there are no limits
}

// last returns the last known settings, which may be outdated; nil if they were never
// known.
func (g *governance) last() *config.Resolved { return g.settings.Load() }

// give sets the limits that the bucket's requests bring. The bucket is named after them,
// so that every request brings the same.
func (g *governance) give(given []bucket.Limit) {
	if g.given.Load() == nil {
		g.given.Store(&given)
		g.outdated.Store(true)
	}
}

// isOutdated reports whether the settings have to be read again before the bucket is
// next used.
func (g *governance) isOutdated() bool {
	invalidations := g.env.settings.invalidations
	count := invalidations.Count()
	if seen := g.checked.Load(); seen != count {
		switch invalidations.Since(*g.key, seen) {
		case live.Outdated:
			g.outdated.Store(true)
		case live.Doubted:
			g.doubted.Store(true)
		case live.Fresh:
		}
		g.checked.Store(count)
	}
	return g.outdated.Load() || g.doubted.Load()
}

// needed returns how the settings have to be read, given the shard's state.
func (g *governance) needed(k *knowledge) need {
	settings, now := g.last(), g.env.clock.Mono()
	age := now - g.resolvedAt
	differs := k.item != nil && settings != nil &&
		k.item.Fingerprint != settings.Fingerprint && g.resolvedAt < k.learnedAt
	switch {
	case settings == nil || g.outdated.Load():
		return needCertain
	case g.refusal != nil && age < refusalAge && !g.doubted.Load():
		return needNone
	case differs: // another node wrote under other settings
		return needCertain
	case g.renewing != nil && !g.doubted.Load():
		return needInBackground // it is under way, or failed a moment ago
	case g.refusal != nil, g.doubted.Load(), age >= maxSettingsAge:
		return needAsk
	case age >= renewalAge(g.resolvedAt):
		return needInBackground
	}
	return needNone
}

// read reads the settings within the time of an attempt. It reports whether it brought
// settings; otherwise they stay outdated.
func (g *governance) read(ctx context.Context, attempt int) (governed bool, err error) {
	g.outdated.Store(false)
	g.doubted.Store(false)
	g.renewing = nil // a renewal under way may bring the settings of before the change
	began := g.env.clock.Mono()
	ctx, cancel := context.WithTimeout(ctx, g.env.settings.readTimeout(g.env.store.timeout, attempt))
	defer cancel()
	resolved, err := g.lookUp(ctx)
	g.env.store.sampleResolve(began, err)
	governed = g.govern(began, &resolved, err)
	if !governed {
		g.outdated.Store(true)
	}
	return governed, err
}

// govern takes over the settings that a read brought. It reports whether there are any.
func (g *governance) govern(began time.Duration, resolved *config.Resolved, err error) bool {
	var refusal *api.Error
	if err != nil && !errors.As(err, &refusal) {
		return false
	}
	// A bucket without limits may still pass on to a parent.
	g.settings.Store(g.env.settings.share(resolved))
	g.resolvedAt, g.refusal = began, refusal
	return true
}

// lookUp resolves the settings of the bucket. Limits that requests bring replace the
// stored limits, which need not exist.
func (g *governance) lookUp(ctx context.Context) (config.Resolved, error) {
	base, override := baseResource(g.key.Resource)
	resolved, err := g.env.settings.limits.Resolve(ctx, g.key.Namespace, g.key.Entity, base)
	if !override {
		return resolved, err
	}
	var refusal *api.Error
	if err != nil && !errors.As(err, &refusal) {
		return resolved, err
	}
	given := g.given.Load()
	if given == nil {
		return resolved.With(nil), errNotBrought()
	}
	return resolved.With(*given), nil
}

// doubtFor doubts settings that lack a limit that a call names, once they are a second
// old: the limit may have been added, and its announcement lost. It reports whether the
// settings have to be resolved again.
func (g *governance) doubtFor(calls []*call) bool {
	settings, now := g.last(), g.env.clock.Mono()
	if settings == nil || now-g.resolvedAt < refusalAge || g.renewing.tried(now) {
		return false
	}
	for _, q := range calls {
		if unknownLimit(settings, q.operation) != "" {
			g.doubted.Store(true)
			return true
		}
	}
	return false
}

// isUnsure reports whether the settings are old enough for a limit to have been added,
// and cannot be read again.
func (g *governance) isUnsure() bool {
	return g.renewing != nil && g.env.clock.Mono()-g.resolvedAt >= refusalAge
}
