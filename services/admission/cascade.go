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
	// maxLevels is how many entities one acquire spends from at most, the
	// acquiring one included. Links beyond are not followed.
	maxLevels = api.MaxLevels
	// maxRounds is how often an acquire starts again because settings changed
	// while it was under way, or because what was short holds again.
	maxRounds = 8
)

var errUnsettled = errors.New("the limits kept changing while they were spent from")

// cascade is one acquire that spends from an entity and its ancestors, or finds
// out that it has none. It runs apart, and asks each level's committer, so that
// children of one parent share the parent's writes.
type cascade struct {
	*acquisition
	levels []*level // that have limits, the child's first
}

// level is one bucket that a cascade spends from.
type level struct {
	*committer
	settings *config.Resolved // that the cascade goes by
	standing standing
	state    result // what the standing rests on, where it does not rest on nothing
}

// cascade decides an acquire of several levels.
func (s *Service) cascade(a *acquisition) {
	s.flights.Go(func() {
		c := &cascade{acquisition: a}
		defer func() {
			if cause := recover(); cause != nil {
				s.logPanic(a.about(), cause)
				a.refuse(asError(errInternal))
			}
		}()
		c.run()
	})
}

func (c *cascade) run() {
	for range maxRounds {
		if err := c.climb(); err != nil {
			c.fail(err)
			return
		}
		switch c.spend() {
		case moveAdmit:
			c.admit()
			return
		case moveDeny:
			c.takeBack()
			denied, err := c.deny()
			if err != nil {
				c.fail(err)
			}
			if denied || err != nil {
				return
			}
		case moveFail:
			c.takeBack()
			c.fail(c.failure())
			return
		case moveAgain, moveSpend:
			c.takeBack()
		}
	}
	c.fail(errUnsettled)
}

// fail answers by the policy that holds for the acquiring entity.
func (c *cascade) fail(err error) {
	c.undecided(result{err: err, settings: c.bucket.settings.Load()})
}

// climb finds the levels: those of the child and its ancestors that have limits.
// The error is why the acquire cannot go on.
func (c *cascade) climb() error {
	c.levels = nil
	if err := c.follow(nil); err != nil {
		return err
	}
	if unknownAt(c.settings(), c.req.Consume) == nil {
		return nil
	}
	// The limit may have been added, and the news lost: ask once a second.
	if err := c.follow(c.req.Consume); err != nil {
		return err
	}
	return unknownAt(c.settings(), c.req.Consume)
}

// follow walks from the child up. It asks only levels whose settings are not
// known, or all of them, once a second, for limits that a walk before did not find.
func (c *cascade) follow(missing api.Amounts) error {
	entities := make([]string, 0, maxLevels)
	c.levels = make([]*level, 0, maxLevels)
	for at := c.bucket; len(entities) < maxLevels; {
		settings := at.current()
		if settings == nil || missing != nil {
			res := c.look(at, missing)
			if res.err != nil && !isNoLimits(res.err) {
				return res.err
			}
			settings = res.settings
		}
		if len(settings.Limits) > 0 {
			c.levels = append(c.levels, &level{committer: at, settings: settings})
		}
		entities = append(entities, at.key.Entity)
		parent := parentOf(at.key.Entity, settings)
		if parent == "" || slices.Contains(entities, parent) {
			break
		}
		at = c.service.committer(parentBucket(at.key, parent))
	}
	if len(c.levels) > 0 {
		return nil
	}
	if res := c.look(c.bucket, nil); res.err != nil {
		return res.err // which names the places where limits could be
	}
	return errUnsettled // limits were set this moment
}

// levelSettings is what holds at one level.
type levelSettings struct {
	key      keys.Bucket
	settings *config.Resolved
}

func (c *cascade) settings() []levelSettings {
	settings := make([]levelSettings, len(c.levels))
	for i, l := range c.levels {
		settings[i] = levelSettings{l.key, l.settings}
	}
	return settings
}

// unknownAt is the refusal of the first limit named that no level has, nil
// where each is known at one level at least.
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
			known[i] = l.key.Entity + " has " + names(l.settings)
		}
		base, _ := baseResource(levels[0].key.Resource)
		return api.Errorf(api.CodeUnknownLimit, "consume."+a.Name, "no level has a limit %q on resource %s; %s", a.Name, base, strings.Join(known, "; "))
	}
	return nil
}

// look asks a bucket how it stands. Amounts are of limits that it should have
// and was not known to.
func (c *cascade) look(at *committer, amounts api.Amounts) result {
	return together([]errand{{at, operation{look: true, amounts: amounts}}}, c.asker())[0]
}

// spend asks level after level, or all at once, until it is clear what comes next.
func (c *cascade) spend() move {
	standings := make([]standing, len(c.levels))
	for {
		now, errClock := c.service.clock.Now()
		for i, l := range c.levels {
			if l.standing < standingSpent && errClock == nil {
				l.assess(now, c.req.Consume)
			}
			standings[i] = l.standing
		}
		next, ask := nextMove(standings)
		if next != moveSpend {
			return next
		}
		errands := make([]errand, len(ask))
		for i, n := range ask {
			l := c.levels[n]
			errands[i] = errand{l.committer, operation{amounts: c.req.Consume, under: l.settings.Fingerprint}}
		}
		for i, res := range together(errands, c.asker()) {
			l := c.levels[ask[i]]
			l.state, l.standing = res, answeredAs(&res)
		}
	}
}

// assess says how a level stands that was not asked yet, as far as it is known.
func (l *level) assess(now bucket.Instant, costs api.Amounts) {
	l.standing = standingUnknown
	state, age, ok := l.sighted(now, l.settings)
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

// sighted is the last sight of a shard under the settings; ok is false where there is
// none.
func (c *committer) sighted(now bucket.Instant, settings *config.Resolved) (state result, age time.Duration, ok bool) {
	seen := c.seen.Load()
	if seen == nil || seen.unread || c.isOutdated() {
		return result{}, 0, false
	}
	item := seen.item
	if item != nil && item.Level > 1 {
		return c.sightedWhole(now, settings)
	}
	switch {
	case item == nil:
		item = fullBucket(now, c.key, settings)
	case item.Fingerprint != settings.Fingerprint:
		return result{}, 0, false
	}
	return result{verdict: verdictShow, settings: settings, item: item, now: now}, c.node.clock.Mono() - seen.at, true
}

// sightedWhole is the last sight of a bucket of several shards; it is no older
// than a denial may be.
func (c *committer) sightedWhole(now bucket.Instant, settings *config.Resolved) (state result, age time.Duration, ok bool) {
	tree := c.recent(maxDenialAge)
	if len(tree) < 2 {
		return result{}, 0, false
	}
	tree = standingOf(now, tree, settings)
	state = result{verdict: verdictShow, settings: settings, item: tree[0], now: now}
	state.within(tree)
	if state.late() {
		c.unite()
	}
	return state, 0, true
}

// current are the settings of the bucket, nil where they have to be asked for.
func (c *committer) current() *config.Resolved {
	settings := c.settings.Load()
	if settings == nil || c.isOutdated() {
		return nil
	}
	// Where there are no limits, no flight looks after the settings' age.
	if seen := c.seen.Load(); len(settings.Limits) == 0 && (seen == nil || !seen.unread || c.node.clock.Mono()-seen.at > maxSettingsAge) {
		return nil
	}
	return settings
}

// parentOf is whom an acquire of an entity spends from as well, empty for nobody.
func parentOf(entity string, settings *config.Resolved) string {
	if !settings.Cascade || settings.Parent == entity {
		return ""
	}
	return settings.Parent
}

// parentBucket is the bucket of a parent that a bucket's acquires spend from as
// well. Limits that a request brings are those of its own entity alone.
func parentBucket(of keys.Bucket, parent string) keys.Bucket {
	base, _ := baseResource(of.Resource)
	return keys.Bucket{Namespace: of.Namespace, Entity: parent, Resource: base}
}

// suits reports whether the settings are those that a call was made for.
func (c *committer) suits(q *call, settings *config.Resolved) bool {
	switch {
	case q.settle || q.look:
		return true
	case q.under != "":
		return q.under == settings.Fingerprint
	}
	return parentOf(c.key.Entity, settings) == ""
}
