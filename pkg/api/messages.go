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
	// Exceeded: this limit refuses the request.
	Exceeded bool `json:"exceeded,omitempty"`
	// RetryAfterMs is when this limit alone would let the request pass: in so
	// many whole milliseconds (1 or more), −1 with Never, 0 if not Exceeded.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
	// Never: the request asks for more than the limit's capacity.
	Never bool `json:"never,omitempty"`
}

// AcquireRequest asks to spend from several limits at once, atomically.
type AcquireRequest struct {
	Entity   string  `json:"entity"`
	Resource string  `json:"resource"`
	Consume  Amounts `json:"consume"`
	// OnUnavailable overrules the stored policies; empty: they hold.
	OnUnavailable Policy `json:"on_unavailable,omitempty"`
	// Limits replace the stored ones for this request. Only VerbAcquireOverride
	// takes them, and needs them.
	Limits []Limit `json:"limits,omitempty"`
}

// AcquireReply answers an acquire. A denial is a reply, not an error.
type AcquireReply struct {
	Allowed bool `json:"allowed"`
	// Lease is the token for adjusting or releasing the spend. Every admitted reply
	// has a lease, which is empty with Degraded.
	Lease string `json:"lease"`
	// Degraded: the store could not be reached and the policy was to allow, so
	// nothing is known to be spent.
	Degraded bool `json:"degraded,omitempty"`
	// RetryAfterMs, of a denial: the same request alone passes in so many whole
	// milliseconds (1 or more); −1 with Never. 0 otherwise.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
	// Never: the request can never pass, as it costs more than a capacity.
	Never bool `json:"never,omitempty"`
	// Limits are all limits of all levels; empty with Degraded.
	Limits []LimitStatus `json:"limits"`
}

// AdjustRequest corrects a lease's spend: a positive delta spends more, a negative
// delta returns tokens. A request with an empty Lease, as in degraded replies,
// succeeds and changes nothing.
type AdjustRequest struct {
	Lease  string  `json:"lease"`
	Deltas Amounts `json:"deltas"`
}

// AdjustReply carries the token that replaces the request's.
type AdjustReply struct {
	Lease  string        `json:"lease"`
	Limits []LimitStatus `json:"limits"`
}

// ReleaseRequest gives back all that a lease holds.
type ReleaseRequest struct {
	Lease string `json:"lease"`
}

// ReleaseReply confirms a release.
type ReleaseReply struct {
	Released bool `json:"released"`
}

// StatusRequest asks how the limits of an entity stand, spending nothing.
type StatusRequest struct {
	Entity string `json:"entity"`
	// Resource, if empty, asks for all the entity's buckets.
	Resource string `json:"resource,omitempty"`
	// Consume, if any, asks whether an acquire of so much would pass now. It
	// needs a resource.
	Consume Amounts `json:"consume,omitempty"`
}

// StatusReply answers a status request. Allowed, RetryAfterMs and Never are as
// in AcquireReply and given only for a request with Consume.
type StatusReply struct {
	Allowed      *bool         `json:"allowed,omitempty"`
	RetryAfterMs int64         `json:"retry_after_ms,omitempty"`
	Never        bool          `json:"never,omitempty"`
	Limits       []LimitStatus `json:"limits"`
	// Damaged are the resources that nothing can be said of, because a stored item
	// cannot be read. Only given where the request names no resource.
	Damaged []string `json:"damaged,omitempty"`
}
