package admission

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/jitter"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/live"
)

const (
	// sharedSettings is how many settings are kept to be shared.
	sharedSettings = 1024
	// maxRenewals is how many settings are renewed by age at a time.
	maxRenewals = 32
	// renewalRest is how long after a failed renewal a bucket tries again, and the longest
	// time for which a node renews nothing by age while the store throttles renewals.
	renewalRest = time.Second
)

// settingsSource is where the buckets of a node get their settings from.
type settingsSource struct {
	limits        *config.LimitStore
	invalidations *live.Invalidations
	renewals      renewals

	mu sync.Mutex
	// shared holds settings that govern several buckets. guarded by mu
	shared *simplelru.LRU[settingsKey, *config.Resolved]
}

// settingsKey tells settings apart as far as buckets are concerned.
type settingsKey struct {
	fingerprint string
	policy      api.Policy
}

func newSettingsSource(stored *config.LimitStore, invalidations *live.Invalidations) (*settingsSource, error) {
	shared, err := simplelru.NewLRU[settingsKey, *config.Resolved](sharedSettings, nil)
	if err != nil {
		return nil, err
	}
	return &settingsSource{limits: stored, invalidations: invalidations, shared: shared}, nil
}

// share returns the same settings for all buckets that they govern, to be read only.
func (s *settingsSource) share(r *config.Resolved) *config.Resolved {
	key := settingsKey{r.Fingerprint, r.OnUnavailable}
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared, ok := s.shared.Get(key); ok {
		return shared
	}
	s.shared.Add(key, r)
	return r
}

// readTimeout bounds an attempt to read settings, given the time of a call to the store.
// The first attempts are short, so that a slow reply does not take all of the callers'
// time.
func (s *settingsSource) readTimeout(call time.Duration, attempt int) time.Duration {
	return call * time.Duration(min(attempt+1, 3)) / 3
}

// renewals paces the reads of settings that are merely old. While the store throttles
// them or is slow, the node rests between them, because no bucket needs them.
type renewals struct {
	mu       sync.Mutex
	running  int           // guarded by mu
	failures int           // guarded by mu: in a row
	rest     time.Duration // guarded by mu: monotonic time before which no renewal begins
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
func (n *renewals) end(log *slog.Logger, r *renewal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running--
	var refusal *api.Error
	if r.err == nil || errors.As(r.err, &refusal) {
		n.failures = 0
		return
	}
	if n.failures == 0 {
		log.Warn("limits cannot be read again: buckets go by the known ones", "error", r.err)
	}
	longest := min(renewalRest, minBackoff<<min(n.failures, 10))
	n.failures++
	n.rest = r.ended + longest/2 + jitter.N(longest/2)
}

// baseResource returns the resource that users call a bucket's, and reports whether the
// bucket's requests bring their own limits.
func baseResource(resource string) (base string, override bool) {
	if base, _, ok := keys.ParseOverride(resource); ok {
		return base, true
	}
	return resource, false
}

// errNotBrought is the refusal for an override bucket after the node forgot its limits.
func errNotBrought() *api.Error {
	return api.Errorf(api.CodeNoLimits, "", "the limits that the request brought are not remembered any more")
}

// parentOf returns the parent that an acquire of an entity spends from as well; empty
// where there is no parent, or no cascade.
func parentOf(entity string, settings *config.Resolved) string {
	if !settings.Cascade || settings.Parent == entity {
		return ""
	}
	return settings.Parent
}

// isMadeFor reports whether an operation on a bucket of an entity was made for settings.
func isMadeFor(op *operation, entity string, settings *config.Resolved) bool {
	switch {
	case op.settle || op.peek:
		return true
	case op.under != "":
		return op.under == settings.Fingerprint
	}
	return parentOf(entity, settings) == ""
}

// unknownLimit returns the first limit that an acquire names and the settings lack;
// empty where they have all.
func unknownLimit(s *config.Resolved, op operation) string {
	if op.settle || op.under != "" {
		return ""
	}
	for _, a := range op.amounts {
		if !s.Governs(a.Name) {
			return a.Name
		}
	}
	return ""
}

// unknownLimitError is the refusal of a limit name that the bucket does not have.
func unknownLimitError(s *config.Resolved, key keys.Bucket, name string) *api.Error {
	resource, _ := baseResource(key.Resource)
	return api.Errorf(api.CodeUnknownLimit, "consume."+name, "entity %s has no limit %q on resource %s; it has %s",
		key.Entity, name, resource, limitNames(s))
}

// limitNames lists limits in a message.
func limitNames(s *config.Resolved) string {
	known := make([]string, len(s.Limits))
	for i, l := range s.Limits {
		known[i] = l.Name
	}
	return strings.Join(known, ", ")
}
