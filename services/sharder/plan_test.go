package sharder

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
)

const testMs = 1_800_000_000_000 // a moment, Unix milliseconds

func limitOf(tokens int64) []bucket.Limit {
	return []bucket.Limit{{Name: "rpm", Capacity: tokens * bucket.Milli, Refill: bucket.Milli, Period: 1000}}
}

// crowded is since when 1, 2, 4, … shards have had room: the first n of them not
// yet, the others for long.
func crowded(n int, at int64) (noRoom [counts]int64) {
	for k := range n {
		noRoom[k] = at
	}
	return noRoom
}

func TestPlan(t *testing.T) {
	const long, now = testMs - 2*idleMs, testMs
	for name, tt := range map[string]struct {
		view view
		want step
	}{
		"nothing is there":              {view{load: 5000}, step{stay, 0, 0}},
		"a little":                      {view{wanted: 1, load: 799, changed: long}, step{stay, 1, 1}},
		"too much":                      {view{wanted: 1, load: 800, changed: long}, step{double, 1, 2}},
		"too much, and just made":       {view{wanted: 1, load: 800, changed: now - 1}, step{double, 1, 2}},
		"too much for four":             {view{wanted: 4, load: 3200, noRoom: crowded(4, now)}, step{double, 4, 8}},
		"a load that needs four":        {view{wanted: 4, load: 3199, noRoom: crowded(3, now)}, step{stay, 4, 4}},
		"as many as there can be":       {view{wanted: 32, load: 1e6, noRoom: crowded(6, now)}, step{stay, 32, 32}},
		"a limit of one":                {view{wanted: 1, load: 5000, limits: limitOf(1)}, step{stay, 1, 1}},
		"a limit of five":               {view{wanted: 4, load: 5000, limits: limitOf(5), noRoom: crowded(5, now)}, step{stay, 4, 4}},
		"requests that need the whole":  {view{wanted: 1, load: 5000, limits: limitOf(100), costs: map[string]int64{"rpm": 51}}, step{stay, 1, 1}},
		"requests that fit a half":      {view{wanted: 1, load: 5000, limits: limitOf(100), costs: map[string]int64{"rpm": 50}}, step{double, 1, 2}},
		"idle":                          {view{wanted: 8, changed: long}, step{merge, 8, 1}},
		"two have had room":             {view{wanted: 8, changed: long, noRoom: crowded(1, now)}, step{merge, 8, 2}},
		"almost long enough":            {view{wanted: 2, changed: long, noRoom: crowded(1, now-idleMs+1)}, step{stay, 2, 2}},
		"long enough":                   {view{wanted: 2, changed: long, noRoom: crowded(1, now-idleMs)}, step{merge, 2, 1}},
		"others are about to merge":     {view{wanted: 2, changed: now - settleMs + 1}, step{stay, 2, 2}},
		"a split is missing":            {view{wanted: 2, lacking: true, changed: long, noRoom: crowded(6, now)}, step{spread, 2, 2}},
		"others are about to split":     {view{wanted: 2, lacking: true, changed: now - settleMs + 1, noRoom: crowded(6, now)}, step{stay, 2, 2}},
		"a merge is missing":            {view{wanted: 2, leftOver: true, changed: long, noRoom: crowded(6, now)}, step{merge, 2, 2}},
		"the limits were lowered":       {view{wanted: 8, limits: limitOf(3), overgrown: now - overgrownMs, noRoom: crowded(6, now)}, step{merge, 8, 2}},
		"they were lowered this moment": {view{wanted: 8, limits: limitOf(3), overgrown: now - overgrownMs + 1, noRoom: crowded(6, now)}, step{stay, 8, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, plan(&tt.view, now))
		})
	}
}

func anyView(t *rapid.T) *view {
	v := &view{
		wanted:   1 << rapid.IntRange(0, counts-1).Draw(t, "wanted"),
		lacking:  rapid.Bool().Draw(t, "lacking"),
		leftOver: rapid.Bool().Draw(t, "left over"),
		load:     rapid.Int64Range(0, 40_000).Draw(t, "load"),
		changed:  testMs - rapid.Int64Range(0, 3*settleMs).Draw(t, "since the change"),
		limits:   limitOf(rapid.Int64Range(1, 100).Draw(t, "capacity")),
		costs:    map[string]int64{"rpm": rapid.Int64Range(0, 120).Draw(t, "cost")},
	}
	for k := range v.noRoom {
		v.noRoom[k] = testMs - rapid.Int64Range(0, 2*idleMs).Draw(t, "since there was no room")
	}
	if rapid.Bool().Draw(t, "overgrown") {
		v.overgrown = testMs - rapid.Int64Range(0, 2*overgrownMs).Draw(t, "overgrown for")
	}
	return v
}

// Whatever is known, a step leads to as many shards as there may be and the load
// needs, and never to more than serve.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyView(t)
		s := plan(v, testMs)
		require.Equal(t, v.wanted, s.from)
		switch s.kind {
		case double:
			require.Equal(t, 2*s.from, s.to)
			require.LessOrEqual(t, s.to, bucket.MaxShards)
			require.GreaterOrEqual(t, v.load, int64(tooMuch*s.from), "as many as there are bear the load")
			require.True(t, v.serves(s.to))
		case merge:
			require.LessOrEqual(t, s.to, s.from)
			require.True(t, s.to < s.from || v.leftOver)
			require.GreaterOrEqual(t, s.to, 1)
			require.GreaterOrEqual(t, testMs-v.changed, int64(settleMs))
			if k := log2(s.to); s.to < s.from && testMs-v.noRoom[k] < idleMs {
				require.GreaterOrEqual(t, testMs-v.overgrown, int64(overgrownMs), "neither was there room for long, nor do shares serve")
				require.False(t, v.serves(2*s.to))
			}
		case spread:
			require.True(t, v.lacking)
			require.Equal(t, s.from, s.to)
		case stay:
			require.True(t, v.load < int64(tooMuch*s.from) || !v.serves(2*s.from), "too much, and nothing done")
		}
	})
}

func log2(n int) (k int) {
	for ; n > 1; n /= 2 {
		k++
	}
	return k
}

// A constant load is given the shards that it needs, keeps them while it lasts, and
// then goes back to one: no number of shards is both too few and too many.
func TestAConstantLoadSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load := rapid.Int64Range(0, 25_000).Draw(t, "load")
		v := &view{wanted: 1, load: load, limits: limitOf(1 << 30)}
		var noRoom [counts]int64
		at := int64(testMs)
		steps := 0
		play := func(minutes int64) {
			for end := at + minutes*60_000; at < end; at += 1000 {
				for k := range noRoom {
					if v.load > roomy<<k {
						noRoom[k] = at
					}
				}
				v.noRoom = noRoom
				if s := plan(v, at); s.kind != stay {
					v.wanted, v.changed = s.to, at
					steps++
				}
			}
		}
		play(1)
		needed := 1
		for load >= tooMuch*int64(needed) {
			needed *= 2
		}
		got := v.wanted
		require.Equal(t, needed, got)
		require.Equal(t, log2(needed), steps, "not more than the load needs")
		play(25)
		got = v.wanted
		require.Equal(t, needed, got, "it lasts")
		v.load = 0
		play(11)
		require.Equal(t, 1, v.wanted)
		require.LessOrEqual(t, steps, log2(needed)+1)
	})
}
