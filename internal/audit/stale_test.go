package audit_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// An index that is behind the table hides events of a moment ago. They are not missing:
// a verification waits for the index. An event that was removed is missing all the same.
func TestAVerificationWaitsForTheIndex(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			b := tabletest.Stale(t, time.Now, time.Second)
			log := audit.NewLog(b.DB, b.Table, b.Now)
			targets := []string{"alice", keys.AuditSystem, keys.AuditResource("gpt-4")}
			for i := range 30 {
				time.Sleep(rand.N(100 * time.Millisecond))
				require.NoError(t, log.Apply(t.Context(), audit.Change{
					Namespace: ns, Action: api.AuditLimitsSet, Target: targets[i%3],
					Plan: func(context.Context) (audit.Plan, error) { return audit.Plan{After: i}, nil },
				}))
			}
			all := audit.NewReader(log, nil)
			verify := func() (findings []api.AuditFinding) {
				for req := (api.AuditVerifyRequest{}); ; {
					reply, err := all.Verify(t.Context(), ns, req)
					require.NoError(t, err)
					findings = append(findings, reply.Findings...)
					if req.Cursor = reply.Cursor; req.Cursor == "" {
						return findings
					}
				}
			}
			require.Empty(t, verify())
			listed, err := all.List(t.Context(), ns, api.AuditListRequest{})
			require.NoError(t, err)
			w := &world{Bench: b, t: t}
			w.remove(listed.Events[0])
			require.Equal(t, []api.AuditFinding{{Kind: api.AuditMissing, First: listed.Events[0].Sequence, Last: listed.Events[0].Sequence}}, verify())
		})
	}
}
