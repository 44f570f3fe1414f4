package deploy_test

import (
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// linearOp is the kind of an operation on a bucket.
type linearOp uint8

const (
	linearAcquire linearOp = iota
	linearDebit            // an adjust that spends more
	linearCredit           // an adjust that gives back, or a release
)

// linearInput is an operation with its tokens.
type linearInput struct {
	op     linearOp
	tokens int
}

// linearOutput is an operation's outcome, as its caller knows it.
type linearOutput uint8

const (
	outcomeDone   linearOutput = iota // admitted, or settled
	outcomeDenied                     // nothing was spent
	// outcomeTwice: done after a node was killed that may have written the debit too.
	outcomeTwice
	// outcomeUnsure: an acquire or a debit that may be applied, never to be answered; or a
	// credit that is final, and whose tokens stay spent if its node was killed.
	outcomeUnsure
)

// denialAge is the age of a state that a node may still deny by.
const denialAge = time.Second

// linearModel is a bucket without refill: its state is the balance, in tokens.
func linearModel(capacity int) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{capacity} },
		Step: func(state, input, output any) (next []any) {
			balance, in := state.(int), input.(linearInput)
			for _, after := range linearSteps(balance, in, output.(linearOutput)) {
				next = append(next, after)
			}
			return next
		},
	}
	return m.ToModel()
}

// linearSteps returns the balances that an operation may leave; none if it cannot have the
// outcome.
func linearSteps(balance int, in linearInput, out linearOutput) []int {
	fits := balance >= in.tokens
	switch in.op {
	case linearAcquire:
		switch {
		case out == outcomeDenied && !fits:
			return []int{balance}
		case out == outcomeDone && fits:
			return []int{balance - in.tokens}
		case out == outcomeUnsure && fits:
			return []int{balance, balance - in.tokens}
		case out == outcomeUnsure:
			return []int{balance}
		}
	case linearDebit:
		switch out {
		case outcomeDone:
			return []int{balance - in.tokens}
		case outcomeTwice:
			return []int{balance - in.tokens, balance - 2*in.tokens}
		case outcomeUnsure:
			return []int{balance, balance - in.tokens, balance - 2*in.tokens}
		case outcomeDenied:
		}
	case linearCredit:
		switch out {
		case outcomeDone:
			return []int{balance + in.tokens}
		case outcomeUnsure:
			return []int{balance, balance + in.tokens}
		case outcomeDenied, outcomeTwice:
		}
	}
	return nil
}

// linearOperation returns an operation of a history. An unsure one may take effect at any
// time after its call, a denial by a state that was there before it.
func linearOperation(client int, in linearInput, out linearOutput, call, returned time.Duration) porcupine.Operation {
	o := porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(call), Return: int64(returned)}
	switch out {
	case outcomeUnsure:
		o.Return = math.MaxInt64
	case outcomeDenied:
		o.Call -= int64(denialAge)
	case outcomeDone, outcomeTwice:
	}
	return o
}

// The checker refuses histories that break a promise, and no others.
func TestTheLinearizabilityCheckerBites(t *testing.T) {
	const s = time.Second
	spend, more, give := linearInput{linearAcquire, 1}, linearInput{linearDebit, 1}, linearInput{linearCredit, 1}
	for _, c := range []struct {
		what    string
		history []porcupine.Operation
		legal   bool
	}{
		{"admitted twice", []porcupine.Operation{linearOperation(0, spend, outcomeDone, 0, s), linearOperation(1, spend, outcomeDone, 0, s)}, false},
		{"denied although there is room", []porcupine.Operation{linearOperation(0, spend, outcomeDenied, 5*s, 6*s), linearOperation(1, spend, outcomeDone, 7*s, 8*s)}, false},
		{"denied while another spends", []porcupine.Operation{linearOperation(0, spend, outcomeDenied, 0, 2*s), linearOperation(1, spend, outcomeDone, s, 3*s)}, true},
		{"denied by a state of a second ago", []porcupine.Operation{
			linearOperation(0, spend, outcomeDone, 0, s), linearOperation(0, give, outcomeDone, 2*s, 3*s), linearOperation(1, spend, outcomeDenied, 3*s+s/2, 4*s),
		}, true},
		{"denied by an older one", []porcupine.Operation{
			linearOperation(0, spend, outcomeDone, 0, s), linearOperation(0, give, outcomeDone, 2*s, 3*s), linearOperation(1, spend, outcomeDenied, 4*s+s/2, 5*s),
		}, false},
		{"an unsure acquire is applied late", []porcupine.Operation{
			linearOperation(0, spend, outcomeUnsure, 0, s), linearOperation(1, spend, outcomeDenied, 5*s, 6*s),
		}, true},
		{"a credit that came twice", []porcupine.Operation{
			linearOperation(0, spend, outcomeDone, 0, s), linearOperation(0, give, outcomeUnsure, 2*s, 3*s),
			linearOperation(1, spend, outcomeDone, 4*s, 5*s), linearOperation(1, spend, outcomeDone, 6*s, 7*s),
		}, false},
		{"a credit that never came", []porcupine.Operation{
			linearOperation(0, spend, outcomeDone, 0, s), linearOperation(0, give, outcomeDone, 2*s, 3*s), linearOperation(1, spend, outcomeDenied, 5*s, 6*s),
		}, false},
		{"a debit counts in full", []porcupine.Operation{
			linearOperation(0, spend, outcomeDone, 0, s), linearOperation(0, more, outcomeDone, 2*s, 3*s),
			linearOperation(0, give, outcomeDone, 4*s, 5*s), linearOperation(1, spend, outcomeDone, 6*s, 7*s),
		}, false},
		{"a debit may count twice", []porcupine.Operation{
			linearOperation(0, more, outcomeTwice, 0, s), linearOperation(0, give, outcomeDone, 2*s, 3*s), linearOperation(1, spend, outcomeDenied, 5*s, 6*s),
		}, true},
	} {
		require.Equal(t, c.legal, porcupine.CheckOperations(linearModel(1), c.history), c.what)
	}
}
