package api

// Policy decides the reply to an acquire when the store cannot be reached.
type Policy string

// The policies. An empty policy defers to the next in the order request, entity,
// resource, system; if all are empty, PolicyBlock applies.
const (
	PolicyBlock Policy = "block" // refuse with the code unavailable
	PolicyAllow Policy = "allow" // admit, degraded
)

// Limit is a token bucket's setting: it holds at most Capacity tokens and regains
// RefillAmount of them, evenly, in each RefillPeriodSeconds.
type Limit struct {
	Name                string `json:"name" rule:"limit_name,required"`
	Capacity            int64  `json:"capacity" rule:"tokens,required"`
	RefillAmount        int64  `json:"refill_amount" rule:"tokens,required"`
	RefillPeriodSeconds int64  `json:"refill_period_seconds" rule:"seconds,required"`
}

// LimitStatus holds the state of a bucket's limit, in whole tokens.
type LimitStatus struct {
	Entity string `json:"entity"`
	// Resource is set only if the request names no resource.
	Resource string `json:"resource,omitempty"`
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	// Requested is the number of tokens that the request spends of the limit.
	Requested int64 `json:"requested"`
	// Available is the balance over all shards after the request's own spend,
	// rounded down; negative is debt.
	Available int64 `json:"available"`
	// Exceeded is true if this limit refuses the request.
	Exceeded bool `json:"exceeded,omitempty"`
	// RetryAfterMs is the time, in whole milliseconds (1 or more), after which this
	// limit alone would admit the request; −1 with Never, 0 if not Exceeded.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
	// Never is true if the request asks for more than the limit's capacity.
	Never bool `json:"never,omitempty"`
}

// AcquireRequest asks to spend from several limits at once, atomically.
type AcquireRequest struct {
	Entity   string  `json:"entity"`
	Resource string  `json:"resource"`
	Consume  Amounts `json:"consume"`
	// OnUnavailable overrides the stored policies; if empty, they apply.
	OnUnavailable Policy `json:"on_unavailable,omitempty"`
	// Limits replaces the stored limits for this request. VerbAcquireOverride
	// requires it; VerbAcquire refuses it.
	Limits []Limit `json:"limits,omitempty"`
}

// AcquireReply answers an acquire. A denial is a reply, not an error.
type AcquireReply struct {
	Allowed bool `json:"allowed"`
	// Lease is the token for adjusting or releasing the spend. Every admitted reply
	// has a lease, which is empty with Degraded.
	Lease string `json:"lease"`
	// Degraded is true if the store could not be reached and the policy allowed the
	// request; it is unknown whether anything was spent.
	Degraded bool `json:"degraded,omitempty"`
	// RetryAfterMs is, for a denial, the time in whole milliseconds (1 or more) after
	// which the same request passes if no other request spends; −1 with Never. For an
	// admission it is 0.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
	// Never is true if the request can never pass, because it costs more than a capacity.
	Never bool `json:"never,omitempty"`
	// Limits holds all limits of all cascade levels; empty with Degraded.
	Limits []LimitStatus `json:"limits"`
}

// AdjustRequest corrects a lease's spend: a positive delta spends more, a negative
// delta returns tokens. A request with an empty Lease, as in degraded replies,
// succeeds and changes nothing.
type AdjustRequest struct {
	Lease  string  `json:"lease"`
	Deltas Amounts `json:"deltas"`
}

// AdjustReply returns the token that replaces the request's lease.
type AdjustReply struct {
	Lease  string        `json:"lease"`
	Limits []LimitStatus `json:"limits"`
}

// ReleaseRequest refunds all tokens that a lease holds.
type ReleaseRequest struct {
	Lease string `json:"lease"`
}

// ReleaseReply confirms a release.
type ReleaseReply struct {
	Released bool `json:"released"`
}

// StatusRequest reads the balances of an entity's limits. It spends nothing.
type StatusRequest struct {
	Entity string `json:"entity"`
	// Resource selects a bucket; empty: all buckets of the entity, a page at a time.
	Resource string `json:"resource,omitempty"`
	// Consume, if not empty, asks whether an acquire of these amounts would pass now.
	// It requires a resource.
	Consume Amounts `json:"consume,omitempty"`
	// Cursor is from the preceding page; empty for the first page. It excludes a
	// resource, as Limit does.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of buckets of the page, up to MaxPage; 0 is
	// DefaultPage.
	Limit int64 `json:"limit,omitempty"`
}

// StatusReply answers a status request. Allowed, RetryAfterMs and Never are as
// in AcquireReply and set only for a request with Consume.
type StatusReply struct {
	Allowed      *bool         `json:"allowed,omitempty"`
	RetryAfterMs int64         `json:"retry_after_ms,omitempty"`
	Never        bool          `json:"never,omitempty"`
	Limits       []LimitStatus `json:"limits"`
	// Damaged lists the resources with unknown balances, because a stored item cannot
	// be read. It is set only if the request names no resource.
	Damaged []string `json:"damaged,omitempty"`
	// Cursor requests the next page; the last page has none. Earlier pages may hold
	// fewer buckets than requested, even zero.
	Cursor string `json:"cursor,omitempty"`
}
