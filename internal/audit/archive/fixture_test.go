package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/pkg/api"
)

const ns = "AAAAAAAAAAA"

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// event is number n of a namespace, of a minute of its own.
func event(n int, target string) api.AuditEvent {
	at := noon().Add(time.Duration(n) * time.Minute).UnixMilli()
	return api.AuditEvent{
		ID: fmt.Sprintf("%d-%d", at, n), Namespace: ns, Sequence: int64(n), AtMs: at, Target: target, Action: api.AuditActions()[n%2],
		Who: api.Principal{User: "alice"}, After: json.RawMessage(`{"n":1}`), Key: "AQIDBA", MAC: "bWFj",
		Deleted: &api.AuditDeletion{By: api.DeletedByTTL, AtMs: at + 1000},
	}
}

// span are the events first to last of a target.
func span(target string, first, last int) []api.AuditEvent {
	var all []api.AuditEvent
	for n := first; n <= last; n++ {
		all = append(all, event(n, target))
	}
	return all
}

// put stores what belongs into one object each.
func put(t testing.TB, a *Archive, bundles ...[]api.AuditEvent) {
	t.Helper()
	for _, one := range bundles {
		byDay := map[string][]api.AuditEvent{}
		for _, e := range one {
			byDay[dayOf(e.AtMs)] = append(byDay[dayOf(e.AtMs)], e)
		}
		for _, of := range byDay {
			_, err := a.Put(t.Context(), laneOf(ns, of[0].Target), of)
			require.NoError(t, err)
		}
	}
}

// walk reads all pages of a query.
func walk(ctx context.Context, t testing.TB, a *Archive, q audit.ArchiveQuery) (found []*audit.Archived, pages int) {
	t.Helper()
	q.Namespace = ns
	if q.Bytes == 0 {
		q.Bytes = 1 << 20
	}
	for {
		page, err := a.Page(ctx, q)
		require.NoError(t, err)
		found, pages = append(found, page.Found...), pages+1
		if page.Down == (audit.Place{}) {
			return found, pages
		}
		if q.Before != (audit.Position{}) {
			require.Negative(t, page.Down.Compare(q.Before), "a page gets on")
		}
		q.Before = page.Down.Position
	}
}

func sequences(found []*audit.Archived) []int64 {
	all := []int64{}
	for _, f := range found {
		all = append(all, f.Event.Sequence)
	}
	return all
}

// countdown are the numbers from first down to last that match.
func countdown(first, last int64, match func(n int64) bool) []int64 {
	all := []int64{}
	for n := first; n >= last; n-- {
		if match(n) {
			all = append(all, n)
		}
	}
	return all
}

func every(int64) bool { return true }
