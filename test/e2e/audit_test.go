package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/services/archiver"
	"github.com/tidegate/tidegate/services/relay"
)

// Changes are made, their events expire, and relays and archivers come, leave and are
// killed, while every third write of an object fails or seems to. In the end the trail
// is whole: each event is there once, as it was written, and most are in the archive.
func TestTheAuditTrailOutlivesTheTable(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, options{})
	objects := archivetest.New(t)
	log := audit.NewLog(w.db, w.table, func() (time.Time, error) { return w.clock.now(), nil })
	way := natstest.NewCuts(rand.New(rand.NewPCG(seed, 2)))
	working, hired := map[string]*process{}, 0
	for round := range 6 {
		objects.Each(nil)
		for len(working) < 4 {
			hired++
			name := fmt.Sprintf("%s-%d", []string{"relay", "archiver"}[hired%2], hired)
			if hired%2 == 0 {
				working[name] = w.relay(t, name, relay.Tuning{Page: 1 + random.IntN(20)}, nats.SetCustomDialer(way))
			} else {
				working[name] = w.archiver(t, name, objects)
			}
		}
		failing := rand.New(rand.NewPCG(seed, uint64(10+round))) //nolint:gosec // a small number
		objects.Each(func(r *http.Request) archivetest.Fault {
			if r.Method != http.MethodPut {
				return archivetest.None
			}
			return []archivetest.Fault{archivetest.Failed, archivetest.Applied, archivetest.ReplyLost, 0, 0, 0, 0, 0, 0}[failing.IntN(9)]
		})
		if round > 0 { // what there is expires, as if it were kept for 90 days
			w.engine.Expire(w.clock.now().Add(100 * 24 * time.Hour))
		}
		for range 60 {
			w.setLimits(t, api.LimitsTarget{Entity: fmt.Sprintf("entity-%d", random.IntN(5))}, perDay("rpm", 1+random.Int64N(1000)))
		}
		for name, p := range working {
			switch random.IntN(5) {
			case 0:
				p.leave(t)
				delete(working, name)
			case 1:
				p.crash()
				delete(working, name)
			}
		}
	}
	objects.Each(nil)
	w.relay(t, "relay-last", relay.Tuning{})
	w.archiver(t, "archiver-last", objects)
	whole := audit.NewReader(log, objects.Open(t))
	var left []api.AuditFinding
	require.Eventually(t, func() bool {
		var checked int64
		checked, left = verified(t, whole, w.ns)
		return checked == 360 && len(left) == 0
	}, patience, 50*time.Millisecond, "%v", left)
	archived, expected := 0, int64(360)
	for req := (api.AuditListRequest{Limit: 50}); ; {
		page, err := whole.List(t.Context(), w.ns, req)
		require.NoError(t, err)
		for _, e := range page.Events {
			require.Equal(t, expected, e.Sequence)
			expected--
			if e.Deleted != nil {
				require.Equal(t, api.DeletedByTTL, e.Deleted.By)
				archived++
			}
		}
		if req.Cursor = page.Cursor; req.Cursor == "" {
			break
		}
	}
	require.Zero(t, expected)
	require.Equal(t, 300, archived, "those of the last round are in the table")
	t.Logf("%d processes, %d objects, %d cuts", hired, len(objects.Keys(t)), way.Count())
}

func verified(t *testing.T, whole *audit.Reader, ns string) (checked int64, findings []api.AuditFinding) {
	t.Helper()
	for req := (api.AuditVerifyRequest{}); ; {
		part, err := whole.Verify(context.Background(), ns, req)
		require.NoError(t, err)
		checked, findings = checked+part.Checked, append(findings, part.Findings...)
		if req.Cursor = part.Cursor; req.Cursor == "" {
			return checked, findings
		}
	}
}

func (w *world) archiver(t *testing.T, name string, objects *archivetest.S3) *process {
	t.Helper()
	p := &process{name: name, conn: w.connect(t), metrics: prometheus.NewRegistry()}
	feed := members()
	feed.Linger = 50 * time.Millisecond
	a, err := archiver.New(archiver.Config{
		NATS: p.conn, Archive: objects.Open(t), Member: name, Now: w.clock.now, Log: slog.New(slog.DiscardHandler), Metrics: p.metrics,
		Tuning: archiver.Tuning{Feed: feed},
	})
	require.NoError(t, err)
	return run(t, p, a)
}
