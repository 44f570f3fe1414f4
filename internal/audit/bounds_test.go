package audit_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/pkg/api"
)

// peak is how far the heap grows while do runs, in bytes: what is reachable, and a
// twenty-fifth of all there is, which is garbage.
func peak(do func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(4))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base, highest := m.HeapAlloc, m.HeapAlloc
	ended, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				highest = max(highest, m.HeapAlloc)
			}
		}
	}()
	do()
	close(ended)
	<-sampled
	return highest - base
}

// Whatever the archive holds, a list and a verification have a page of it in memory.
func TestListsAndVerificationsAreBounded(t *testing.T) {
	const events, size = 2400, 16 << 10 // 38 MB
	w := newWorld(t)
	var err error
	w.archive, err = archive.Open(t.Context(), "file://"+t.TempDir(), archive.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.archive.Close()) })
	w.reader = audit.NewReader(w.log, w.archive)
	payload := strings.Repeat("x", size)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range events / 8 {
				err := w.log.Apply(context.Background(), audit.Change{
					Namespace: ns, Action: api.AuditLimitsSet, Target: "alice",
					Plan: func(context.Context) (audit.Plan, error) { return audit.Plan{After: payload}, nil },
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	stored := w.stored()
	require.Len(t, stored, events)
	w.copyOut(100, stored...)
	w.remove(stored...)

	const most = events * size / 2 // a page, and what the collector has not come to
	require.Less(t, peak(func() {
		listed := 0
		for req := (api.AuditListRequest{Limit: api.MaxPage}); ; {
			reply, err := w.reader.List(t.Context(), ns, req)
			require.NoError(t, err)
			listed += len(reply.Events)
			if req.Cursor = reply.Cursor; req.Cursor == "" {
				break
			}
		}
		require.Equal(t, events, listed)
	}), uint64(most))
	require.Less(t, peak(func() {
		checked, findings := w.verify(api.AuditVerifyRequest{})
		require.EqualValues(t, events, checked)
		require.Empty(t, findings)
	}), uint64(most))
}
