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

// DeniedError says that limits do not hold what was asked for. Nothing was
// spent.
type DeniedError struct {
	Entity, Resource string
	// RequestID is the one of [WithRequestID], or that an [Observer] was told, if any:
	// a denial is nothing that services log.
	RequestID string
	// RetryAfter is exact: the same request alone passes after it. Callers that
	// share a bucket should wait for Jittered instead. With Never it is the
	// longest duration there is, so that who overlooks Never does not spin.
	RetryAfter time.Duration
	// Never: the request costs more than a capacity, so it can never pass.
	Never bool
	// Limits are all limits of all levels, those that would hold included.
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

// leastJitter spreads even those who are told to wait for a moment only.
const leastJitter = 10 * time.Millisecond

// Jittered is RetryAfter and a random part of as much as half of it, at least
// of 10 ms: callers that were denied together do not come back together, and
// none comes back in vain.
func (e *DeniedError) Jittered() time.Duration {
	if e.Never {
		return e.RetryAfter
	}
	jitter := rand.N(max(e.RetryAfter/2, leastJitter))
	return e.RetryAfter + min(jitter, math.MaxInt64-e.RetryAfter)
}

// UnavailableError says that Tidegate could not be asked, or could not decide
// in time, and the policy is to block. Whether tokens were spent is unknown
// unless the cause says so; they never were if nobody answered at all.
type UnavailableError struct {
	// Err is the cause: nats.ErrNoResponders, nats.ErrTimeout,
	// context.DeadlineExceeded, or an *Error of status 408 or 503.
	Err error
	// RequestID finds the request in logs; see [WithRequestID]. Of an acquire that
	// nobody answered it is empty, unless the caller had one.
	RequestID string
}

// Error implements error.
func (e *UnavailableError) Error() string { return "tidegate is unavailable: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }
