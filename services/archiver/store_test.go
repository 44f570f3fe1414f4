package archiver

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

func newWriter(t *testing.T, s *archivetest.S3) *writer {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	return &writer{archive: s.Open(t), timeout: 5 * time.Second, writes: 4, metrics: m}
}

// One object never mixes namespaces or days, and says who took each event out.
func TestABatchBecomesOneObjectForEachNamespaceAndDay(t *testing.T) {
	s := archivetest.New(t)
	w := newWriter(t, s)
	a, b := namespaces()[0], namespaces()[1]
	deleted := []*events.Event{
		deletion(a, "alice", 499, true), deletion(b, "alice", 3, true), deletion(a, "alice", 500, false), deletion(a, "alice", 498, true), deletion(a, "alice", 777, true),
	}
	all := append([]*events.Event{made(deletion(a, "alice", 9, false))}, deleted...)
	changed := deletion(a, "alice", 8, false)
	changed.Audit.New = changed.Audit.Old
	require.NoError(t, w.store(t.Context(), batch(append(all, changed)...)))
	require.Equal(t, []string{
		"audit/AAAAAAAAAAA/2026/03/01/7-498-499.jsonl.gz", "audit/AAAAAAAAAAA/2026/03/02/7-500-777.jsonl.gz", "audit/AAAAAAAAAAE/2026/03/01/7-3-3.jsonl.gz",
	}, s.Keys(t))
	mustHold(t, s.Open(t), deleted)
	require.Contains(t, s.Lines(t, s.Keys(t)[0]), `"deleted":{"by":"time_to_live","at_ms":1772413200000}}`)
	require.Contains(t, s.Lines(t, s.Keys(t)[1]), `"deleted":{"by":"hand","at_ms":1772413200000}}`)
}

func TestABatchWithoutDeletionsWritesNothing(t *testing.T) {
	s := archivetest.New(t)
	require.NoError(t, newWriter(t, s).store(t.Context(), batch(made(deletion(namespaces()[0], "alice", 1, false)))))
	require.Zero(t, s.Calls("PUT")+s.Calls("GET"))
}

// Whatever any request of a batch meets, the batch that is given again is read once.
func TestEveryStepOfABatchMayFail(t *testing.T) {
	var deleted []*events.Event
	for n := 490; n < 510; n++ { // two days
		deleted = append(deleted, deletion(namespaces()[n%2], "alice", n, n%3 > 0))
	}
	for name, f := range map[string]archivetest.Fault{
		"failed": archivetest.Failed, "failed, but applied": archivetest.Applied, "reply lost": archivetest.ReplyLost, "unreachable": archivetest.Unreachable,
	} {
		for step := range 4 {
			t.Run(fmt.Sprintf("%s at object %d", name, step), func(t *testing.T) {
				s := archivetest.New(t)
				w := newWriter(t, s)
				s.Fail("PUT", append(make([]archivetest.Fault, step), f)...)
				require.Error(t, w.store(t.Context(), batch(deleted...)))
				require.NoError(t, w.store(t.Context(), batch(deleted...)))
				require.NoError(t, w.store(t.Context(), batch(deleted[5:]...)), "with other borders")
				mustHold(t, s.Open(t), deleted)
			})
		}
	}
}

// What no release can read is refused, and the rest of the batch is stored.
func TestUnreadableRecordsAreRefused(t *testing.T) {
	s := archivetest.New(t)
	good, bad, other := deletion(namespaces()[0], "alice", 1, true), deletion(namespaces()[0], "alice", 2, true), deletion(namespaces()[0], "alice", 3, true)
	bad.Audit.Old.Record = json.RawMessage(`["no event"]`)
	other.Key = keys.Audit{Namespace: namespaces()[0], ID: "alice", AtMs: 1, Sequence: 3}
	b := batch(bad, good, other)
	require.NoError(t, newWriter(t, s).store(t.Context(), b))
	require.Len(t, b.Refused(), 2)
	require.ErrorContains(t, b.Refused()[0], "cannot be read")
	require.ErrorContains(t, b.Refused()[2], "not that of the record's key")
	mustHold(t, s.Open(t), []*events.Event{good})
}
