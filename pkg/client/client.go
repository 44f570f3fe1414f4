package tidegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/api"
)

// The parts of the wire contract that callers meet.
type (
	// Error is a request that was refused, with a code of a closed list.
	Error = api.Error
	// Limit is a limit of a config level.
	Limit = api.Limit
	// LimitStatus reports a limit after a request.
	LimitStatus = api.LimitStatus
	// Policy sets the behaviour while Tidegate is unavailable.
	Policy = api.Policy
)

// The policies. If an acquire sets no policy, the stored policy applies to failures
// behind the service, and Block to failures that only the client sees.
const (
	Block = api.PolicyBlock
	Allow = api.PolicyAllow
)

// Consume maps limits to the whole tokens to spend, 0 or more. A limit in debt denies
// even an acquire of 0 tokens.
type Consume map[string]int64

// Deltas maps limits to the whole tokens to spend in addition or, negative, to
// give back.
type Deltas map[string]int64

// Client sends requests for a namespace. It is safe for concurrent use and needs no
// closing.
type Client struct {
	nc        *nats.Conn
	namespace string
	policy    Policy
	timeout   time.Duration
	observer  Observer // nil: not observed
	store     *storeTime
	answered  *sync.Map    // by api.Verb: NATS lets this connection send it, as an answer has shown
	away      *atomic.Bool // NATS is, as the last request found
}

// Option configures a Client.
type Option func(*Client)

// WithNamespace says for which namespace the client asks; "default" without it.
func WithNamespace(name string) Option { return func(c *Client) { c.namespace = name } }

// WithOnUnavailable sets the policy of all the client's acquires. It overrules
// the stored ones.
func WithOnUnavailable(p Policy) Option { return func(c *Client) { c.policy = p } }

// WithTimeout says how long to wait for a reply when the context has no
// deadline, and for each attempt to settle a lease; 2 seconds without it.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// InboxPrefix is the option with which a user must connect where permissions are set: they
// let it receive replies only under this prefix. The user of a tenant's services has the
// namespace's name.
func InboxPrefix(user string) nats.Option {
	return nats.CustomInboxPrefix(api.InboxPrefix(user))
}

// New makes a client on a connection, which stays the caller's to close. It
// fails on an option that cannot be meant.
func New(nc *nats.Conn, opts ...Option) (*Client, error) {
	c := &Client{nc: nc, namespace: api.DefaultNamespace, timeout: api.DefaultTimeout, store: newStoreTime(systemTime()), answered: new(sync.Map), away: new(atomic.Bool)}
	for _, opt := range opts {
		opt(c)
	}
	if err := api.CheckNamespace(c.namespace); err != nil {
		return nil, err
	}
	if err := c.policy.Check(); err != nil {
		return nil, err
	}
	if c.timeout < time.Millisecond {
		return nil, fmt.Errorf("the timeout %v is too short: 1 ms is the least that can be announced", c.timeout)
	}
	return c, nil
}

// AcquireOption configures an acquire.
type AcquireOption func(*api.AcquireRequest)

// OnUnavailable sets the policy of an acquire. It overrides every stored policy.
func OnUnavailable(p Policy) AcquireOption {
	return func(q *api.AcquireRequest) { q.OnUnavailable = p }
}

// OverrideLimits replaces the stored limits for an acquire, which then uses a bucket of
// its own. It needs a separate permission.
func OverrideLimits(limits ...Limit) AcquireOption {
	return func(q *api.AcquireRequest) { q.Limits = limits }
}

// Acquire spends from all named limits, or from none. The package documentation lists
// the errors.
func (c *Client) Acquire(ctx context.Context, entity, resource string, consume Consume, opts ...AcquireOption) (*Lease, error) {
	q := api.AcquireRequest{Entity: entity, Resource: resource, Consume: sorted(consume), OnUnavailable: c.policy}
	for _, opt := range opts {
		opt(&q)
	}
	verb := api.VerbAcquire
	if len(q.Limits) > 0 {
		verb = api.VerbAcquireOverride
	}
	if c.observer != nil {
		ctx = named(ctx)
	}
	body, err := c.exchange(ctx, verb, q.AppendJSON(make([]byte, 0, 192)))
	if err != nil {
		var down *UnavailableError
		if q.OnUnavailable == Allow && errors.As(err, &down) {
			return newLease(c, api.AcquireReply{Allowed: true, Degraded: true}), nil
		}
		return nil, err
	}
	reply, err := api.DecodeAcquireReply(body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the reply to %s: %w", verb, err)
	case !reply.Allowed:
		return nil, denied(entity, resource, requestID(ctx), &reply)
	}
	return newLease(c, reply), nil
}

// Do acquires, then calls use. If use fails or panics, all that was spent is
// given back, even if ctx is over; a failure to do so is joined to use's error.
func (c *Client) Do(ctx context.Context, entity, resource string, consume Consume, use func(context.Context, *Lease) error, opts ...AcquireOption) (err error) {
	lease, err := c.Acquire(ctx, entity, resource, consume, opts...)
	if err != nil {
		return err
	}
	used := false
	defer func() {
		if used {
			return
		}
		// use failed or panicked; after a panic no caller receives the error.
		if e := lease.Release(context.WithoutCancel(ctx)); e != nil {
			err = errors.Join(err, e)
		}
	}()
	err = use(ctx, lease)
	used = err == nil
	return err
}

// Status reports the limits of an entity without spending: on a resource or, if it is
// empty, on all resources that the entity has used, which may take several requests: see
// [Client.StatusPage]. With a resource and consume, it also reports whether an acquire of
// these amounts would be admitted now.
func (c *Client) Status(ctx context.Context, entity, resource string, consume Consume) (api.StatusReply, error) {
	q := api.StatusRequest{Entity: entity, Resource: resource, Consume: sorted(consume)}
	all, err := c.StatusPage(ctx, q)
	for err == nil && all.Cursor != "" {
		var page api.StatusReply
		q.Cursor = all.Cursor
		page, err = c.StatusPage(ctx, q)
		all.Limits, all.Damaged, all.Cursor = append(all.Limits, page.Limits...), append(all.Damaged, page.Damaged...), page.Cursor
	}
	if err != nil {
		return api.StatusReply{}, err
	}
	return all, nil
}

// StatusPage reports the limits of a single resource, or of a page of the resources that
// an entity has used. The reply's cursor requests the next page; it is empty on the last.
func (c *Client) StatusPage(ctx context.Context, q api.StatusRequest) (api.StatusReply, error) {
	return ask[api.StatusReply](ctx, c, api.VerbStatus, q)
}

// ask sends a request, which has an id, and reads its reply.
func ask[Reply any](ctx context.Context, c *Client, verb api.Verb, request any) (Reply, error) {
	var reply Reply
	payload, err := json.Marshal(request)
	if err != nil {
		return reply, fmt.Errorf("write the request %s: %w", verb, err)
	}
	body, err := c.exchange(named(ctx), verb, payload)
	if err != nil {
		return reply, err
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return reply, fmt.Errorf("read the reply to %s: %w", verb, err)
	}
	return reply, nil
}

// exchange sends a request once and waits for its reply. If ctx has no request ID, the
// service generates it and errors carry it. The package documentation lists the errors.
func (c *Client) exchange(ctx context.Context, verb api.Verb, payload []byte) ([]byte, error) {
	msg := &nats.Msg{Subject: api.Subject(c.namespace, verb), Data: payload}
	if id := requestID(ctx); id != "" {
		msg.Header = nats.Header{api.HeaderRequestID: {id}}
	}
	if c.observer != nil {
		return c.observed(ctx, verb, msg)
	}
	return c.send(ctx, verb, msg)
}

// send is exchange with a message that is made. A request that a node refused as too
// late while its caller still waits is sent once more, without a deadline in the
// store's time: nothing was spent for it, and the two clocks do not agree.
func (c *Client) send(ctx context.Context, verb api.Verb, msg *nats.Msg) ([]byte, error) {
	wait := c.timeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline)
	}
	until := time.Now().Add(wait)
	if msg.Header == nil {
		msg.Header = make(nats.Header, 2)
	}
	deadline, known := c.store.deadline(wait)
	if known {
		msg.Header[api.HeaderDeadline] = []string{api.FormatTime(deadline)}
	}
	if !known || wait != api.DefaultTimeout { // nodes that know no deadlines take an absent timeout for the default
		msg.Header[api.HeaderTimeout] = []string{api.FormatTimeout(wait)}
	}
	body, err := c.once(ctx, verb, msg, wait)
	var refusal *api.Error
	if !known || !errors.As(err, &refusal) || refusal.Code != api.CodeDeadlineExceeded {
		return body, err
	}
	left := time.Until(until)
	if left < time.Millisecond || ctx.Err() != nil {
		return body, err
	}
	delete(msg.Header, api.HeaderDeadline)
	msg.Header[api.HeaderTimeout] = []string{api.FormatTimeout(left)}
	return c.once(ctx, verb, msg, left)
}

// once sends a message and reads its reply.
func (c *Client) once(ctx context.Context, verb api.Verb, msg *nats.Msg, wait time.Duration) ([]byte, error) {
	sent := c.store.read().mono
	reply, err := c.request(ctx, verb, msg, wait)
	var forbidden *api.Error
	switch {
	case err == nil:
	case errors.As(err, &forbidden):
		forbidden.RequestID = requestID(ctx)
		return nil, forbidden
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled):
		return nil, fmt.Errorf("%s: %w", verb, ctx.Err())
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, fmt.Errorf("%s: %w", verb, err)
	default:
		return nil, &UnavailableError{RequestID: requestID(ctx), Err: fmt.Errorf("%s: %w", verb, err)}
	}
	c.store.learn(sent, reply.Header)
	if reply.Header == nil || reply.Header.Get(api.HeaderErrorCode) == "" {
		return reply.Data, nil
	}
	refusal := api.DecodeError(reply.Data)
	if refusal.RequestID = requestID(ctx); refusal.RequestID == "" {
		refusal.RequestID = reply.Header.Get(api.HeaderRequestID)
	}
	switch refusal.Status() {
	case 408, 503:
		return nil, &UnavailableError{RequestID: refusal.RequestID, Err: refusal}
	}
	return nil, refusal
}

// request sends a message, and watches for a missing permission until the verb has been
// answered once.
func (c *Client) request(ctx context.Context, verb api.Verb, msg *nats.Msg, wait time.Duration) (reply *nats.Msg, err error) {
	// nats.go remembers for the whole outage each request that it cannot send, so that a
	// caller that repeats its request would fill the memory.
	if c.away.Load() && !c.nc.IsConnected() {
		return nil, nats.ErrReconnectBufExceeded
	}
	defer func() {
		if away := errors.Is(err, nats.ErrReconnectBufExceeded); away != c.away.Load() {
			c.away.Store(away)
		}
	}()
	if _, answered := c.answered.Load(verb); answered {
		if reply, err = c.unwatched(ctx, msg, wait); err != nil {
			c.answered.Delete(verb) // the permission may be gone: the next request looks
		}
		return reply, err
	}
	if reply, err = c.watched(ctx, msg, wait); err == nil {
		c.answered.Store(verb, true)
	}
	return reply, err
}

// unwatched waits on a pooled timer of nats.go where nothing else can end the
// wait: a context with a deadline costs more than the rest of the request.
func (c *Client) unwatched(ctx context.Context, msg *nats.Msg, wait time.Duration) (*nats.Msg, error) {
	if ctx.Done() == nil {
		return c.nc.RequestMsg(msg, wait)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	return c.nc.RequestMsgWithContext(ctx, msg)
}

// sorted are the tokens by name, so that equal calls send equal bytes.
func sorted[M ~map[string]int64](tokens M) api.Amounts {
	if len(tokens) == 0 {
		return nil
	}
	amounts := make(api.Amounts, 0, len(tokens))
	for name, n := range tokens {
		amounts = append(amounts, api.Amount{Name: name, Tokens: n})
	}
	slices.SortFunc(amounts, func(a, b api.Amount) int { return strings.Compare(a.Name, b.Name) })
	return amounts
}
