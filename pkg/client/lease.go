package tidegate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/api"
)

// attempts bounds how often a settlement is sent until a reply arrives. Settlements are
// idempotent: the service answers a repeat as it did the first.
const attempts = 3

// Lease holds the tokens of an admitted acquire. It is safe for concurrent use; its
// settlements are sent in sequence, because each needs the token that the previous reply
// brought.
type Lease struct {
	client   *Client
	degraded bool

	turn chan struct{} // holds a value while no settlement is in flight

	mu       sync.Mutex
	token    string        // guarded by mu; written by the settlement that has the turn
	released bool          // guarded by mu; written by the settlement that has the turn
	limits   []LimitStatus // guarded by mu; written by the settlement that has the turn
}

func newLease(c *Client, reply api.AcquireReply) *Lease {
	l := &Lease{client: c, degraded: reply.Degraded, token: reply.Lease, limits: reply.Limits, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// Lease returns the lease of a token, to settle the acquire of another process. It sends
// no request: an invalid token is refused when it is settled. The empty token is the
// token of a degraded lease.
func (c *Client) Lease(token string) *Lease {
	return newLease(c, api.AcquireReply{Lease: token, Degraded: token == ""})
}

// Degraded says that the lease was granted without asking the limits. Adjust
// and Release then do nothing.
func (l *Lease) Degraded() bool { return l.degraded }

// Token is the opaque text with which any client of the namespace can settle
// the lease; Adjust replaces it. It is empty if the lease is degraded.
func (l *Lease) Token() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

// Limits are all limits of all levels, as the last reply showed them. The
// caller must not change them.
func (l *Lease) Limits() []LimitStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limits
}

// Adjust spends more, possibly into debt, or gives back at most the tokens that the lease
// holds. After an *UnavailableError its effect is unknown: the same deltas may be sent
// again and count once; different deltas may be refused with the code lease_conflict. A
// repeated debit counts twice only if the service cannot reach its lease records.
func (l *Lease) Adjust(ctx context.Context, deltas Deltas) error {
	return l.settle(ctx, func() error {
		q := api.AdjustRequest{Lease: l.token, Deltas: sorted(deltas)}
		reply, err := settlement[api.AdjustReply](ctx, l.client, api.VerbAdjust, q)
		if err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.token, l.limits = reply.Lease, reply.Limits
		return nil
	})
}

// Release gives back all that the lease holds. Releasing again does nothing.
func (l *Lease) Release(ctx context.Context) error {
	err := l.settle(ctx, func() error {
		if _, err := settlement[api.ReleaseReply](ctx, l.client, api.VerbRelease, api.ReleaseRequest{Lease: l.token}); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.released = true
		return nil
	})
	if errors.Is(err, ErrReleased) {
		return nil
	}
	return err
}

// settle calls do when it is this settlement's turn; do may read the token
// without the lock.
func (l *Lease) settle(ctx context.Context, do func() error) error {
	if l.degraded {
		return nil
	}
	select {
	case <-l.turn:
	case <-ctx.Done():
		return fmt.Errorf("wait for another settlement of the lease: %w", ctx.Err())
	}
	defer func() { l.turn <- struct{}{} }()
	if l.released {
		return ErrReleased
	}
	return do()
}

// settlement sends a request until a reply arrives, up to attempts times, with the same
// ID, while ctx lasts. Each attempt waits for the client's timeout.
func settlement[Reply any](ctx context.Context, c *Client, verb api.Verb, request any) (reply Reply, err error) {
	ctx = named(ctx)
	for range attempts {
		reply, err = attempt[Reply](ctx, c, verb, request)
		lost := errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
		if !lost || ctx.Err() != nil {
			break
		}
	}
	return reply, err
}

func attempt[Reply any](ctx context.Context, c *Client, verb api.Verb, request any) (Reply, error) {
	if ctx.Done() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	return ask[Reply](ctx, c, verb, request)
}
