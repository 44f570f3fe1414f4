package archive_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
	"github.com/tidegate/tidegate/pkg/api"
)

const ns = "AAAAAAAAAAA"

// event is number n of a namespace, of a second of its own.
func event(n int, after string) api.AuditEvent {
	at := time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC).UnixMilli()
	return api.AuditEvent{
		ID: fmt.Sprintf("%d-%d", at, n), Namespace: ns, Sequence: int64(n), AtMs: at, Target: "alice", Action: api.AuditLimitsSet,
		After: json.RawMessage(after), Key: "AQIDBA", MAC: "bWFj", Deleted: &api.AuditDeletion{By: api.DeletedByHand, AtMs: at},
	}
}

func all(t *testing.T, a *archive.Archive) []api.AuditEvent {
	t.Helper()
	page, err := a.Page(t.Context(), audit.ArchiveQuery{Namespace: ns, Events: 1000, Bytes: 64 << 20})
	require.NoError(t, err)
	require.Zero(t, page.Down)
	var found []api.AuditEvent
	for _, f := range page.Found {
		found = append(found, f.Event)
	}
	return found
}

// An object has a name that says what it holds, and lines that anybody can read,
// whenever and by whomever it is written.
func TestObjectsAreDeterministic(t *testing.T) {
	s := archivetest.New(t)
	a := s.Open(t)
	done, err := a.Put(t.Context(), 7, []api.AuditEvent{event(3, `{"a":"<b>"}`), event(5, `1`), event(4, `2`), event(5, `1`)})
	require.NoError(t, err)
	require.Equal(t, 1, done.Written)
	const key = "audit/AAAAAAAAAAA/2026/03/01/7-3-5.jsonl.gz"
	require.Equal(t, []string{key}, s.Keys(t))
	lines := s.Lines(t, key)
	newest := `{"id":"1772366405000-5","namespace":"AAAAAAAAAAA","sequence":5,"at_ms":1772366405000,"target":"alice","action":"limits.set",` +
		`"who":{"verified":false},"after":1,"key_id":"AQIDBA","mac":"bWFj","deleted":{"by":"hand","at_ms":1772366405000}}`
	require.Equal(t, newest, strings.Split(lines, "\n")[0])
	require.Equal(t, 3, strings.Count(lines, "\n"))

	done, err = a.Put(t.Context(), 7, []api.AuditEvent{event(5, `1`), event(4, `2`), event(3, `{"a":"<b>"}`)})
	require.NoError(t, err)
	require.Equal(t, archive.Stored{Existed: 1}, done, "in another order, they are the same")
	require.Equal(t, []string{key}, s.Keys(t))
}

// Nothing is overwritten: where other events have the name, these get another one,
// also when it is the second time, and what is there is no object at all.
func TestNothingIsOverwritten(t *testing.T) {
	s := archivetest.New(t)
	a := s.Open(t)
	put := func(events ...api.AuditEvent) archive.Stored {
		done, err := a.Put(t.Context(), 7, events)
		require.NoError(t, err)
		return done
	}
	put(event(1, `1`), event(4, `4`))
	require.Equal(t, 1, put(event(1, `1`), event(2, `2`), event(4, `4`)).Written)
	require.Equal(t, 1, put(event(1, `1`), event(3, `3`), event(4, `4`)).Written)
	require.Equal(t, archive.Stored{Existed: 1}, put(event(1, `1`), event(2, `2`), event(4, `4`)))
	require.Len(t, s.Keys(t), 3)
	require.Equal(t, []api.AuditEvent{event(4, `4`), event(3, `3`), event(2, `2`), event(1, `1`)}, all(t, a))

	s.Replace(t, "audit/AAAAAAAAAAA/2026/03/01/7-9-9.jsonl.gz", []byte("no gzip"))
	require.Equal(t, 1, put(event(9, `9`)).Written)
	require.Equal(t, archive.Stored{Existed: 1}, put(event(9, `9`)))
}

// Every write is tried as refused, failed, failed but applied, and without an answer:
// an error, and then what is put again is there once.
func TestEveryWriteThatFailsAndEveryThatOnlySeemsTo(t *testing.T) {
	for name, f := range map[string]archivetest.Fault{
		"failed": archivetest.Failed, "failed, but applied": archivetest.Applied, "reply lost": archivetest.ReplyLost,
		"unreachable": archivetest.Unreachable, "denied": archivetest.Denied,
	} {
		for _, method := range []string{"PUT", "GET"} {
			t.Run(method+" "+name, func(t *testing.T) {
				s := archivetest.New(t)
				a := s.Open(t)
				if method == "GET" { // it is asked where something has the name
					_, err := a.Put(t.Context(), 7, []api.AuditEvent{event(1, `1`), event(2, `2`)})
					require.NoError(t, err)
				}
				s.Each(func(r *http.Request) archivetest.Fault { // not once: HTTP clients ask again by themselves
					if r.Method == method {
						return f
					}
					return archivetest.None
				})
				events := []api.AuditEvent{event(1, `1`), event(2, `2`)}
				_, err := a.Put(t.Context(), 7, events)
				require.ErrorContains(t, err, "store audit events in s3://")
				s.Each(nil)
				done, err := a.Put(t.Context(), 7, events)
				require.NoError(t, err)
				require.Equal(t, 1, done.Written+done.Existed)
				require.Len(t, s.Keys(t), 1)
				require.Equal(t, []api.AuditEvent{event(2, `2`), event(1, `1`)}, all(t, a))
			})
		}
	}
}

// Large events do not make large objects.
func TestLargeBundlesAreDivided(t *testing.T) {
	s := archivetest.New(t)
	a := s.Open(t)
	var events []api.AuditEvent
	for n := range 50 {
		events = append(events, event(n+1, `"`+strings.Repeat("x", 200<<10)+`"`))
	}
	done, err := a.Put(t.Context(), 7, events)
	require.NoError(t, err)
	require.Equal(t, 3, done.Written)
	require.Len(t, all(t, a), 50)
	for _, key := range s.Keys(t) {
		require.Less(t, len(s.Lines(t, key)), 5<<20)
	}
}
