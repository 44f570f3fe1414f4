package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// deltasOf returns amounts of rpm and tpm, without those that are 0.
func deltasOf(rpm, tpm int64) (deltas api.Amounts) {
	for _, a := range []api.Amount{{Name: "rpm", Tokens: rpm}, {Name: "tpm", Tokens: tpm}} {
		if a.Tokens != 0 {
			deltas = append(deltas, a)
		}
	}
	return deltas
}

// TestDecide goes through the rules one by one, on a lease of 1 rpm and 500 tpm.
func TestDecide(t *testing.T) {
	const lifetime = time.Second
	tokens := func(rpm, tpm int64) tokenTable { return tokenTable{{rpm, tpm}} }
	waiting := func(at bucket.Instant, busy bool) *pending {
		return &pending{Hash: "mine", Left: tokens(2, 0), At: testNow + at, Busy: busy}
	}
	for name, c := range map[string]struct {
		number        uint32
		rpm, tpm      int64 // both 0: a release
		stored        *Record
		want          ruling
		code          api.Code
		credits, debs tokenTable
		held          tokenTable
	}{
		"the first operation takes the token's amounts": {1, 0, -100, nil, rulingWrite, "", tokens(0, 100), tokens(0, 0), tokens(1, 400)},
		"a debit is held once it is written":            {1, 2, 0, nil, rulingWrite, "", tokens(0, 0), tokens(2, 0), tokens(1, 500)},
		"a mixed one gives first":                       {1, 2, -500, nil, rulingWrite, "", tokens(0, 500), tokens(2, 0), tokens(1, 0)},
		"no more than is held":                          {1, 0, -501, nil, rulingRefuse, api.CodeExceedsLease, nil, nil, nil},
		"a lost Record holds nothing":                   {2, 0, -1, nil, rulingRefuse, api.CodeExceedsLease, nil, nil, nil},
		"debits go on after a lost Record":              {2, 1, 0, nil, rulingWrite, "", tokens(0, 0), tokens(1, 0), tokens(0, 0)},
		"a repeat":                                      {2, 0, -1, &Record{Held: tokens(1, 9), Done: 2, Hash: "mine"}, rulingDone, "", nil, nil, nil},
		"another operation of the same number":          {2, 0, -1, &Record{Held: tokens(1, 9), Done: 2, Hash: "other"}, rulingRefuse, api.CodeLeaseConflict, nil, nil, nil},
		"an operation of a number before":               {1, 0, -1, &Record{Held: tokens(1, 9), Done: 2, Hash: "mine"}, rulingRefuse, api.CodeLeaseConflict, nil, nil, nil},
		"an adjust after the release":                   {3, 1, 0, &Record{Held: tokens(0, 0), Done: 2, Closed: true}, rulingRefuse, api.CodeLeaseConflict, nil, nil, nil},
		"a number ahead, the end of its forerunner lost": {
			3, 0, -1, &Record{Held: tokens(1, 9), Done: 1, Pending: waiting(0, true)}, rulingWrite, "", tokens(0, 1), tokens(0, 0), tokens(1, 8),
		},
		"a number far ahead gives nothing": {4, 0, -1, &Record{Held: tokens(1, 9), Done: 1, Pending: waiting(0, true)}, rulingRefuse, api.CodeLeaseConflict, nil, nil, nil},
		"a number ahead of nothing":        {3, 0, -1, &Record{Held: tokens(1, 9), Done: 1}, rulingRefuse, api.CodeLeaseConflict, nil, nil, nil},
		"a number far ahead spends":        {4, 1, 0, &Record{Held: tokens(1, 9), Done: 1}, rulingWrite, "", tokens(0, 0), tokens(1, 0), tokens(1, 9)},
		"a busy operation":                 {2, 2, -1, &Record{Held: tokens(1, 9), Done: 1, Pending: waiting(-999, true)}, rulingWait, "", nil, nil, nil},
		"an abandoned one is resumed, without its credits": {
			2, 2, -1, &Record{Held: tokens(1, 9), Done: 1, Pending: waiting(-1000, true)}, rulingWrite, "", tokens(0, 0), tokens(2, 0), tokens(1, 9),
		},
		"an idle one is resumed": {
			2, 2, -1, &Record{Held: tokens(1, 9), Done: 1, Pending: waiting(0, false)}, rulingWrite, "", tokens(0, 0), tokens(2, 0), tokens(1, 9),
		},
		"an idle one is superseded": {
			2, 0, -3, &Record{Held: tokens(1, 9), Done: 1, Pending: &pending{Hash: "other", Left: tokens(2, 0)}}, rulingWrite, "", tokens(0, 3), tokens(0, 0), tokens(1, 6),
		},
		"a release gives all":              {1, 0, 0, nil, rulingWrite, "", tokens(1, 500), tokens(0, 0), tokens(0, 0)},
		"a release by an older token":      {1, 0, 0, &Record{Held: tokens(1, 9), Done: 7}, rulingWrite, "", tokens(1, 9), tokens(0, 0), tokens(0, 0)},
		"a release waits":                  {2, 0, 0, &Record{Held: tokens(1, 9), Done: 1, Pending: waiting(-999, true)}, rulingWait, "", nil, nil, nil},
		"a release of what was abandoned":  {2, 0, 0, &Record{Held: tokens(1, 9), Done: 1, Pending: waiting(-1000, true)}, rulingWrite, "", tokens(1, 9), tokens(0, 0), tokens(0, 0)},
		"a repeated release":               {2, 0, 0, &Record{Held: tokens(0, 0), Done: 1, Closed: true}, rulingDone, "", nil, nil, nil},
		"a release of a lost Record":       {2, 0, 0, nil, rulingWrite, "", tokens(0, 0), tokens(0, 0), tokens(0, 0)},
		"a release after a debit that won": {2, 0, 0, &Record{Held: tokens(0, 4), Done: 1, Closed: true}, rulingWrite, "", tokens(0, 4), tokens(0, 0), tokens(0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLease()
			op := Operation{release: c.rpm == 0 && c.tpm == 0, number: c.number, hash: "mine", deltas: deltasOf(c.rpm, c.tpm)}
			got := decide(l, op, c.stored, testNow, lifetime)
			require.Equal(t, c.want, got.ruling)
			switch got.ruling {
			case rulingRefuse:
				require.Equal(t, c.code, got.refusal.Code)
			case rulingWrite:
				require.Equal(t, c.credits, got.credits)
				require.Equal(t, c.debs, got.debits)
				require.Equal(t, c.held, got.record.Held)
				if c.debs.isZero() {
					require.Nil(t, got.record.Pending)
				} else {
					require.Equal(t, &pending{Hash: "mine", Left: c.debs, At: testNow, Busy: true}, got.record.Pending)
				}
				require.Equal(t, op.release, got.record.Closed)
			case rulingDone, rulingWait:
			}
		})
	}
}

// The end of an operation holds what was written, and leaves what was not.
func TestTheEndOfAnOperation(t *testing.T) {
	begun := &Record{Held: tokenTable{{1, 400}}, Done: 1, Hash: "before", Pending: &pending{Hash: "mine", Left: tokenTable{{2, 3}}, At: testNow, Busy: true}}
	op := Operation{number: 2, hash: "mine"}
	done := begun.end(op, tokenTable{{2, 3}}, tokenTable{{0, 0}})
	require.Equal(t, Record{Held: tokenTable{{3, 403}}, Done: 2, Hash: "mine"}, done)
	part := begun.end(op, tokenTable{{2, 0}}, tokenTable{{0, 3}})
	require.Equal(t, Record{
		Held: tokenTable{{3, 400}}, Done: 1, Hash: "before",
		Pending: &pending{Hash: "mine", Left: tokenTable{{0, 3}}, At: testNow},
	}, part)
	require.Equal(t, tokenTable{{1, 400}}, begun.Held, "the Record before is as it was")
	most := begun.end(op, tokenTable{{0, maxHeld}}, tokenTable{{0, 0}})
	require.EqualValues(t, maxHeld, most.Held[0][1])
}

// A debit of a multi-shard spend goes to its first shard, a credit to where its tokens
// came from; each bucket of a cascade takes its own part.
func TestDeltasAreDistributed(t *testing.T) {
	l := &Lease{Levels: []Level{
		{Entity: "child", Shard: 0, Held: []Held{{Limit: "tpm"}}},
		{Entity: "child", Shard: 1, Held: []Held{{Limit: "tpm"}}},
		{Entity: "parent", Held: []Held{{Limit: "rpm"}, {Limit: "tpm"}}},
	}}
	held := tokenTable{{30}, {70}, {5, 60}}
	credits, debits, refusal := distribute(l, held, deltasOf(2, -80))
	require.Nil(t, refusal)
	require.Equal(t, tokenTable{{30}, {50}, {0, 60}}, credits, "a bucket that holds less gives back what it holds")
	require.Equal(t, tokenTable{{0}, {0}, {2, 0}}, debits)
	_, debits, refusal = distribute(l, held, deltasOf(0, 9))
	require.Nil(t, refusal)
	require.Equal(t, tokenTable{{9}, {0}, {0, 9}}, debits)
	_, _, refusal = distribute(l, held, deltasOf(0, -101))
	require.Equal(t, api.CodeExceedsLease, refusal.Code)
	require.Equal(t, "deltas.tpm", refusal.Field)
	require.Equal(t, api.CodeUnknownLimit, unknownTo(l, api.Amounts{{Name: "daily", Tokens: 1}}).Code)
	require.Nil(t, unknownTo(l, deltasOf(1, 1)))
}
