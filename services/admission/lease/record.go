package lease

import (
	"slices"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Record is the truth about a lease that was settled at least once. It decides how much
// the lease may still give back; the token only names the next operation.
//
// Invariant: a lease never holds more than the table has drawn for it. A credit
// leaves Held before it is written to the table, a debit enters Held after it was.
// So a crash between the two leaves tokens spent.
type Record struct {
	_       struct{}   `cbor:",toarray"`
	Held    tokenTable // whole tokens that the lease may give back
	Done    uint32     // number of the last operation that is done; 0: no operation
	Hash    string     // of that operation; empty when its record was lost
	Closed  bool       // released: no adjust may follow
	Pending *pending   // an operation whose debits are not all written; nil: no such operation
	Nonce   string     // of the write that stored it
}

// pending is an operation that has begun and is not done.
type pending struct {
	_    struct{} `cbor:",toarray"`
	Hash string
	Left tokenTable     // debits that are not known to be written
	At   bucket.Instant // when its owner began
	Busy bool           // its owner may still write
}

// tokenTable holds whole tokens by level of a lease and limit of the level, in the
// order of the lease's token.
type tokenTable [][]int64

// maxHeld bounds the tokens that a lease holds of a limit, far above what a bucket
// can have drawn (2^40 tokens of capacity and as much debt), so that they fit int64
// as millitokens. To hold less than was drawn is always safe.
const maxHeld = 1 << 42

// newTokenTable returns a table of zeros for the levels of a lease.
func newTokenTable(l *Lease) tokenTable {
	t := make(tokenTable, len(l.Levels))
	for i := range l.Levels {
		t[i] = make([]int64, len(l.Levels[i].Held))
	}
	return t
}

func (t tokenTable) clone() tokenTable {
	c := make(tokenTable, len(t))
	for i := range t {
		c[i] = slices.Clone(t[i])
	}
	return c
}

func (t tokenTable) isZero() bool {
	for _, level := range t {
		for _, tokens := range level {
			if tokens != 0 {
				return false
			}
		}
	}
	return true
}

// plus returns the sum of two tables, at most maxHeld each.
func (t tokenTable) plus(more tokenTable) tokenTable {
	sum := t.clone()
	for i := range more {
		for n := range more[i] {
			sum[i][n] = min(sum[i][n]+more[i][n], maxHeld)
		}
	}
	return sum
}

// minus returns the difference of two tables.
func (t tokenTable) minus(less tokenTable) tokenTable {
	difference := t.clone()
	for i := range less {
		for n := range less[i] {
			difference[i][n] -= less[i][n]
		}
	}
	return difference
}

// fits reports whether the table has the shape of the lease.
func (t tokenTable) fits(l *Lease) bool {
	return slices.EqualFunc(t, l.Levels, func(row []int64, level Level) bool { return len(row) == len(level.Held) })
}

// fits reports whether the record has the shape of the lease.
func (r *Record) fits(l *Lease) bool {
	return r.Held.fits(l) && (r.Pending == nil || r.Pending.Left.fits(l))
}

// amounts returns the amounts of a level, by name of the limit, without zeros.
func (t tokenTable) amounts(l *Lease, level int) (amounts api.Amounts) {
	for n, tokens := range t[level] {
		if tokens != 0 {
			amounts = append(amounts, api.Amount{Name: l.Levels[level].Held[n].Limit, Tokens: tokens})
		}
	}
	return amounts
}

// unsettled returns the record of a lease without a stored record. Only its first operation
// may give back what the acquire spent: later ones prove that a record was lost.
func unsettled(l *Lease, op Operation) Record {
	r := Record{Held: newTokenTable(l)}
	if op.number > 1 {
		r.Done = op.number - 1
		return r
	}
	for i := range l.Levels {
		for n, h := range l.Levels[i].Held {
			r.Held[i][n] = h.Tokens
		}
	}
	return r
}

// end returns the record after the debits of an operation: written were applied,
// left were not.
func (r *Record) end(op Operation, written, left tokenTable) Record {
	after := *r
	after.Held = r.Held.plus(written)
	if left.isZero() {
		after.Done, after.Hash, after.Pending = op.number, op.hash, nil
	} else {
		after.Pending = &pending{Hash: op.hash, Left: left, At: r.Pending.At}
	}
	return after
}
