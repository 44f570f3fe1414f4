package tidegate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
)

// ErrReleased says that a lease was released before.
var ErrReleased = errors.New("the lease is released")

// DeniedError reports that limits are short of the requested tokens. Nothing was spent.
type DeniedError struct {
	Entity, Resource string
	// RequestID is the ID of [WithRequestID] or [Observer], if any: services do not log
	// denials.
	RequestID string
	// RetryAfter is exact: the same request is admitted after it, if no other caller
	// spends. Callers that share a bucket should wait for Jittered instead. If Never is
	// set, it is the longest duration, so that a caller that ignores Never does not spin.
	RetryAfter time.Duration
	// Never: the request costs more than a capacity, so it can never pass.
	Never bool
	// Limits are all limits of all cascade levels, including those with enough tokens.
	Limits []LimitStatus
}

// longestWaitMs is the longest wait that a Duration can say, 292 years.
const longestWaitMs = math.MaxInt64 / int64(time.Millisecond)

func denied(entity, resource, id string, reply *api.AcquireReply) *DeniedError {
	e := &DeniedError{
		Entity: entity, Resource: resource, RequestID: id, Never: reply.Never, Limits: reply.Limits,
		RetryAfter: time.Duration(min(reply.RetryAfterMs, longestWaitMs)) * time.Millisecond,
	}
	if e.Never {
		e.RetryAfter = math.MaxInt64
	}
	return e
}

// Error implements error.
func (e *DeniedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "denied: %s for %s", e.Entity, e.Resource)
	for _, l := range e.Limits {
		if l.Exceeded {
			fmt.Fprintf(&b, ", %s of %s has %d of %d", l.Name, l.Entity, l.Available, l.Requested)
		}
	}
	if e.Never {
		return b.String() + "; it can never pass"
	}
	return b.String() + "; retry after " + e.RetryAfter.String()
}

// leastJitter spreads callers even after a very short retry-after.
const leastJitter = 10 * time.Millisecond

// Jittered returns RetryAfter plus a random part of up to half of it, at least up to
// 10 ms, so that callers denied together do not retry together, and none retries too
// early.
func (e *DeniedError) Jittered() time.Duration {
	if e.Never {
		return e.RetryAfter
	}
	jitter := rand.N(max(e.RetryAfter/2, leastJitter))
	return e.RetryAfter + min(jitter, math.MaxInt64-e.RetryAfter)
}

// UnavailableError reports that Tidegate did not answer, or could not decide in time, and
// the policy is to block. Whether tokens were spent is unknown unless the cause says so;
// without any responder nothing was spent.
type UnavailableError struct {
	// Err is the cause: nats.ErrNoResponders, nats.ErrTimeout,
	// context.DeadlineExceeded, or an *Error of status 408 or 503.
	Err error
	// RequestID finds the request in logs; see [WithRequestID]. It is empty for an
	// acquire without a reply, unless the caller set an ID.
	RequestID string
}

// Error implements error.
func (e *UnavailableError) Error() string { return "tidegate is unavailable: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }
