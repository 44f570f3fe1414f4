package loadgen

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/api"
)

// perMinute is a limit x of so many tokens per minute, and as many at once.
func perMinute(tokens int64) api.Limit {
	return api.Limit{Name: "x", Capacity: tokens, RefillAmount: tokens, RefillPeriodSeconds: 60}
}

func entry(admission bool, sent, received time.Duration, tokens int64) Entry {
	return Entry{Sent: sent, Received: received, Admission: admission, Amounts: api.Amounts{{Name: "x", Tokens: tokens}}}
}

func spend(sent, received time.Duration, tokens int64) Entry {
	return entry(true, sent, received, tokens)
}

func adjust(sent, received time.Duration, tokens int64) Entry {
	return entry(false, sent, received, tokens)
}

func TestCheckLimit(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for name, c := range map[string]struct {
		entries []Entry
		rules   Rules
		excess  float64 // 0: all is well
	}{
		"nothing":                  {entries: nil},
		"all at once":              {entries: []Entry{spend(0, 10*ms, 100)}},
		"one too many":             {entries: []Entry{spend(0, 10*ms, 50), spend(0, 10*ms, 51)}, excess: 0.98},
		"the example of the doc":   {entries: []Entry{spend(0, s, 80), spend(2*s, 3*s, 80)}, excess: 55},
		"refilled in between":      {entries: []Entry{spend(0, 10*ms, 80), spend(36*s, 36*s+5*ms, 80)}},
		"not yet refilled":         {entries: []Entry{spend(0, 0, 80), spend(35*s, 35*s, 80)}, excess: 1.66},
		"perhaps refilled":         {entries: []Entry{spend(0, 0, 80), spend(35*s, 37*s, 80)}},
		"refilled with skew":       {entries: []Entry{spend(0, 0, 80), spend(35*s, 35*s, 80)}, rules: Rules{Slack: s}},
		"given back":               {entries: []Entry{spend(0, ms, 100), adjust(2*ms, 3*ms, -40), spend(4*ms, 5*ms, 40)}},
		"given back too little":    {entries: []Entry{spend(0, ms, 100), adjust(2*ms, 3*ms, -40), spend(4*ms, 5*ms, 50)}, excess: 9.99},
		"given back too late":      {entries: []Entry{spend(0, ms, 100), adjust(6*ms, 7*ms, -40), spend(4*ms, 5*ms, 40)}, excess: 39.99},
		"perhaps given back":       {entries: []Entry{spend(0, ms, 100), adjust(2*ms, Unknown, -40), spend(4*s, 4*s, 40)}},
		"given back before":        {entries: []Entry{adjust(0, ms, -40), spend(2*ms, 3*ms, 100), spend(4*ms, 5*ms, 40)}, excess: 39.99},
		"perhaps admitted":         {entries: []Entry{spend(0, ms, 100), spend(2*ms, Unknown, 100)}},
		"debt":                     {entries: []Entry{spend(0, ms, 100), adjust(2*ms, 3*ms, 1000)}, rules: Rules{Debts: true}},
		"admitted in debt":         {entries: []Entry{spend(0, ms, 100), adjust(2*ms, 3*ms, 1000), spend(4*ms, 5*ms, 0)}, rules: Rules{Debts: true}, excess: 999.99},
		"debt on another shard":    {entries: []Entry{spend(0, ms, 100), adjust(2*ms, 3*ms, 1000), spend(4*ms, 5*ms, 0)}},
		"perhaps before the debt":  {entries: []Entry{spend(0, ms, 100), adjust(2*ms, 5*ms, 1000), spend(4*ms, 5*ms, 0)}, rules: Rules{Debts: true}},
		"perhaps no debt":          {entries: []Entry{spend(0, ms, 100), adjust(2*ms, Unknown, 1000), spend(4*s, 4*s, 1)}, rules: Rules{Debts: true}},
		"only its own limit":       {entries: []Entry{{Received: ms, Admission: true, Amounts: api.Amounts{{Name: "y", Tokens: 1000}}}}},
		"long ago is not now":      {entries: []Entry{spend(0, ms, 100), spend(60*s+2*ms, 60*s+3*ms, 100), spend(121*s, 121*s, 100)}},
		"any window, not only all": {entries: []Entry{spend(0, ms, 1), spend(90*s, 90*s, 60), spend(91*s, 91*s, 60)}, excess: 18.33},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := CheckLimit(perMinute(100), c.entries, c.rules)
			require.Equal(t, c.excess > 0, found, "%+v", got)
			require.InDelta(t, c.excess, got.Excess, 0.02)
			slices.Reverse(c.entries)
			again, _ := CheckLimit(perMinute(100), c.entries, c.rules)
			require.Equal(t, got, again, "the order of entries does not matter")
		})
	}
}

func TestCheckLimitNamesTheWindow(t *testing.T) {
	got, found := CheckLimit(perMinute(100), []Entry{
		spend(time.Second, 2*time.Second, 1), spend(90*time.Second, 91*time.Second, 80), spend(92*time.Second, 93*time.Second, 80),
	}, Rules{})
	require.True(t, found)
	require.Equal(t, "x", got.Limit)
	require.InDelta(t, 90, got.From, 0.001)
	require.InDelta(t, 93, got.To, 0.001)
}

// history draws entries at random moments within two minutes.
func history(t *rapid.T) []Entry {
	moment := rapid.Int64Range(0, 120_000)
	entries := make([]Entry, rapid.IntRange(0, 25).Draw(t, "entries"))
	for i := range entries {
		sent := time.Duration(moment.Draw(t, "sent")) * time.Millisecond
		e := entry(rapid.Bool().Draw(t, "admission"), sent, sent+time.Duration(rapid.Int64Range(0, 9000).Draw(t, "took"))*time.Millisecond, 0)
		if e.Amounts[0].Tokens = rapid.Int64Range(-60, 60).Draw(t, "tokens"); e.Admission {
			e.Amounts[0].Tokens = max(0, e.Amounts[0].Tokens)
		}
		if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
			e.Received = Unknown
		}
		entries[i] = e
	}
	return entries
}

// worstWindow looks at every window one by one, in exact fractions.
func worstWindow(limit api.Limit, entries []Entry, rules Rules) *big.Rat {
	worst := new(big.Rat)
	for _, first := range entries {
		for _, last := range entries {
			if !last.Admission || last.Received == Unknown {
				continue
			}
			from, to := first.Sent, last.Received+time.Microsecond
			net, lastSent := int64(0), time.Duration(-1)
			for _, e := range entries {
				if e.Admission && e.Sent >= from && e.Received < to {
					net, lastSent = net+e.Amounts[0].Tokens, max(lastSent, e.Sent)
				}
			}
			for _, e := range entries {
				tokens := e.Amounts[0].Tokens
				credit := tokens < 0 && e.Sent <= to && (e.Received == Unknown || e.Received+time.Microsecond >= from)
				debit := tokens > 0 && !e.Admission && rules.Debts && e.Sent >= from && e.Received < lastSent
				if lastSent >= 0 && (credit || debit) {
					net += tokens
				}
			}
			length := to - from + rules.Slack + time.Millisecond
			excess := big.NewRat(-limit.RefillAmount*length.Microseconds(), limit.RefillPeriodSeconds*1_000_000)
			excess.Add(excess, big.NewRat(net-limit.Capacity, 1))
			if lastSent >= 0 && excess.Cmp(worst) > 0 {
				worst = excess
			}
		}
	}
	return worst
}

func TestCheckLimitFindsTheWorstWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := api.Limit{
			Name: "x", Capacity: rapid.Int64Range(1, 100).Draw(t, "capacity"),
			RefillAmount: rapid.Int64Range(1, 100).Draw(t, "amount"), RefillPeriodSeconds: rapid.Int64Range(1, 100).Draw(t, "period"),
		}
		rules := Rules{Debts: rapid.Bool().Draw(t, "debts"), Slack: time.Duration(rapid.IntRange(0, 3).Draw(t, "slack")) * time.Second}
		entries := history(t)
		want, _ := worstWindow(limit, entries, rules).Float64()
		got, _ := CheckLimit(limit, entries, rules)
		require.InDelta(t, want, got.Excess, 0.005)
	})
}

// A bucket that keeps its promise is never accused, whatever the replies leave
// open of when things took place.
func TestCheckLimitIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := perMinute(rapid.Int64Range(1, 200).Draw(t, "tokens"))
		balance, at := big.NewRat(limit.Capacity, 1), time.Duration(0)
		var entries []Entry
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			step := time.Duration(rapid.Int64Range(0, 5_000_000).Draw(t, "step")) * time.Microsecond
			at += step
			balance.Add(balance, big.NewRat(limit.RefillAmount*step.Microseconds(), limit.RefillPeriodSeconds*1_000_000))
			if full := big.NewRat(limit.Capacity, 1); balance.Cmp(full) > 0 {
				balance = full
			}
			e := entry(rapid.Bool().Draw(t, "admission"), max(0, at-time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "there"))),
				at+time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "back")), rapid.Int64Range(-50, 50).Draw(t, "amount"))
			if e.Admission {
				e.Amounts[0].Tokens = max(0, e.Amounts[0].Tokens)
			}
			cost := big.NewRat(e.Amounts[0].Tokens, 1)
			if e.Admission && balance.Cmp(cost) < 0 {
				continue // denied
			}
			balance.Sub(balance, cost)
			if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
				e.Received = Unknown
			}
			entries = append(entries, e)
		}
		violation, found := CheckLimit(limit, entries, Rules{Debts: true})
		require.False(t, found, "%+v", violation)
	})
}
