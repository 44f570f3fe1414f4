package admission

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// record is the truth about a lease that was settled at least once. It decides what
// the lease may still give back; the token only names the next operation.
//
// Invariant: a lease never holds more than the table has drawn for it. A credit
// leaves Held before it is written to the table, a debit enters Held after it was.
// So a crash between the two leaves tokens spent.
type record struct {
	_       struct{}   `cbor:",toarray"`
	Held    tokenTable // whole tokens that the lease may give back
	Done    uint32     // number of the last operation that is done; 0 for none
	Hash    string     // of that operation; empty when its record was lost
	Closed  bool       // released: no adjust may follow
	Pending *pending   // an operation whose debits are not all written; nil for none
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

// maxHeld bounds the tokens a lease holds of one limit, far above what a bucket
// can have drawn (2^40 tokens of capacity and as much debt), so that they fit int64
// as millitokens. To hold less than was drawn is always safe.
const maxHeld = 1 << 42

// newTokenTable returns a table of zeros for the levels of a lease.
func newTokenTable(l *lease) tokenTable {
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
func (t tokenTable) fits(l *lease) bool {
	return slices.EqualFunc(t, l.Levels, func(row []int64, level leaseLevel) bool { return len(row) == len(level.Held) })
}

// fits reports whether the record is one of the lease.
func (r *record) fits(l *lease) bool {
	return r.Held.fits(l) && (r.Pending == nil || r.Pending.Left.fits(l))
}

// amounts returns what the table holds for one level, by name of the limit.
func (t tokenTable) amounts(l *lease, level int) (amounts api.Amounts) {
	for n, tokens := range t[level] {
		if tokens != 0 {
			amounts = append(amounts, api.Amount{Name: l.Levels[level].Held[n].Limit, Tokens: tokens})
		}
	}
	return amounts
}

// settling is an operation on a lease: an adjust by deltas, or the release.
type settling struct {
	release bool
	number  uint32 // that the token gives the operation
	hash    string
	deltas  api.Amounts // of an adjust: positive to spend, negative to give back
}

// gives reports whether the operation may give tokens back.
func (op settling) gives() bool { return op.release || credits(op.deltas) }

// credits reports whether amounts give anything back.
func credits(amounts api.Amounts) bool {
	return slices.ContainsFunc(amounts, func(a api.Amount) bool { return a.Tokens < 0 })
}

// settlementHash is equal for the same operation on a lease only.
func settlementHash(verb api.Verb, deltas api.Amounts) string {
	parts := []string{string(verb)}
	for _, d := range deltas {
		parts = append(parts, d.Name+"="+strconv.FormatInt(d.Tokens, 10))
	}
	slices.Sort(parts[1:])
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// ruling is what a record says of an operation.
type ruling uint8

const (
	rulingDone   ruling = iota // done before: answer it again
	rulingWait                 // another node, or another request, is at the lease
	rulingRefuse               // see step.refusal
	rulingWrite                // store step.record, then give step.credits and write step.debits
)

// step is what an operation has to do next.
type step struct {
	ruling  ruling
	refusal *api.Error
	record  record
	credits tokenTable // final once the record is stored
	debits  tokenTable // to be written after the record is stored
}

// decide returns what op does to a lease whose record is stored; nil stands for no
// record. A pending operation whose owner began longer ago than lifetime counts as
// abandoned: its owner begins no write after that.
func decide(l *lease, op settling, stored *record, now bucket.Instant, lifetime time.Duration) step {
	r := unsettled(l, op)
	if stored != nil {
		r = *stored
	}
	busy := r.Pending != nil && r.Pending.Busy && int64(now-r.Pending.At) < lifetime.Milliseconds()
	if op.release {
		return decideRelease(l, r, busy)
	}
	switch {
	case r.Done > 0 && op.number == r.Done && op.hash == r.Hash:
		return step{ruling: rulingDone}
	case op.number <= r.Done, r.Closed:
		return refuse(conflict("the lease was settled in another way already: use the token that the adjust returned"))
	case op.number > r.Done+1:
		// The signed token proves that the operation before this one was done.
		before := r.Pending
		r.Done, r.Hash, r.Pending, busy = op.number-1, "", nil, false
		switch {
		case before != nil && op.number == stored.Done+2:
			r.Hash = before.Hash
		case op.gives():
			return refuse(conflict("earlier settlements of the lease are forgotten: nothing can be given back"))
		}
	}
	if busy {
		return step{ruling: rulingWait}
	}
	return begin(l, op, r, now)
}

// unsettled returns the record of a lease that has none. Only its first operation
// may give back what the acquire spent: later ones prove that a record was lost.
func unsettled(l *lease, op settling) record {
	r := record{Held: newTokenTable(l)}
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

// decideRelease gives back all that the lease holds, whatever the number of the
// operation. Debits that were abandoned before they were written stay unwritten.
func decideRelease(l *lease, r record, busy bool) step {
	switch {
	case busy:
		return step{ruling: rulingWait}
	case r.Closed && r.Held.isZero():
		return step{ruling: rulingDone}
	}
	s := step{ruling: rulingWrite, credits: r.Held, debits: newTokenTable(l), record: r}
	s.record.Held, s.record.Closed, s.record.Pending = newTokenTable(l), true, nil
	return s
}

// begin starts an adjust, or resumes the debits that are left of it. What it gives
// back was given back when it began first.
func begin(l *lease, op settling, r record, now bucket.Instant) step {
	s := step{ruling: rulingWrite, record: r, credits: newTokenTable(l)}
	if r.Pending != nil && r.Pending.Hash == op.hash {
		s.debits = r.Pending.Left
	} else {
		var refusal *api.Error
		if s.credits, s.debits, refusal = distribute(l, r.Held, op.deltas); refusal != nil {
			return refuse(refusal)
		}
	}
	s.record.Held = r.Held.minus(s.credits)
	if s.debits.isZero() {
		s.record.Done, s.record.Hash, s.record.Pending = op.number, op.hash, nil
	} else {
		s.record.Pending = &pending{Hash: op.hash, Left: s.debits, At: now, Busy: true}
	}
	return s
}

// end returns the record after the debits of an operation: written were applied,
// left were not.
func (r *record) end(op settling, written, left tokenTable) record {
	after := *r
	after.Held = r.Held.plus(written)
	if left.isZero() {
		after.Done, after.Hash, after.Pending = op.number, op.hash, nil
	} else {
		after.Pending = &pending{Hash: op.hash, Left: left, At: r.Pending.At}
	}
	return after
}

// unknownTo refuses deltas of a limit that no level of the lease knows.
func unknownTo(l *lease, deltas api.Amounts) *api.Error {
	for _, d := range deltas {
		if !slices.ContainsFunc(l.Levels, func(level leaseLevel) bool { return level.index(d.Name) >= 0 }) {
			return api.Errorf(api.CodeUnknownLimit, "deltas."+d.Name, "the lease has no limit %q", d.Name)
		}
	}
	return nil
}

// distribute returns the part of deltas that each level takes, among the levels that
// know the limit. If an acquire spent from several shards of a bucket, its first shard
// takes the debits, and each shard the credits that it holds. A credit must be held by
// one bucket at least; a bucket that holds less gives back what it holds.
func distribute(l *lease, held tokenTable, deltas api.Amounts) (credits, debits tokenTable, refusal *api.Error) {
	credits, debits = newTokenTable(l), newTokenTable(l)
	for _, d := range deltas {
		most := int64(0)
		for from, to := range l.buckets() {
			sum := int64(0)
			for i := from; i < to; i++ {
				n := l.Levels[i].index(d.Name)
				if n < 0 {
					break
				}
				if d.Tokens > 0 {
					debits[i][n] = d.Tokens
					break
				}
				credits[i][n] = min(held[i][n], -d.Tokens-sum)
				sum += credits[i][n]
			}
			most = max(most, sum)
		}
		if d.Tokens < 0 && most < -d.Tokens {
			return nil, nil, api.Errorf(api.CodeExceedsLease, "deltas."+d.Name,
				"the lease holds %d tokens of %q and cannot give back %d", most, d.Name, -d.Tokens)
		}
	}
	return credits, debits, nil
}

func refuse(e *api.Error) step { return step{ruling: rulingRefuse, refusal: e} }

func conflict(message string) *api.Error {
	return api.Errorf(api.CodeLeaseConflict, "lease", "%s", message)
}
