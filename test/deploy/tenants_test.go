package deploy_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/events"
)

// short is how long an attempt waits for an answer that must not come.
const short = 100 * time.Millisecond

// attempt is something that the credentials of acme must not do, while everything
// runs. It fails for want of an answer, or is refused.
type attempt struct {
	what string
	try  func(ctx context.Context, as *tidegate.Client, js jetstream.JetStream) error
}

// attempts are against the namespace beta, of which leaked is a lease.
func attempts(leaked string) []attempt {
	own := tidegate.OverrideLimits(api.Limit{Name: "rpm", Capacity: 100, RefillAmount: 1, RefillPeriodSeconds: 60})
	return []attempt{
		{"reads balances", func(ctx context.Context, c *tidegate.Client, _ jetstream.JetStream) error {
			_, err := c.Status(ctx, "key", resource, nil)
			return err
		}},
		{"reads usage", func(ctx context.Context, c *tidegate.Client, _ jetstream.JetStream) error {
			_, err := c.Admin().Usage(ctx, api.UsageRequest{Entity: "key", Resource: resource, Window: api.WindowDaily})
			return err
		}},
		{"reads the audit log", func(ctx context.Context, c *tidegate.Client, _ jetstream.JetStream) error {
			_, err := c.Admin().ListAudit(ctx, api.AuditListRequest{LimitsTarget: api.LimitsTarget{System: true}})
			return err
		}},
		{"spends", func(ctx context.Context, c *tidegate.Client, _ jetstream.JetStream) error {
			_, err := c.Acquire(ctx, "key", resource, tidegate.Consume{"rpm": 1})
			return err
		}},
		{"spends by limits of its own", func(ctx context.Context, c *tidegate.Client, _ jetstream.JetStream) error {
			_, err := c.Acquire(ctx, "key", resource, tidegate.Consume{"rpm": 1}, own)
			return err
		}},
		{"releases a lease that leaked", func(ctx context.Context, c *tidegate.Client, _ jetstream.JetStream) error {
			return c.Lease(leaked).Release(ctx)
		}},
		{"changes limits", func(ctx context.Context, c *tidegate.Client, _ jetstream.JetStream) error {
			_, err := c.Admin().SetLimits(ctx, tenRPM(true))
			return err
		}},
		{"deletes the namespace", func(ctx context.Context, c *tidegate.Client, _ jetstream.JetStream) error {
			_, err := c.Operator().DeleteNamespace(ctx, "beta")
			return err
		}},
		{"rotates the lease key", func(ctx context.Context, c *tidegate.Client, _ jetstream.JetStream) error {
			_, err := c.Operator().RotateLeaseKey(ctx)
			return err
		}},
		{"reads the feed", func(ctx context.Context, _ *tidegate.Client, js jetstream.JetStream) error {
			_, err := js.Stream(ctx, events.StreamName)
			return err
		}},
		{"follows the feed", func(ctx context.Context, _ *tidegate.Client, js jetstream.JetStream) error {
			_, err := js.OrderedConsumer(ctx, events.StreamName, jetstream.OrderedConsumerConfig{})
			return err
		}},
		{"writes the feed", func(ctx context.Context, _ *tidegate.Client, js jetstream.JetStream) error {
			_, err := js.Publish(ctx, events.Subject(events.KindBucket, 0), []byte("{}"))
			return err
		}},
		{"reads the dead letters", func(ctx context.Context, _ *tidegate.Client, js jetstream.JetStream) error {
			_, err := js.Stream(ctx, "TIDEGATE_DLQ")
			return err
		}},
		{"reads the lease records", func(ctx context.Context, _ *tidegate.Client, js jetstream.JetStream) error {
			_, err := js.KeyValue(ctx, "TIDEGATE_LEASES")
			return err
		}},
		{"asks who runs", func(ctx context.Context, _ *tidegate.Client, js jetstream.JetStream) error {
			_, err := js.Conn().RequestWithContext(ctx, micro.APIPrefix+".PING", nil)
			return err
		}},
	}
}

// P9: whatever a tenant's credentials try in another's namespace, or behind it,
// fails, and the other has what it had.
func TestTenantsDoNotMeet(t *testing.T) {
	w := newWorld(t, "acme", "beta")
	w.runAdmission(t)
	w.runRelay(t)
	w.runAggregator(t, "one")
	limited(t, w, "acme")
	beta := limited(t, w, "beta")
	lease, err := beta.Acquire(t.Context(), "key", resource, tidegate.Consume{"rpm": 4})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.used(t, "beta") == 4 }, patience, 5*time.Millisecond)
	w.drained(t)
	before, stored := changes(t, w), w.stored(t)
	for _, user := range []string{"acme", "acme-override", "acme-admin"} {
		nc := w.nats.connect(t, user)
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		client, err := tidegate.New(nc, tidegate.WithNamespace("beta"), tidegate.WithTimeout(short))
		require.NoError(t, err)
		for _, a := range attempts(lease.Token()) {
			ctx, cancel := context.WithTimeout(t.Context(), short)
			require.Error(t, a.try(ctx, client, js), "%s %s", user, a.what)
			cancel()
		}
	}
	// In its own namespace the lease is no better.
	var refused *api.Error
	require.ErrorAs(t, w.client(t, "acme", "acme").Lease(lease.Token()).Release(t.Context()), &refused)
	require.Equal(t, api.CodeInvalidLease, refused.Code)

	require.Equal(t, before, changes(t, w))
	require.Equal(t, stored, w.stored(t))
	status, err := beta.Status(t.Context(), "key", resource, nil)
	require.NoError(t, err)
	require.EqualValues(t, 6, status.Limits[0].Available)
	require.EqualValues(t, 4, w.used(t, "beta"))
	require.Zero(t, w.used(t, "acme"))
	require.NoError(t, lease.Release(t.Context()), "it is still whole for whom it is")
}

// stored is how many messages JetStream has taken of what no tenant may publish.
func (w *world) stored(t *testing.T) map[string]uint64 {
	t.Helper()
	js := w.jetStream(t, relayUser)
	last := map[string]uint64{}
	for _, name := range []string{events.StreamName, "TIDEGATE_DLQ"} {
		stream, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		last[name] = stream.CachedInfo().State.LastSeq
	}
	return last
}
