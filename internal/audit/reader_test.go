package audit_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Table and archive are one: newest first, by target, time and action, in pages of any
// size, and no event twice although some are in both, or twice in the archive.
func TestTableAndArchiveAreOneList(t *testing.T) {
	w := newWorld(t)
	all := w.moved(120, 80)
	w.copyOut(7, all[30:60]...) // some are in the table still, and some are there again with other borders
	w.copyOut(3, all[70:100]...)
	at := func(n int) int64 { return all[120-n].AtMs }
	entity, system := api.LimitsTarget{Entity: "alice"}, api.LimitsTarget{System: true}
	for name, c := range map[string]struct {
		req   api.AuditListRequest
		match func(e *api.AuditEvent) bool
	}{
		"all":      {api.AuditListRequest{}, func(*api.AuditEvent) bool { return true }},
		"entity":   {api.AuditListRequest{LimitsTarget: entity}, func(e *api.AuditEvent) bool { return e.Target == "alice" }},
		"system":   {api.AuditListRequest{LimitsTarget: system}, func(e *api.AuditEvent) bool { return e.Target != "alice" }},
		"resource": {api.AuditListRequest{LimitsTarget: api.LimitsTarget{Resource: "x"}}, func(*api.AuditEvent) bool { return false }},
		"action":   {api.AuditListRequest{Action: api.AuditLimitsDelete}, func(e *api.AuditEvent) bool { return e.Action == api.AuditLimitsDelete }},
		"from":     {api.AuditListRequest{FromMs: at(70)}, func(e *api.AuditEvent) bool { return e.Sequence >= 70 }},
		"old":      {api.AuditListRequest{ToMs: at(20)}, func(e *api.AuditEvent) bool { return e.Sequence <= 20 }},
		"between": {
			api.AuditListRequest{LimitsTarget: entity, FromMs: at(70), ToMs: at(90)},
			func(e *api.AuditEvent) bool { return e.Target == "alice" && e.Sequence >= 70 && e.Sequence <= 90 },
		},
	} {
		for _, limit := range []int64{0, 1, 7, 1000} {
			t.Run(fmt.Sprintf("%s by %d", name, limit), func(t *testing.T) {
				w.t = t
				req := c.req
				req.Limit = limit
				want := slices.DeleteFunc(slices.Clone(all), func(e api.AuditEvent) bool { return !c.match(&e) })
				require.Equal(t, sequences(want), sequences(w.list(req)))
			})
		}
	}
	w.t = t
	listed := w.list(api.AuditListRequest{})
	require.Nil(t, listed[0].Deleted)
	require.Equal(t, api.DeletedByTTL, listed[119].Deleted.By)
	for i := range all {
		shown, err := w.reader.Show(t.Context(), ns, api.AuditShowRequest{ID: all[i].ID})
		require.NoError(t, err)
		require.True(t, shown.Intact)
		require.True(t, audit.SameEvent(&all[i], &shown.AuditEvent))
		require.Equal(t, i >= 40, shown.Deleted != nil)
	}
	requireCode(t, api.CodeNotFound, show(w, "1772366400000-9"))
	requireCode(t, api.CodeInvalidID, show(w, "x"))
}

func show(w *world, id string) error {
	_, err := w.reader.Show(w.t.Context(), ns, api.AuditShowRequest{ID: id})
	return err
}

func requireCode(t *testing.T, want api.Code, err error) {
	t.Helper()
	var refusal *api.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, want, refusal.Code)
}

// Every event is in exactly one page, whatever its target is, in the table, in the
// archive, and where pages end because of their size.
func TestPagesOfEveryTarget(t *testing.T) {
	targets := []string{keys.AuditResource("gpt-4"), "~last", keys.AuditSystem, "!first", keys.AuditResource("gpt-3"), keys.AuditNamespace("acme")}
	for name, payload := range map[string]string{"small": "", "large": strings.Repeat("x", 200<<10)} {
		for _, archived := range []int{0, 9, 30} {
			t.Run(fmt.Sprintf("%s, %d in the archive", name, archived), func(t *testing.T) {
				w := newWorld(t)
				for i := range 30 {
					if i%3 > 0 { // so that some events share a millisecond
						w.now = w.now.Add(time.Hour)
					}
					w.changeOf(ns, targets[i%len(targets)], api.AuditLimitsSet, payload)
				}
				all := w.stored()
				w.copyOut(2, all[30-archived:]...)
				w.remove(all[30-archived:]...)
				for _, limit := range []int64{1, 4, 1000} {
					require.Equal(t, sequences(all), sequences(w.list(api.AuditListRequest{Limit: limit})), "by %d", limit)
				}
				checked, findings := w.verify(api.AuditVerifyRequest{})
				require.EqualValues(t, 30, checked)
				require.Empty(t, findings)
			})
		}
	}
}

// A verification has pages of a thousand events; each event is checked once.
func TestAVerificationOfManyChangesOfAResource(t *testing.T) {
	w := newWorld(t)
	for range 1101 {
		w.changeOf(ns, keys.AuditResource("gpt-4"), api.AuditLimitsSet, nil)
	}
	checked, findings := w.verify(api.AuditVerifyRequest{})
	require.EqualValues(t, 1101, checked)
	require.Empty(t, findings)
}

// An altered event of the archive at the end of a page does not keep lists from going on.
func TestAnAlteredTargetDoesNotEndAList(t *testing.T) {
	for _, target := range []string{"", "bob", "no target", keys.AuditResource("gpt-4")} {
		t.Run(target, func(t *testing.T) {
			w := newWorld(t)
			all := w.moved(20, 10)
			w.copyOut(1, all[5]) // the table has it still
			for _, victim := range []*api.AuditEvent{&all[5], &all[14]} {
				key := w.objectOf(victim)
				mark := `"id":"` + victim.ID + `","namespace":"` + ns + `"`
				line := w.Lines(t, key)
				require.Contains(t, line, mark)
				before, behind, _ := strings.Cut(line, mark)
				w.Overwrite(t, key, before+mark+strings.Replace(behind, `"target":"`+victim.Target+`"`, `"target":"`+target+`"`, 1))
			}
			for _, limit := range []int64{1, 3} {
				require.Equal(t, sequences(all), sequences(w.list(api.AuditListRequest{Limit: limit})))
			}
			_, findings := w.verify(api.AuditVerifyRequest{})
			for _, f := range findings {
				require.Contains(t, []int64{all[5].Sequence, all[14].Sequence, 0}, f.First, "%v", f)
				require.Contains(t, []api.AuditFindingKind{api.AuditAltered, api.AuditUnreadable}, f.Kind)
			}
			require.NotEmpty(t, findings)
		})
	}
}

// An event that moves while a list is read is shown: the table is read first.
func TestAnEventThatMovesMeanwhileIsShown(t *testing.T) {
	w := newWorld(t)
	all := w.moved(20, 10)
	w.reader = w.through()
	w.Before("Query", func() {
		w.copyOut(5, all[8:10]...)
		w.remove(all[8:10]...)
	})
	require.Equal(t, sequences(all), sequences(w.list(api.AuditListRequest{})))
}

// What is wrong with the archive is an error, and not a short list.
func TestListsTellOfOutagesAndDamage(t *testing.T) {
	w := newWorld(t)
	all := w.moved(20, 10)
	w.Each(func(*http.Request) archivetest.Fault { return archivetest.Failed })
	_, err := w.reader.List(t.Context(), ns, api.AuditListRequest{})
	require.ErrorContains(t, err, "InternalError")
	require.Error(t, show(w, all[15].ID))
	require.NoError(t, show(w, all[5].ID), "what is in the table needs no archive")
	w.Each(nil)
	w.Replace(t, w.objectOf(&all[15]), []byte("no gzip"))
	_, err = w.reader.List(t.Context(), ns, api.AuditListRequest{})
	require.ErrorIs(t, err, audit.ErrObjectDamaged)
	require.ErrorIs(t, show(w, all[15].ID), audit.ErrObjectDamaged)
}

// Without an archive, the table is all there is.
func TestATrailWithoutAnArchive(t *testing.T) {
	w := newWorld(t)
	all := w.moved(20, 10)
	w.reader = audit.NewReader(w.log, nil)
	require.Equal(t, sequences(all[:10]), sequences(w.list(api.AuditListRequest{Limit: 3})))
	requireCode(t, api.CodeNotFound, show(w, all[15].ID))
	events, findings := w.verify(api.AuditVerifyRequest{})
	require.EqualValues(t, 10, events)
	require.Equal(t, []api.AuditFinding{{Kind: api.AuditMissing, First: 1, Last: 10}}, findings)
}

// A cursor that leads elsewhere is refused.
func TestForeignCursorsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.moved(20, 15)
	reply, err := w.reader.List(t.Context(), ns, api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: "alice"}, Limit: 5})
	require.NoError(t, err)
	_, err = w.reader.List(t.Context(), ns, api.AuditListRequest{LimitsTarget: api.LimitsTarget{System: true}, Cursor: reply.Cursor})
	requireCode(t, api.CodeInvalidCursor, err)
	_, err = w.reader.List(t.Context(), "AAAAAAAAAAE", api.AuditListRequest{Cursor: reply.Cursor})
	requireCode(t, api.CodeInvalidCursor, err)
	for _, cursor := range []string{"x", "e30", reply.Cursor} {
		_, err = w.reader.Verify(t.Context(), ns, api.AuditVerifyRequest{Cursor: cursor})
		requireCode(t, api.CodeInvalidCursor, err)
	}
}
