package audit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

func TestAChangeCarriesItsEvent(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.log.Apply(t.Context(), f.rename("alice", "Alice")))
	require.NoError(t, f.log.Apply(t.Context(), f.rename("alice", "Al")))
	require.Equal(t, "Al", f.name("alice"))
	stored := f.requireEvents(2)
	first, second := stored[0], stored[1]
	require.Equal(t, api.AuditEntityUpdate, first.Action)
	require.Equal(t, api.Principal{User: "ops", Account: "A", Verified: true}, first.By)
	require.Equal(t, "alice", first.Key.ID)
	require.Empty(t, first.Before)
	require.JSONEq(t, `{"name":"Alice"}`, first.After)
	require.Empty(t, first.Previous)
	require.JSONEq(t, `{"name":"Alice"}`, second.Before)
	require.Equal(t, first.MAC, second.Previous)
	now, _ := f.Now()
	require.Equal(t, now.UnixMilli(), first.Key.AtMs)
	require.Equal(t, now.Unix()+90*86400, first.TTL)
}

// Every step of a change may fail in every way; in the end the change and its
// event are there together, once, or neither is and the error says so.
func TestEveryStepMayFail(t *testing.T) {
	faults := map[string]fault.Fault{
		"failed":             fault.InternalError(),
		"failed but applied": fault.InternalErrorAfter(),
		"reply lost":         {Kind: fault.ReplyLost},
		"unreachable":        {Kind: fault.Unreachable},
		"throttled":          fault.Throttling(),
		"throughput":         fault.ThroughputExceeded(),
		"conflict":           fault.TransactionCanceled("TransactionConflict", "None", "None"),
		"throttled in part":  fault.TransactionCanceled("None", "ThrottlingError", "None"),
	}
	for name, failure := range faults {
		for _, operation := range []string{"BatchGetItem", "Query", "PutItem", "TransactWriteItems"} {
			t.Run(operation+" "+name, func(t *testing.T) {
				f := newFixture(t)
				f.Fail(operation, failure)
				err := f.log.Apply(t.Context(), f.rename("alice", "Alice"))
				if operation == "TransactWriteItems" {
					require.NoError(t, err, "an answer that was lost is asked for again")
					require.Equal(t, "Alice", f.name("alice"))
					f.requireEvents(1)
					return
				}
				require.Error(t, err)
				require.NotErrorIs(t, err, ErrOutcomeUnknown)
				require.Empty(t, f.name("alice"))
				f.requireEvents(0)
				require.NoError(t, f.log.Apply(t.Context(), f.rename("alice", "Alice")), "the next one goes through")
				f.requireEvents(1)
			})
		}
	}
}

func TestAPlanThatRefusesWritesNothing(t *testing.T) {
	f := newFixture(t)
	c := f.rename("alice", "Alice")
	c.Plan = func(context.Context) (Plan, error) { return Plan{}, api.Errorf(api.CodeNotFound, "", "no") }
	requireCode(t, api.CodeNotFound, f.log.Apply(t.Context(), c))
	require.Zero(t, f.Calls(""))
}

func TestAClockThatIsNotKnownStopsChanges(t *testing.T) {
	f := newFixture(t)
	skewed := errors.New("the clock is off")
	log := NewLog(f.DB, f.Table, func() (time.Time, error) { return time.Time{}, skewed })
	require.ErrorIs(t, log.Apply(t.Context(), f.rename("alice", "Alice")), skewed)
	require.Empty(t, f.name("alice"))
}

// Nodes whose clocks differ keep the order of times and numbers the same.
func TestTimesNeverRunAgainstTheSequence(t *testing.T) {
	f := newFixture(t)
	now, _ := f.Now()
	behind := NewLog(f.DB, f.Table, func() (time.Time, error) { return now.Add(-time.Second), nil })
	f.do("alice", "Alice")
	require.NoError(t, behind.Apply(t.Context(), f.rename("alice", "Al")))
	stored := f.requireEvents(2)
	require.Equal(t, stored[0].Key.AtMs, stored[1].Key.AtMs)
}

// All of 64 changes at once, on one node and on four, of one entity and of many,
// go through within the time a request has; not one number is left out.
func TestConcurrentChangesAllSucceed(t *testing.T) {
	for _, nodes := range []int{1, 4} {
		for _, entities := range []int{1, 64} {
			t.Run(fmt.Sprintf("%d nodes %d entities", nodes, entities), func(t *testing.T) {
				f := newFixture(t)
				logs := make([]*Log, nodes)
				for i := range logs {
					logs[i] = NewLog(f.DB, f.Table, f.Now)
				}
				ctx, cancel := context.WithTimeout(t.Context(), api.MaxTimeout)
				defer cancel()
				var all sync.WaitGroup
				for i := range 64 {
					all.Go(func() {
						if err := logs[i%nodes].Apply(ctx, f.rename(fmt.Sprintf("e%d", i%entities), "x")); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				f.requireEvents(64)
				for _, l := range logs {
					require.Empty(t, l.turns.open, "nothing is remembered of a namespace that rests")
				}
			})
		}
	}
}

// A head that moved costs a new number; a plan that is outdated is made anew.
func TestOthersInTheWay(t *testing.T) {
	f := newFixture(t)
	f.do("alice", "Alice")
	f.Before("TransactWriteItems", func() { f.do("bob", "Bob") })
	require.NoError(t, f.log.Apply(t.Context(), f.rename("alice", "Al")))
	f.Before("TransactWriteItems", func() { f.do("alice", "theirs") })
	require.NoError(t, f.log.Apply(t.Context(), f.rename("alice", "mine")))
	require.Equal(t, "mine", f.name("alice"))
	stored := f.requireEvents(5)
	require.JSONEq(t, `{"name":"theirs"}`, stored[4].Before, "the event tells what was there in truth")
}

func TestOthersThatNeverStopAreAConflict(t *testing.T) {
	f := newFixture(t)
	var interfere func()
	interfere = func() {
		f.do("alice", "theirs")
		f.Before("TransactWriteItems", interfere)
	}
	f.Before("TransactWriteItems", interfere)
	requireCode(t, api.CodeConflict, f.log.Apply(t.Context(), f.rename("alice", "mine")))
	require.Equal(t, "theirs", f.name("alice"))
}

func TestAnOutageLeavesTheOutcomeUnknown(t *testing.T) {
	for name, first := range map[string]fault.Fault{
		"applied":     {Kind: fault.ReplyLost},
		"not applied": fault.InternalError(),
		"never sent":  {Kind: fault.Unreachable},
		"no answer":   {Kind: fault.ReplyHangs},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.do("alice", "Alice")
			f.Fail("TransactWriteItems", first)
			f.Fail("TransactWriteItems", slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, 100)...)
			ctx := f.EndAt(t.Context(), "TransactWriteItems", 3, 0)
			if first.Kind == fault.ReplyHangs {
				ctx = f.EndAt(t.Context(), "TransactWriteItems", 1, 300*time.Millisecond)
			}
			if first.Kind == fault.Unreachable { // an attempt that the context ends may have been sent
				ctx = t.Context()
			}
			err := f.log.Apply(ctx, f.rename("alice", "Al"))
			require.Error(t, err)
			require.Equal(t, first.Kind != fault.Unreachable, errors.Is(err, ErrOutcomeUnknown), "no attempt reached the store: nothing was changed")
			want, events := "Al", 2
			if first.Kind == fault.Unreachable || first.Kind == fault.Refused {
				want, events = "Alice", 1
			}
			require.Equal(t, want, f.name("alice"))
			f.requireEvents(events)
			f.do("alice", "next")
			f.requireEvents(events + 1)
		})
	}
}

// A transaction that arrives after its caller has gone on must not be applied
// beside the one that took its place.
func TestALateTransactionIsRefused(t *testing.T) {
	f := newFixture(t)
	f.do("alice", "Alice")
	f.Fail("TransactWriteItems", fault.Fault{Kind: fault.Late, Delay: 20 * time.Millisecond})
	require.NoError(t, f.log.Apply(t.Context(), f.rename("alice", "Al")), "the repeat was first, or the same")
	f.do("alice", "next")
	require.Equal(t, "next", f.name("alice"))
	f.requireEvents(3)
}

func TestARefusalForGoodIsNotRepeated(t *testing.T) {
	for name, refused := range map[string]fault.Fault{
		"denied": {Kind: fault.Refused, Refusal: fault.Refusal{
			Status: http.StatusBadRequest, Type: "com.amazon.coral.service#AccessDeniedException", Message: "not authorized",
		}},
		"invalid": fault.TransactionCanceled("ValidationError", "None", "None"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Fail("TransactWriteItems", refused)
			err := f.log.Apply(t.Context(), f.rename("alice", "Alice"))
			require.Error(t, err)
			require.NotErrorIs(t, err, ErrOutcomeUnknown)
			require.Equal(t, 1, f.Calls("TransactWriteItems"))
		})
	}
}

func TestWaitingForALaneEndsWithTheCaller(t *testing.T) {
	f := newFixture(t)
	held, err := f.log.turns.enter(t.Context(), ns)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.log.Apply(ctx, f.rename("alice", "Alice")), context.Canceled)
	f.log.turns.leave(ns, held)
	require.NoError(t, f.log.Apply(t.Context(), f.rename("alice", "Alice")))
	require.Empty(t, f.log.turns.open)
}

func TestRetentionIsTheSystems(t *testing.T) {
	f := newFixture(t)
	config := &table.SetConfig{Key: keys.SystemConfig{Namespace: ns}, OnUnavailable: api.PolicyAllow, Nonce: "N"}
	require.NoError(t, f.other.Apply(t.Context(), Change{
		Namespace: ns, Action: api.AuditLimitsSet, Target: keys.AuditSystem,
		Plan: func(context.Context) (Plan, error) {
			p := Plan{}
			p.Writes = append(p.Writes, config.Write(f.Table))
			return p, nil
		},
	}))
	f.attribute(keys.SystemConfig{Namespace: ns}, "retention_days", number(7))
	f.do("alice", "Alice")
	stored := f.requireEvents(2)
	require.Equal(t, stored[1].Key.AtMs/1000+7*86400, stored[1].TTL)
}

// Two nodes that make the first key at once make two; what either seals, both
// can check.
func TestKeysOfOtherNodesAreFound(t *testing.T) {
	f := newFixture(t)
	f.Before("PutItem", func() { f.do("alice", "Alice") })
	require.NoError(t, f.log.Apply(t.Context(), f.rename("alice", "Al")))
	stored := f.requireEvents(2)
	require.NoError(t, f.log.verify(t.Context(), stored...))
	require.NoError(t, NewLog(f.DB, f.Table, f.Now).verify(t.Context(), stored...))
}
