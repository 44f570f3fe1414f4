package admission

import (
	"context"
	"errors"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
)

const (
	// maxSettingsAge is when resolved settings are read again although no change
	// was heard of: the fallback for a broadcast that got lost.
	maxSettingsAge = time.Minute
	// refusalAge is how long it is believed that there are no limits, or not the
	// one that a request names.
	refusalAge = time.Second
	// readAttempts is how often settings are asked for that fail otherwise than by a
	// throttle. Throttles are waited out until the callers' time is up.
	readAttempts = 4
)

// need says how settings have to be read before a bucket goes by them.
type need uint8

const (
	needNone    need = iota
	needBeside       // soon: the bucket goes by the known ones meanwhile
	needAsk          // before, if that takes a moment; then the bucket goes by the known ones
	needCertain      // before: there are none, or they are known to have changed
)

// resolve sees to it that the settings may be gone by. It reports false when the calls
// were answered instead, or have to wait for another attempt.
func (c *committer) resolve(ctx context.Context, calls []*call) bool {
	c.isOutdated()
	c.takeRenewal()
	switch c.needed() {
	case needCertain:
		return c.resolveNow(ctx, calls)
	case needAsk:
		c.askAgain(calls)
	case needBeside:
		c.renewBeside()
	case needNone:
	}
	if c.refusal != nil {
		c.refuse(calls, c.refusal)
		return false
	}
	return true
}

// needed says how the settings have to be read.
func (c *committer) needed() need {
	settings, now := c.settings.Load(), c.node.clock.Mono()
	age := now - c.resolvedAt
	differs := c.known != nil && settings != nil &&
		c.known.Fingerprint != settings.Fingerprint && c.resolvedAt < c.learnedAt
	switch {
	case settings == nil || c.outdated.Load():
		return needCertain
	case c.refusal != nil && age < refusalAge && !c.doubted.Load():
		return needNone
	case differs: // somebody else went by other ones
		return needCertain
	case c.renewing != nil && !c.doubted.Load():
		return needBeside // it is under way, or failed a moment ago
	case c.refusal != nil, c.doubted.Load(), age >= maxSettingsAge:
		return needAsk
	case age >= renewalAge(c.resolvedAt):
		return needBeside
	}
	return needNone
}

// resolveNow reads the settings, and lets no call go by others. It reports false when
// they were not read: then the calls wait for the next attempt, or are answered.
func (c *committer) resolveNow(ctx context.Context, calls []*call) bool {
	c.outdated.Store(false)
	c.doubted.Store(false)
	c.renewing = nil // one under way may bring what was before the change
	began := c.node.clock.Mono()
	call, cancel := context.WithTimeout(ctx, c.node.readTimeout(c.throttles))
	defer cancel()
	call, end := c.trace(call, spanResolve, calls)
	resolved, err := c.lookUp(call)
	end(err)
	if c.govern(began, &resolved, err) {
		if c.refusal != nil {
			c.refuse(calls, c.refusal)
		}
		return c.refusal == nil
	}
	c.outdated.Store(true)
	if isThrottle(err) || c.throttles+1 < readAttempts {
		c.backOff(ctx)
		return false
	}
	c.throttles = 0
	c.node.logStore(about(ctx, calls...), "resolve limits", c.key, err)
	c.fail(calls, blamed(err, errSettingsGet))
	return false
}

// govern makes what a read brought the settings to go by. It reports false where it
// brought none.
func (c *committer) govern(began time.Duration, resolved *config.Resolved, err error) bool {
	var refusal *api.Error
	if err != nil && !errors.As(err, &refusal) {
		return false
	}
	// Without limits of its own, the bucket may still pass on to a parent.
	c.settings.Store(c.node.share(resolved))
	c.resolvedAt, c.refusal = began, refusal
	if refusal != nil {
		c.seen.Store(&sighting{unread: true, at: began})
	}
	return true
}

// refuse answers acquires of a bucket without limits. Settlements go on, to the
// limits that the item still has; without an item they have nothing to settle.
func (c *committer) refuse(calls []*call, refusal *api.Error) {
	settings, settlements := c.settings.Load(), calls[:0:0]
	for _, q := range calls {
		switch {
		case q.settle && c.absent:
			q.answer(result{verdict: verdictDrop})
		case q.settle:
			settlements = append(settlements, q)
		case !c.suits(q, settings):
			q.answer(result{verdict: verdictMoved, settings: settings})
		default:
			q.answer(result{err: refusal, settings: settings})
		}
	}
	c.keep(settlements)
}

// mustResolveAgain doubts settings that lack a limit a call names, once they are a
// second old: the limit may have been added, and the news lost.
func (c *committer) mustResolveAgain(calls []*call) bool {
	settings, now := c.settings.Load(), c.node.clock.Mono()
	if settings == nil || now-c.resolvedAt < refusalAge || c.renewing.tried(now) {
		return false
	}
	for _, q := range calls {
		if unknownLimit(settings, q.operation) != "" {
			c.doubted.Store(true)
			return true
		}
	}
	return false
}

// unsure reports whether the settings are old enough for a limit to have been added,
// and cannot be read again.
func (c *committer) unsure() bool {
	return c.renewing != nil && c.node.clock.Mono()-c.resolvedAt >= refusalAge
}

// readTimeout bounds an attempt to read settings. The first ones are short, so that
// one slow reply does not take all the time that callers have.
func (s *Service) readTimeout(attempt int) time.Duration {
	return s.tuning.StoreTimeout * time.Duration(min(attempt+1, 3)) / 3
}

// resolve reads settings for what is no matter of a bucket's flight. It tries again
// as a flight does, until ctx ends.
func (s *Service) resolve(ctx context.Context, ns, entity, resource string) (config.Resolved, error) {
	for attempt := 0; ; attempt++ {
		call, cancel := context.WithTimeout(ctx, s.readTimeout(attempt))
		resolved, err := s.limits.Resolve(call, ns, entity, resource)
		cancel()
		var refusal *api.Error
		if err == nil || errors.As(err, &refusal) || ctx.Err() != nil || !isThrottle(err) && attempt+1 >= readAttempts {
			return resolved, err
		}
		if store.Pause(ctx, attempt) != nil {
			return resolved, err
		}
	}
}
