package lease

import (
	"iter"
	"slices"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Lease says which tokens an admitted acquire spent, and where. It travels as a signed
// token, so that any node can settle it and no node has to remember it.
type Lease struct {
	_         struct{} `cbor:",toarray"`
	ID        string   // names the lease's record; unique, as a nonce is, and no secret
	Epoch     int64    // of the lease records when the lease was issued
	Number    uint32   // of its next operation, from 1
	Namespace string   // id
	At        bucket.Instant
	Levels    []Level // cascade levels, the acquiring entity's first
}

// Level is a bucket shard that was spent from.
type Level struct {
	_        struct{} `cbor:",toarray"`
	Entity   string
	Resource string
	Shard    int
	Held     []Held // an entry for each limit of the level, also for limits with nothing spent
	// Brought are the limits that the acquire brought, nil if its limits are stored. The
	// lease alone remembers them once their bucket is gone.
	Brought []Limit
}

// Limit is a bucket.Limit.
type Limit struct {
	_                        struct{} `cbor:",toarray"`
	Name                     string
	Capacity, Refill, Period int64
}

// Held is the amount that an acquire spent of a limit. Only the token of the first
// operation says it; later amounts are in the lease's record, and later tokens say 0.
type Held struct {
	_      struct{} `cbor:",toarray"`
	Limit  string
	Tokens int64
}

// index returns the position of a limit in Held, −1 for a limit that the level does
// not know.
func (l *Level) index(limit string) int {
	return slices.IndexFunc(l.Held, func(h Held) bool { return h.Limit == limit })
}

// Refund returns the refund of all that the acquire spent at the level.
func (l *Level) Refund() (all api.Amounts) {
	for _, h := range l.Held {
		if h.Tokens > 0 {
			all = append(all, api.Amount{Name: h.Limit, Tokens: -h.Tokens})
		}
	}
	return all
}

// Buckets yields the ranges of levels that belong to the same bucket: all shards that a
// multi-shard spend took tokens from, or the single shard of another spend.
func (l *Lease) Buckets() iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < len(l.Levels); {
			to := from + 1
			for to < len(l.Levels) && l.Levels[to].Entity == l.Levels[from].Entity && l.Levels[to].Resource == l.Levels[from].Resource {
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// next returns the lease as the token of operation number tells it.
func (l *Lease) next(number uint32) *Lease {
	next := *l
	next.Number = number
	next.Levels = slices.Clone(l.Levels)
	for i := range next.Levels {
		held := slices.Clone(next.Levels[i].Held)
		for n := range held {
			held[n].Tokens = 0
		}
		next.Levels[i].Held = held
	}
	return &next
}
