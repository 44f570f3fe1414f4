package bench

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// BenchmarkAudit: 100,000 events of ten days and 1,000 entities, nine tenths of them in
// an archive on this machine's disk. It says how long a list and a verification of all
// of them take, page by page, and by how many megabytes the heap grows meanwhile.
func BenchmarkAudit(b *testing.B) {
	const n, entities, inTable = 100_000, 1000, 10_000
	a := newAuditTrail(b, n, entities, inTable)
	for name, read := range map[string]func() int64{"list": a.list, "verify": a.verify} {
		b.Run(name, func(b *testing.B) {
			start := time.Now()
			require.EqualValues(b, n, read())
			b.ReportMetric(time.Since(start).Seconds(), "s")
			b.ReportMetric(float64(growth(func() { read() }))/(1<<20), "MB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// growth is by how much the heap grows while do runs, in bytes: what is reachable, and
// a twentieth of all there is, which is garbage.
func growth(do func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	base, highest := heap(), uint64(0)
	ended, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				highest = max(highest, m.HeapAlloc)
			}
		}
	}()
	do()
	close(ended)
	<-sampled
	return max(base, highest) - base
}

// auditTrail is a table and an archive with the events of one namespace.
type auditTrail struct {
	b     *testing.B
	ns    string
	trail *audit.Reader
}

func newAuditTrail(b *testing.B, n, entities, inTable int) *auditTrail {
	b.Helper()
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	made := 0 // guarded by mu
	now := func() (time.Time, error) {
		mu.Lock()
		defer mu.Unlock()
		return start.Add(time.Duration(made) * 10 * 24 * time.Hour / time.Duration(n)), nil
	}
	embedded := engine.New(engine.Options{Now: func() time.Time { t, _ := now(); return t }})
	db := dynamodb.NewFromConfig(engine.Config(embedded.HTTPClient(), "us-east-1"))
	require.NoError(b, table.CreateTable(b.Context(), db, table.DefaultName))
	log := audit.NewLog(db, table.DefaultName, now)
	kept, err := archive.Open(b.Context(), "file://"+b.TempDir(), archive.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, kept.Close()) })
	a := &auditTrail{b: b, ns: "AAAAAAAAAAA", trail: audit.NewReader(log, kept)}
	var all sync.WaitGroup
	const makers = 8
	for range makers {
		all.Go(func() {
			for range n / makers {
				mu.Lock()
				i := made
				made++
				mu.Unlock()
				err := log.Apply(context.Background(), audit.Change{
					Namespace: a.ns, Action: api.AuditLimitsSet, Target: fmt.Sprintf("entity-%d", i%entities), By: api.Principal{User: "alice", Account: "OPS", Verified: true},
					Plan: func(context.Context) (audit.Plan, error) {
						limits := []api.Limit{{Name: "rpm", Capacity: int64(i + 1), RefillAmount: 100, RefillPeriodSeconds: 60}, {Name: "tpm", Capacity: 20_000, RefillAmount: 10_000, RefillPeriodSeconds: 60}}
						return audit.Plan{Before: api.LimitsLevel{Limits: limits, Version: 1}, After: api.LimitsLevel{Limits: limits, Version: 2}}, nil
					},
				})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	a.archiveAllBut(db, log, kept, inTable)
	return a
}

// archiveAllBut moves all but the newest events into the archive: an object of each day
// and lane, as if a day's events expired together.
func (a *auditTrail) archiveAllBut(db *dynamodb.Client, log *audit.Log, kept *archive.Archive, inTable int) {
	a.b.Helper()
	type bundle struct {
		day  int64
		lane int
	}
	bundles := map[bundle][]api.AuditEvent{}
	var gone []keys.Key
	seen := 0
	for req := (api.AuditListRequest{Limit: api.MaxPage}); ; {
		reply, err := log.List(a.b.Context(), a.ns, req)
		require.NoError(a.b, err)
		for _, e := range reply.Events {
			if seen++; seen <= inTable {
				continue
			}
			key := keys.Audit{Namespace: e.Namespace, ID: e.Target, AtMs: e.AtMs, Sequence: e.Sequence}
			e.Deleted = &api.AuditDeletion{By: api.DeletedByTTL, AtMs: e.AtMs + 90*86_400_000}
			of := bundle{e.AtMs / 86_400_000, events.Lane(key)}
			bundles[of] = append(bundles[of], e)
			gone = append(gone, key.Key())
		}
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			break
		}
	}
	for of, all := range bundles {
		_, err := kept.Put(a.b.Context(), of.lane, all)
		require.NoError(a.b, err)
	}
	for len(gone) > 0 {
		n := min(500, len(gone))
		left, err := store.DeleteKeys(a.b.Context(), db, table.DefaultName, gone[:n])
		require.NoError(a.b, err)
		require.Zero(a.b, left)
		gone = gone[n:]
	}
	a.b.Logf("%d objects", len(bundles))
}

// list reads all pages, and returns how many events there were.
func (a *auditTrail) list() (n int64) {
	for req := (api.AuditListRequest{Limit: api.MaxPage}); ; {
		reply, err := a.trail.List(a.b.Context(), a.ns, req)
		require.NoError(a.b, err)
		n += int64(len(reply.Events))
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return n
		}
	}
}

// verify verifies all parts, and returns how many events there were.
func (a *auditTrail) verify() (n int64) {
	for req := (api.AuditVerifyRequest{}); ; {
		reply, err := a.trail.Verify(a.b.Context(), a.ns, req)
		require.NoError(a.b, err)
		require.Empty(a.b, reply.Findings)
		n += reply.Checked
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return n
		}
	}
}
