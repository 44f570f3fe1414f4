package lease

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

// Operation is an operation on a lease: an adjust by deltas, or the release.
type Operation struct {
	release bool
	number  uint32 // that the token gives the operation
	hash    string
	deltas  api.Amounts // of an adjust: positive to spend, negative to give back
}

// Adjust returns the operation that settles the difference between the reserved and the
// used amounts.
func Adjust(deltas api.Amounts) Operation {
	return Operation{hash: settlementHash(api.VerbAdjust, deltas), deltas: deltas}
}

// Release returns the operation that gives back all that a lease holds.
func Release() Operation {
	return Operation{release: true, hash: settlementHash(api.VerbRelease, nil)}
}

// gives reports whether the operation may give tokens back.
func (op Operation) gives() bool { return op.release || credits(op.deltas) }

// credits reports whether amounts give anything back.
func credits(amounts api.Amounts) bool {
	return slices.ContainsFunc(amounts, func(a api.Amount) bool { return a.Tokens < 0 })
}

// settlementHash returns a hash that differs between the operations on a lease.
func settlementHash(verb api.Verb, deltas api.Amounts) string {
	parts := []string{string(verb)}
	for _, d := range deltas {
		parts = append(parts, d.Name+"="+strconv.FormatInt(d.Tokens, 10))
	}
	slices.Sort(parts[1:])
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// ruling is the answer of a record to an operation.
type ruling uint8

const (
	rulingDone   ruling = iota // done before: answer it again
	rulingWait                 // another node, or another request, is at the lease
	rulingRefuse               // see step.refusal
	rulingWrite                // store step.record, then give step.credits and write step.debits
)

// step says how an operation goes on.
type step struct {
	ruling  ruling
	refusal *api.Error
	record  Record
	credits tokenTable // final once the record is stored
	debits  tokenTable // to be written after the record is stored
}

// decide returns the next step of op on a lease, given its record; nil stands for no
// record. A pending operation counts as abandoned if it began longer ago than lifetime:
// its owner begins no write after that.
func decide(l *Lease, op Operation, stored *Record, now bucket.Instant, lifetime time.Duration) step {
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
		// The signed token proves that the operation before was done.
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

// decideRelease gives back all that the lease holds, whatever the number of the
// operation. Debits that were abandoned before they were written stay unwritten.
func decideRelease(l *Lease, r Record, busy bool) step {
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

// begin starts an adjust, or resumes the debits that are left of it. A resumed adjust
// gave its credits back when it began first.
func begin(l *Lease, op Operation, r Record, now bucket.Instant) step {
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

// unknownTo refuses deltas of a limit that no level of the lease knows.
func unknownTo(l *Lease, deltas api.Amounts) *api.Error {
	for _, d := range deltas {
		if !slices.ContainsFunc(l.Levels, func(level Level) bool { return level.index(d.Name) >= 0 }) {
			return api.Errorf(api.CodeUnknownLimit, "deltas."+d.Name, "the lease has no limit %q", d.Name)
		}
	}
	return nil
}

// distribute returns the part of deltas that each level takes, among the levels that
// know the limit. If an acquire spent from several shards of a bucket, its first shard
// takes the debits, and each shard the credits that it holds. At least a single bucket
// must hold a credit in full; a bucket that holds less gives back all that it holds.
func distribute(l *Lease, held tokenTable, deltas api.Amounts) (credits, debits tokenTable, refusal *api.Error) {
	credits, debits = newTokenTable(l), newTokenTable(l)
	for _, d := range deltas {
		most := int64(0)
		for from, to := range l.Buckets() {
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
