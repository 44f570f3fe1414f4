package config_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

func target() api.LimitsTarget { return api.LimitsTarget{Entity: "alice", Resource: "gpt-4"} }

func TestSetReplacesAllLimits(t *testing.T) {
	for _, where := range inOrder() {
		f := newLimitFixture(t)
		_, err := f.store.Get(t.Context(), ns, where)
		requireCode(t, api.CodeNotFound, err)

		first, err := f.store.Set(t.Context(), ns, by(), setTo(where, limit("tpm", 5), limit("rpm", 7)))
		require.NoError(t, err)
		require.Equal(t, api.LimitsLevel{LimitsTarget: where, Limits: []api.Limit{limit("rpm", 7), limit("tpm", 5)}, Version: 1}, first)
		require.Equal(t, first, f.get(where))

		second, err := f.store.Set(t.Context(), ns, by(), setTo(where, limit("tpm", 6), limit("ttl", 1)))
		require.NoError(t, err)
		require.Equal(t, api.LimitsLevel{LimitsTarget: where, Limits: []api.Limit{limit("tpm", 6), limit("ttl", 1)}, Version: 2}, second)
		require.Equal(t, second, f.get(where))
	}
}

func TestSetKeepsWhatItDoesNotGive(t *testing.T) {
	f := newLimitFixture(t)
	req := setTo(target(), limit("rpm", 7))
	req.OnUnavailable = api.PolicyAllow
	_, err := f.store.Set(t.Context(), ns, by(), req)
	require.NoError(t, err)
	key := keys.EntityConfig{Namespace: ns, Entity: "alice", Resource: "gpt-4"}
	f.attribute(key, "audit_days", text("30"))

	kept, err := f.store.Set(t.Context(), ns, by(), setTo(target(), limit("rpm", 8)))
	require.NoError(t, err)
	require.Equal(t, api.PolicyAllow, kept.OnUnavailable)

	req.OnUnavailable = api.PolicyBlock
	changed, err := f.store.Set(t.Context(), ns, by(), req)
	require.NoError(t, err)
	require.Equal(t, api.PolicyBlock, changed.OnUnavailable)
	require.Equal(t, text("30"), f.item(key)["audit_days"])
}

func TestDelete(t *testing.T) {
	f := newLimitFixture(t)
	requireCode(t, api.CodeNotFound, f.store.Delete(t.Context(), ns, by(), deleting(target())))

	f.set(target(), limit("rpm", 7))
	require.NoError(t, f.store.Delete(t.Context(), ns, by(), deleting(target())))
	key := keys.EntityConfig{Namespace: ns, Entity: "alice", Resource: "gpt-4"}
	require.Empty(t, f.item(key), "nothing is left of a level that held limits alone")
	requireCode(t, api.CodeNotFound, f.store.Delete(t.Context(), ns, by(), deleting(target())))

	f.set(target(), limit("rpm", 7))
	f.attribute(key, "audit_days", text("30"))
	require.NoError(t, f.store.Delete(t.Context(), ns, by(), deleting(target())))
	require.Equal(t, text("30"), f.item(key)["audit_days"], "settings of later releases stay")

	f.setPolicy(api.LimitsTarget{System: true}, api.PolicyAllow)
	left := f.get(api.LimitsTarget{System: true})
	require.Equal(t, api.PolicyAllow, left.OnUnavailable, "so does the policy")
	require.Empty(t, left.Limits)
	require.NotNil(t, left.Limits, "an array on the wire")
	requireCode(t, api.CodeNotFound, f.store.Delete(t.Context(), ns, by(), deleting(api.LimitsTarget{System: true})))
}

func TestBadLevelsAreRefusedBeforeAnyIO(t *testing.T) {
	many := make([]api.Limit, 17)
	for i := range many {
		many[i] = limit(fmt.Sprintf("l%d", i), 1)
	}
	with := func(change func(*api.Limit)) []api.Limit {
		l := limit("rpm", 100)
		change(&l)
		return []api.Limit{limit("tpm", 1), l}
	}
	for name, c := range map[string]struct {
		target api.LimitsTarget
		limits []api.Limit
		policy api.Policy
		code   api.Code
		field  string
	}{
		"no level":        {api.LimitsTarget{}, many[:1], "", api.CodeMissingField, ""},
		"two levels":      {api.LimitsTarget{System: true, Entity: "alice"}, many[:1], "", api.CodeUnknownField, "system"},
		"bad entity":      {api.LimitsTarget{Entity: "a\tb"}, many[:1], "", api.CodeInvalidEntity, "entity"},
		"bad resource":    {api.LimitsTarget{Resource: "_default_"}, many[:1], "", api.CodeInvalidResource, "resource"},
		"no limits":       {target(), nil, "", api.CodeMissingField, "limits"},
		"too many":        {target(), many, "", api.CodeTooManyLimits, "limits"},
		"named twice":     {target(), []api.Limit{limit("rpm", 1), limit("rpm", 2)}, "", api.CodeInvalidLimit, "limits.rpm"},
		"reserved":        {target(), []api.Limit{limit("wcu", 1)}, "", api.CodeInvalidLimitName, "limits.name"},
		"bad name":        {target(), []api.Limit{limit("a/b", 1)}, "", api.CodeInvalidLimitName, "limits.name"},
		"capacity 0":      {target(), with(func(l *api.Limit) { l.Capacity = 0 }), "", api.CodeInvalidLimit, "limits.rpm.capacity"},
		"capacity 2^40+1": {target(), with(func(l *api.Limit) { l.Capacity = 1<<40 + 1 }), "", api.CodeInvalidLimit, "limits.rpm.capacity"},
		"amount overflow": {target(), with(func(l *api.Limit) { l.RefillAmount = 1 << 62 }), "", api.CodeInvalidLimit, "limits.rpm.refill_amount"},
		"too fast":        {target(), with(func(l *api.Limit) { l.RefillAmount = 60*2_000_000 + 1 }), "", api.CodeInvalidLimit, "limits.rpm.refill_amount"},
		"period -1":       {target(), with(func(l *api.Limit) { l.RefillPeriodSeconds = -1 }), "", api.CodeInvalidLimit, "limits.rpm.refill_period_seconds"},
		"bad policy":      {target(), many[:1], "maybe", api.CodeInvalidPolicy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLimitFixture(t)
			_, err := f.store.Set(t.Context(), ns, by(), api.LimitsSetRequest{LimitsTarget: c.target, Limits: c.limits, OnUnavailable: c.policy})
			refusal := requireCode(t, c.code, err)
			require.Equal(t, c.field, refusal.Field)
			require.Zero(t, f.Calls(""))
		})
	}
	f := newLimitFixture(t)
	_, err := f.store.Get(t.Context(), ns, api.LimitsTarget{})
	requireCode(t, api.CodeMissingField, err)
	requireCode(t, api.CodeMissingField, f.store.Delete(t.Context(), ns, by(), deleting(api.LimitsTarget{})))
	require.Zero(t, f.Calls(""))
}

func TestRacingSetsLoseNothing(t *testing.T) {
	f := newLimitFixture(t)
	const writers = 4
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			_, err := f.store.Set(t.Context(), ns, by(), setTo(target(), limit(fmt.Sprintf("only-%d", i), 1)))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	level := f.get(target())
	require.EqualValues(t, writers, level.Version)
	require.Len(t, level.Limits, 1, "a level is one writer's as a whole")
}

// A level that is deleted and made anew between a read and a write has the same
// version again, and other limits: the write must notice.
func TestALevelMadeAnewIsNotTakenForTheOldOne(t *testing.T) {
	f := newLimitFixture(t)
	f.set(target(), limit("old", 1))
	f.Before("TransactWriteItems", func() {
		require.NoError(t, f.other.Delete(t.Context(), ns, by(), deleting(target())))
		require.EqualValues(t, 1, f.set(target(), limit("new", 1)).Version)
	})
	level, err := f.store.Set(t.Context(), ns, by(), setTo(target(), limit("mine", 1)))
	require.NoError(t, err)
	require.Equal(t, []api.Limit{limit("mine", 1)}, level.Limits)
	require.Equal(t, level, f.get(target()))
}

// outcomes are the ways in which the first write can fail, and whether the
// store has it all the same.
func outcomes() map[string]fault.Fault {
	return map[string]fault.Fault{
		"failed":                 fault.InternalError(),
		"failed but applied":     fault.InternalErrorAfter(),
		"reply lost":             {Kind: fault.ReplyLost},
		"unreachable":            {Kind: fault.Unreachable},
		"throttled":              fault.Throttling(),
		"throughput":             fault.ThroughputExceeded(),
		"in another transaction": fault.TransactionCanceled("TransactionConflict", "None", "None"),
		"throttled in part":      fault.TransactionCanceled("None", "ThrottlingError", "None"),
	}
}

func TestSetFindsOutWhatBecameOfIt(t *testing.T) {
	for name, first := range outcomes() {
		for _, there := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, there before: %v", name, there), func(t *testing.T) {
				f := newLimitFixture(t)
				want := int64(1)
				if there {
					f.set(target(), limit("old", 1))
					want = 2
				}
				f.Fail("TransactWriteItems", first)
				level, err := f.store.Set(t.Context(), ns, by(), setTo(target(), limit("rpm", 7)))
				require.NoError(t, err)
				require.Equal(t, want, level.Version, "applied exactly once")
				require.Equal(t, level, f.get(target()))
			})
		}
	}
}

func TestDeleteFindsOutWhatBecameOfIt(t *testing.T) {
	for name, first := range outcomes() {
		t.Run(name, func(t *testing.T) {
			f := newLimitFixture(t)
			f.set(target(), limit("old", 1))
			f.Fail("TransactWriteItems", first)
			require.NoError(t, f.store.Delete(t.Context(), ns, by(), deleting(target())))
			_, err := f.other.Get(t.Context(), ns, target())
			requireCode(t, api.CodeNotFound, err)
		})
		t.Run(name+", with a policy", func(t *testing.T) {
			f := newLimitFixture(t)
			_, err := f.other.Set(t.Context(), ns, by(), api.LimitsSetRequest{LimitsTarget: target(), Limits: []api.Limit{limit("old", 1)}, OnUnavailable: api.PolicyAllow})
			require.NoError(t, err)
			f.Fail("TransactWriteItems", first)
			require.NoError(t, f.store.Delete(t.Context(), ns, by(), deleting(target())))
			left := f.get(target())
			require.Empty(t, left.Limits)
			require.EqualValues(t, 2, left.Version)
		})
	}
}

// Lost, and overwritten by another before it is asked for again: it was applied,
// once, and not over the other's.
func TestAnotherWriterAfterALostReplyWins(t *testing.T) {
	f := newLimitFixture(t)
	f.Fail("TransactWriteItems", fault.Fault{Kind: fault.ReplyLost})
	f.Before("TransactWriteItems", func() {
		f.Before("TransactWriteItems", func() { f.set(target(), limit("theirs", 2)) })
	})
	mine, err := f.store.Set(t.Context(), ns, by(), setTo(target(), limit("mine", 1)))
	require.NoError(t, err)
	require.EqualValues(t, 1, mine.Version)
	require.Equal(t, []api.Limit{limit("theirs", 2)}, f.get(target()).Limits)
	require.EqualValues(t, 2, f.get(target()).Version)
}

// Two delete the same: one did it, the other found nothing.
func TestALevelIsDeletedOnce(t *testing.T) {
	f := newLimitFixture(t)
	f.set(target(), limit("old", 1))
	f.Before("TransactWriteItems", func() { require.NoError(t, f.other.Delete(t.Context(), ns, by(), deleting(target()))) })
	requireCode(t, api.CodeNotFound, f.store.Delete(t.Context(), ns, by(), deleting(target())))
}

func TestAnOutageLeavesTheOutcomeUnknown(t *testing.T) {
	f := newLimitFixture(t)
	f.Fail("TransactWriteItems", fault.Fault{Kind: fault.ReplyLost})
	f.Fail("TransactWriteItems", slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, 100)...)
	ctx := f.EndAt(t.Context(), "TransactWriteItems", 3, 0)
	_, err := f.store.Set(ctx, ns, by(), setTo(target(), limit("rpm", 7)))
	require.ErrorIs(t, err, audit.ErrOutcomeUnknown)
	require.EqualValues(t, 1, f.get(target()).Version)

	f.Fail("GetItem", fault.Fault{Kind: fault.Unreachable})
	_, err = f.store.Set(t.Context(), ns, by(), setTo(target(), limit("rpm", 8)))
	require.Error(t, err)
	require.NotErrorIs(t, err, audit.ErrOutcomeUnknown, "nothing was written yet")
}

func TestAWriteThatNeverAnswersEndsWithTheCaller(t *testing.T) {
	f := newLimitFixture(t)
	f.Fail("TransactWriteItems", fault.Fault{Kind: fault.ReplyHangs})
	ctx := f.EndAt(t.Context(), "TransactWriteItems", 1, 30*time.Millisecond)
	_, err := f.store.Set(ctx, ns, by(), setTo(target(), limit("rpm", 7)))
	require.ErrorIs(t, err, audit.ErrOutcomeUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestARefusalForGoodIsNotRepeated(t *testing.T) {
	f := newLimitFixture(t)
	denied := fault.Fault{Kind: fault.Refused, Refusal: fault.Refusal{
		Status: http.StatusBadRequest, Type: "com.amazon.coral.service#AccessDeniedException", Message: "not authorized",
	}}
	f.Fail("TransactWriteItems", denied)
	_, err := f.store.Set(t.Context(), ns, by(), setTo(target(), limit("rpm", 7)))
	require.ErrorContains(t, err, "AccessDenied")
	require.NotErrorIs(t, err, audit.ErrOutcomeUnknown)
	require.Equal(t, 1, f.Calls("TransactWriteItems"))
}

func TestSetGivesUpWhereOthersNeverStop(t *testing.T) {
	f := newLimitFixture(t)
	var interfere func()
	interfere = func() {
		f.set(target(), limit("theirs", 1))
		f.Before("TransactWriteItems", interfere)
	}
	f.Before("TransactWriteItems", interfere)
	_, err := f.store.Set(t.Context(), ns, by(), setTo(target(), limit("mine", 1)))
	requireCode(t, api.CodeConflict, err)
}

// A change that names a version is made on that version alone.
func TestAChangeOfAVersion(t *testing.T) {
	version := func(n int64) *int64 { return &n }
	set := func(f *limitFixture, want *int64) error {
		_, err := f.store.Set(t.Context(), ns, by(), api.LimitsSetRequest{LimitsTarget: target(), Limits: []api.Limit{limit("rpm", 9)}, IfVersion: want})
		return err
	}
	remove := func(f *limitFixture, want *int64) error {
		return f.store.Delete(t.Context(), ns, by(), api.LimitsDeleteRequest{LimitsTarget: target(), IfVersion: want})
	}
	for name, c := range map[string]struct {
		stored int // changes before
		change func(*limitFixture, *int64) error
		want   *int64
		passes bool
	}{
		"set what is not there":       {0, set, version(0), true},
		"set what came meanwhile":     {1, set, version(0), false},
		"set what is as it was":       {2, set, version(2), true},
		"set what was changed":        {2, set, version(1), false},
		"set what was deleted":        {0, set, version(1), false},
		"delete what is as it was":    {2, remove, version(2), true},
		"delete what was changed":     {2, remove, version(1), false},
		"delete whatever the version": {2, remove, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLimitFixture(t)
			for range c.stored {
				f.set(target(), limit("rpm", 5))
			}
			before := f.item(keys.EntityConfig{Namespace: ns, Entity: "alice", Resource: "gpt-4"})
			err := c.change(f, c.want)
			if c.passes {
				require.NoError(t, err)
				return
			}
			require.Equal(t, "if_version", requireCode(t, api.CodeConflict, err).Field)
			require.Equal(t, before, f.item(keys.EntityConfig{Namespace: ns, Entity: "alice", Resource: "gpt-4"}))
		})
	}
}

// The change of somebody else that comes between the read and the write counts.
func TestAVersionHoldsUpToTheWrite(t *testing.T) {
	f := newLimitFixture(t)
	f.set(target(), limit("rpm", 5))
	one := int64(1)
	f.Before("TransactWriteItems", func() { f.set(target(), limit("rpm", 6)) })
	_, err := f.store.Set(t.Context(), ns, by(), api.LimitsSetRequest{LimitsTarget: target(), Limits: []api.Limit{limit("rpm", 9)}, IfVersion: &one})
	requireCode(t, api.CodeConflict, err)
	require.Equal(t, []api.Limit{limit("rpm", 6)}, f.get(target()).Limits)
}

// A lost answer does not make a change of a version look like somebody else's.
func TestAVersionAndALostAnswer(t *testing.T) {
	for name, lost := range map[string]fault.Fault{
		"failed":             fault.InternalError(),
		"failed but applied": fault.InternalErrorAfter(),
		"reply lost":         {Kind: fault.ReplyLost},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLimitFixture(t)
			f.set(target(), limit("rpm", 5))
			one, two := int64(1), int64(2)
			f.Fail("TransactWriteItems", lost)
			level, err := f.store.Set(t.Context(), ns, by(), api.LimitsSetRequest{LimitsTarget: target(), Limits: []api.Limit{limit("rpm", 9)}, IfVersion: &one})
			require.NoError(t, err)
			require.Equal(t, two, level.Version)
			f.Fail("TransactWriteItems", lost)
			require.NoError(t, f.store.Delete(t.Context(), ns, by(), api.LimitsDeleteRequest{LimitsTarget: target(), IfVersion: &two}))
		})
	}
}

// The last who set the limits manages them: a manifest, or nobody.
func TestAManifestMarksWhatItSets(t *testing.T) {
	f := newLimitFixture(t)
	setBy := func(manifest string) api.LimitsLevel {
		level, err := f.store.Set(t.Context(), ns, by(), api.LimitsSetRequest{LimitsTarget: target(), Limits: []api.Limit{limit("rpm", 9)}, Manifest: manifest, OnUnavailable: api.PolicyAllow})
		require.NoError(t, err)
		require.Equal(t, level, f.get(target()))
		return level
	}
	require.Equal(t, "gateway", setBy("gateway").Manifest)
	require.Equal(t, "other", setBy("other").Manifest)
	require.Empty(t, setBy("").Manifest)
	require.Equal(t, "gateway", setBy("gateway").Manifest)
	require.NoError(t, f.store.Delete(t.Context(), ns, by(), deleting(target())))
	left := f.get(target())
	require.Empty(t, left.Manifest, "what has no limits is not managed")
	require.Equal(t, api.PolicyAllow, left.OnUnavailable)

	_, err := f.store.Set(t.Context(), ns, by(), api.LimitsSetRequest{LimitsTarget: target(), Limits: []api.Limit{limit("rpm", 9)}, Manifest: "Not OK"})
	requireCode(t, api.CodeInvalidManifest, err)
}
