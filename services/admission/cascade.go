package admission

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// maxLevels bounds the entities that an acquire spends from, the acquiring entity
	// included. Links beyond are not followed.
	maxLevels = api.MaxLevels
	// maxRounds is how often an acquire starts again because settings changed while it was
	// under way, or because a short level holds the cost again.
	maxRounds = 8
)

var errUnsettled = errors.New("the limits kept changing while they were spent from")

// cascade is an acquire that spends from an entity and its ancestors, or finds out that
// the entity has no ancestors. It runs in the background and asks the writer of each
// level, so that children of a parent share the parent's writes.
type cascade struct {
	*spend
	levels []*level // the cascade levels that have limits, the child's first
}

// level is a bucket that a cascade spends from.
type level struct {
	*member
	settings *config.Resolved // that the cascade goes by
	standing standing
	state    result // the result that the standing follows from, if any
}

// cascade decides an acquire of several levels, in the background.
func (s *spend) cascade() {
	e := s.at.router.env
	e.pool.Go(func() {
		defer func() {
			if cause := recover(); cause != nil {
				e.logPanic(about(e.abort, &s.call), cause)
				s.replier.answer(result{shardResult: shardResult{err: errInternal}})
			}
		}()
		(&cascade{spend: s}).run()
	})
}

func (c *cascade) run() {
	for range maxRounds {
		if err := c.climb(); err != nil {
			c.fail(err)
			return
		}
		switch c.askLevels() {
		case moveAdmit:
			c.admit()
			return
		case moveDeny:
			c.refund()
			denied, err := c.deny()
			if err != nil {
				c.fail(err)
			}
			if denied || err != nil {
				return
			}
		case moveFail:
			c.refund()
			c.fail(c.failure())
			return
		case moveAgain, moveSpend:
			c.refund()
		}
	}
	c.fail(errUnsettled)
}

// fail answers with an error, and the settings of the acquiring entity.
func (c *cascade) fail(err error) {
	c.replier.answer(result{shardResult: shardResult{err: err, settings: c.at.writer.settings.last()}})
}

// climb finds the levels: the buckets of the child and its ancestors that have limits.
// The error says why the acquire cannot go on.
func (c *cascade) climb() error {
	c.levels = nil
	if err := c.follow(nil); err != nil {
		return err
	}
	amounts := c.call.amounts
	if unknownAt(c.settings(), amounts) == nil {
		return nil
	}
	// The limit may have been added, and its announcement lost: ask once a second.
	if err := c.follow(amounts); err != nil {
		return err
	}
	return unknownAt(c.settings(), amounts)
}

// follow walks from the child up. It asks the levels with unknown settings or, once a
// second, all levels for limits that an earlier walk did not find.
func (c *cascade) follow(missing api.Amounts) error {
	entities := make([]string, 0, maxLevels)
	c.levels = make([]*level, 0, maxLevels)
	for at := c.at; len(entities) < maxLevels; {
		settings := at.writer.currentSettings()
		if settings == nil || missing != nil {
			res := at.peekAt(missing, c.call.asker)
			if res.err != nil && !isNoLimits(res.err) {
				return res.err
			}
			settings = res.settings
		}
		if len(settings.Limits) > 0 {
			c.levels = append(c.levels, &level{member: at, settings: settings})
		}
		entities = append(entities, at.writer.key.Entity)
		parent := parentOf(at.writer.key.Entity, settings)
		if parent == "" || slices.Contains(entities, parent) {
			break
		}
		at = at.router.member(parentBucket(at.writer.key, parent))
	}
	if len(c.levels) > 0 {
		return nil
	}
	if res := c.at.peekAt(nil, c.call.asker); res.err != nil {
		return res.err // which names the places where limits could be
	}
	return errUnsettled // limits were set this moment
}

// levelSettings holds the settings of a level.
type levelSettings struct {
	key      keys.Bucket
	settings *config.Resolved
}

func (c *cascade) settings() []levelSettings {
	settings := make([]levelSettings, len(c.levels))
	for i, l := range c.levels {
		settings[i] = levelSettings{l.writer.key, l.settings}
	}
	return settings
}

// unknownAt returns the refusal of the first named limit that no level has, nil if each
// is known at a level at least.
func unknownAt(levels []levelSettings, amounts api.Amounts) error {
	for _, a := range amounts {
		if slices.ContainsFunc(levels, func(l levelSettings) bool { return l.settings.Governs(a.Name) }) {
			continue
		}
		if len(levels) == 1 {
			return unknownLimitError(levels[0].settings, levels[0].key, a.Name)
		}
		known := make([]string, len(levels))
		for i, l := range levels {
			known[i] = l.key.Entity + " has " + limitNames(l.settings)
		}
		base, _ := baseResource(levels[0].key.Resource)
		return api.Errorf(api.CodeUnknownLimit, "consume."+a.Name, "no level has a limit %q on resource %s; %s", a.Name, base, strings.Join(known, "; "))
	}
	return nil
}

// askLevels asks level after level, or all at once, until the next move is clear.
func (c *cascade) askLevels() move {
	standings := make([]standing, len(c.levels))
	for {
		now, errClock := c.at.router.env.clock.Now()
		for i, l := range c.levels {
			if l.standing < standingSpent && errClock == nil {
				l.assess(now, c.call.amounts)
			}
			standings[i] = l.standing
		}
		next, ask := nextMove(standings)
		if next != moveSpend {
			return next
		}
		subcalls := make([]subcall, len(ask))
		for i, n := range ask {
			l := c.levels[n]
			subcalls[i] = subcall{l.member, operation{amounts: c.call.amounts, under: l.settings.Fingerprint}}
		}
		for i, res := range askAll(subcalls, c.call.asker) {
			l := c.levels[ask[i]]
			l.state, l.standing = res, answeredAs(&res)
		}
	}
}

// assess sets the standing of a level that was not asked yet, by its last snapshot.
func (l *level) assess(now bucket.Instant, costs api.Amounts) {
	l.standing = standingUnknown
	state, age, ok := l.snapshotUnder(now, l.settings)
	if !ok {
		return
	}
	l.state = state
	switch {
	case l.state.holds(costs):
		l.standing = standingAmple
	case age <= maxDenialAge:
		l.standing = standingShort
	default:
		l.standing = standingDoubtful
	}
}

// parentBucket returns the bucket of a parent that a bucket's acquires spend from as
// well. Limits that a request brings are the limits of its own entity alone.
func parentBucket(of keys.Bucket, parent string) keys.Bucket {
	base, _ := baseResource(of.Resource)
	return keys.Bucket{Namespace: of.Namespace, Entity: parent, Resource: base}
}

// isNoLimits reports an error that refuses a bucket without limits.
func isNoLimits(err error) bool {
	var refusal *api.Error
	return errors.As(err, &refusal) && refusal.Code == api.CodeNoLimits
}

// left returns the time until the answer is due.
func (c *cascade) left() time.Duration {
	return c.call.answerBy - c.at.router.env.clock.Mono()
}
