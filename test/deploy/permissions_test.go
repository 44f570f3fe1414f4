package deploy_test

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

func tenRPM(system bool) api.LimitsSetRequest {
	return api.LimitsSetRequest{
		LimitsTarget: api.LimitsTarget{System: system},
		Limits:       []api.Limit{{Name: "rpm", Capacity: 10, RefillAmount: 1, RefillPeriodSeconds: 86400}},
	}
}

// All that a tenant is there to do works, each by the user that may.
func TestWhatIsAllowedWorks(t *testing.T) {
	w := newWorld(t, "acme", "beta")
	w.runAdmission(t)
	ctx := t.Context()
	for _, tenant := range []string{"acme", "beta"} {
		_, err := w.client(t, tenant+"-admin", tenant).Admin().SetLimits(ctx, tenRPM(true))
		require.NoError(t, err)
	}
	acme := w.client(t, "acme", "acme")
	lease, err := acme.Acquire(ctx, "key", resource, tidegate.Consume{"rpm": 4})
	require.NoError(t, err)
	token := lease.Token()
	require.NoError(t, lease.Adjust(ctx, tidegate.Deltas{"rpm": 1}))
	// A settlement that is repeated finds its record.
	require.NoError(t, acme.Lease(token).Adjust(ctx, tidegate.Deltas{"rpm": 1}))
	require.NoError(t, lease.Release(ctx))
	_, err = acme.Acquire(ctx, "key", resource, tidegate.Consume{"rpm": 3})
	require.NoError(t, err)
	status, err := acme.Status(ctx, "key", resource, nil)
	require.NoError(t, err)
	require.EqualValues(t, 7, status.Limits[0].Available)

	var denied *tidegate.DeniedError
	_, err = acme.Acquire(ctx, "key", resource, tidegate.Consume{"rpm": 8})
	require.ErrorAs(t, err, &denied)

	// The other tenant's entity of the same name has its own bucket.
	_, err = w.client(t, "beta", "beta").Acquire(ctx, "key", resource, tidegate.Consume{"rpm": 10})
	require.NoError(t, err)

	own := tidegate.OverrideLimits(api.Limit{Name: "rpm", Capacity: 100, RefillAmount: 1, RefillPeriodSeconds: 60})
	_, err = w.client(t, "acme-override", "acme").Acquire(ctx, "key", resource, tidegate.Consume{"rpm": 100}, own)
	require.NoError(t, err)
}

// The audit log says which user of which account made a change, whatever the
// request claims.
func TestTheServerTellsWhoAsked(t *testing.T) {
	w := newWorld(t, "acme", "beta")
	w.runAdmission(t)
	nc := w.nats.connect(t, "acme-admin")
	body, err := json.Marshal(tenRPM(true))
	require.NoError(t, err)
	reply, err := nc.RequestMsg(&nats.Msg{
		Subject: api.Subject("acme", api.VerbLimitsSet), Data: body,
		Header: nats.Header{api.HeaderRequestInfo: {`{"acc":"beta","user":"beta-admin"}`}},
	}, patience)
	require.NoError(t, err)
	require.Empty(t, reply.Header.Get(api.HeaderErrorCode), "%s", reply.Data)
	page, err := w.client(t, "acme-admin", "acme").Admin().ListAudit(t.Context(), api.AuditListRequest{LimitsTarget: api.LimitsTarget{System: true}})
	require.NoError(t, err)
	require.Len(t, page.Events, 1)
	require.Equal(t, api.Principal{User: "acme-admin", Account: "acme", Verified: true}, page.Events[0].Who)
}

// Operators manage namespaces and keys, and see who runs.
func TestOperatorsOperate(t *testing.T) {
	w := newWorld(t, "acme", "beta")
	w.runAdmission(t)
	w.runAdmission(t)
	_, err := w.operator(t).CreateNamespace(t.Context(), "gamma")
	require.NoError(t, err)
	_, err = w.operator(t).RotateLeaseKey(t.Context())
	require.NoError(t, err)

	nc := w.nats.connect(t, operatorUser)
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	require.NoError(t, err)
	require.NoError(t, nc.PublishRequest("$SRV.PING."+api.ServiceName, inbox, nil))
	ids := map[string]bool{}
	for range 2 {
		m, err := answers.NextMsg(patience)
		require.NoError(t, err)
		var node micro.Ping
		require.NoError(t, json.Unmarshal(m.Data, &node))
		ids[node.ID] = true
	}
	require.Len(t, ids, 2, "each node answers")
}
