package bucket_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// vectorCase is one known fact about an unsharded bucket. Amounts are
// millitokens unless the name says tokens, times milliseconds unless it says
// seconds; which fields a case has depends on its group.
type vectorCase struct {
	Name         string         `json:"name"`
	Tokens       int64          `json:"tokens"`
	RefilledAt   bucket.Instant `json:"refilled_at"`
	Now          bucket.Instant `json:"now"`
	Capacity     int64          `json:"capacity"`
	Refill       int64          `json:"refill_amount"`
	Period       int64          `json:"refill_period"`
	CostTokens   int64          `json:"cost_tokens"`
	AmountTokens int64          `json:"amount_tokens"`
	Deficit      int64          `json:"deficit"`

	PeriodSeconds int64 `json:"period_seconds"`
	Multiplier    int64 `json:"multiplier"`

	WantOK         bool     `json:"want_ok"`
	WantNever      bool     `json:"want_never"`
	WantTokens     int64    `json:"want_tokens"`
	WantAvailable  int64    `json:"want_available_tokens"`
	WantRetryAfter *float64 `json:"want_retry_after_seconds"`
	WantSeconds    float64  `json:"want_seconds"`
}

func (c vectorCase) limit() bucket.Limit {
	return bucket.Limit{Name: c.Name, Capacity: c.Capacity, Refill: c.Refill, Period: c.Period}
}

// drawn is the stored form of a balance that was known at RefilledAt.
func (c vectorCase) drawn() int64 { return c.limit().Refilled(c.RefilledAt) - c.Tokens }

func (c vectorCase) pool() bucket.Pool { return wholePool(c.limit(), c.drawn()) }

func (c vectorCase) tally() bucket.Tally {
	return bucket.NewTally(c.limit().Window(bucket.Whole(), c.Now), c.drawn())
}

// wholePool is a bucket of one shard.
func wholePool(l bucket.Limit, drawn int64) bucket.Pool {
	return bucket.Pool{Limit: l, Shards: []bucket.ShardDrawn{{Shard: bucket.Whole(), Drawn: drawn}}}
}

func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var groups map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &groups))

	checks := map[string]func(*testing.T, vectorCase){
		"refill":      checkRefillVector,
		"consume":     checkConsumeVector,
		"retry_after": checkRetryVector,
		"force":       checkForceVector,
		"available":   checkAvailableVector,
		"ttl":         checkTTLVector,
	}
	for group, check := range checks {
		var cases []vectorCase
		require.NoError(t, json.Unmarshal(groups[group], &cases), group)
		require.NotEmpty(t, cases, group)
		for _, c := range cases {
			t.Run(group+"/"+c.Name, func(t *testing.T) { check(t, c) })
		}
	}
}

func checkRefillVector(t *testing.T, c vectorCase) {
	require.NoError(t, c.limit().Validate())
	tally := c.tally()
	require.InDelta(t, c.WantTokens, tally.Balance(), 1)
}

func checkConsumeVector(t *testing.T, c vectorCase) {
	cost := c.CostTokens * bucket.Milli
	pool := c.pool()
	require.Equal(t, c.WantAvailable, bucket.Floor(pool.Available(c.Now)))
	require.Equal(t, c.WantOK, pool.Holds(cost, c.Now))

	ms, ok := pool.RetryAfter(cost, c.Now)
	require.Equal(t, !c.WantNever, ok)
	if c.WantRetryAfter != nil {
		require.InDelta(t, *c.WantRetryAfter*1000, ms, 1)
	}

	tally := c.tally()
	require.Equal(t, c.WantOK, tally.Spend(cost))
	require.InDelta(t, c.WantTokens, tally.Balance(), 1)
	if c.WantOK {
		require.Equal(t, cost, tally.Consumed())
	} else {
		require.Zero(t, tally.Consumed())
	}
}

func checkRetryVector(t *testing.T, c vectorCase) {
	// An empty bucket lacks its whole cost; a surplus is a balance and no cost.
	l := bucket.Limit{Name: "v", Capacity: max(c.Deficit, 1000), Refill: c.Refill, Period: c.Period}
	cost, drawn := max(c.Deficit, 0), min(c.Deficit, 0)
	ms, ok := wholePool(l, drawn).RetryAfter(cost, 0)
	require.True(t, ok)
	require.InDelta(t, c.WantSeconds*1000, ms, 1)
}

func checkForceVector(t *testing.T, c vectorCase) {
	tally := c.tally()
	amount := c.AmountTokens * bucket.Milli
	if amount >= 0 {
		tally.Debit(amount)
	} else {
		tally.Credit(-amount)
	}
	require.InDelta(t, c.WantTokens, tally.Balance(), 1)
	require.Equal(t, amount, tally.Consumed())
}

func checkAvailableVector(t *testing.T, c vectorCase) {
	require.Equal(t, c.WantAvailable, bucket.Floor(c.pool().Available(c.Now)))
}

func checkTTLVector(t *testing.T, c vectorCase) {
	require.EqualValues(t, 7, c.Multiplier)
	l := bucket.Limit{
		Name: "v", Capacity: c.Capacity * bucket.Milli,
		Refill: c.Refill * bucket.Milli, Period: c.PeriodSeconds * 1000,
	}
	now := bucket.Instant(5_000)
	require.Equal(t, int64(c.WantSeconds), bucket.TTL([]bucket.Limit{l}, now)-now.Time().Unix())
}
