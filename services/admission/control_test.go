package admission

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
)

// scripted is a control plane that serves one verb.
type scripted struct {
	verb    api.Verb
	asked   chan config.AdminRequest
	refusal *api.Error
	check   error
}

func (s *scripted) Serves(v api.Verb) bool { return v == s.verb }

func (s *scripted) Serve(_ context.Context, q config.AdminRequest) ([]byte, *api.Error) {
	s.asked <- q
	return []byte(`{"served":true}`), s.refusal
}

func (s *scripted) Check(context.Context) error { return s.check }

// A node hands requests to its control plane as it received them. It starts only if the
// control plane agrees, and without a control plane it serves no admin verbs.
func TestTheControlPlane(t *testing.T) {
	t.Run("serves", func(t *testing.T) {
		w := newWorld(t)
		plane := &scripted{verb: api.VerbLimitsGet, asked: make(chan config.AdminRequest, 2)}
		w.control = plane
		w.node(t, Tuning{})
		nc := w.nats.Connect(t)
		reply := send(t, nc, api.VerbLimitsGet, `{"any":"body"}`, patience)
		require.JSONEq(t, `{"served":true}`, string(reply.Data))
		require.Equal(t, config.AdminRequest{Namespace: api.DefaultNamespace, NamespaceID: w.ns, Verb: api.VerbLimitsGet, Body: []byte(`{"any":"body"}`)}, <-plane.asked)
		require.Equal(t, api.CodeUnknownVerb, refused(t, nc, api.VerbLimitsSet, `{}`, patience).Code)

		plane.refusal = api.Errorf(api.CodeNotFound, "", "it is not there")
		require.Equal(t, plane.refusal, refused(t, nc, api.VerbLimitsGet, `{}`, patience))
	})
	start := func(t *testing.T, c Control) error {
		t.Helper()
		w, metrics := newWorld(t), prometheus.NewRegistry()
		nc := w.nats.Connect(t)
		store, clock, err := store.Clocked(w.config(w.http()), "admission", w.clock(), metrics)
		require.NoError(t, err)
		n, err := New(Config{
			NATS: nc, DynamoDB: store, Table: w.table, Clock: clock, Log: slog.New(slog.DiscardHandler), Metrics: metrics, Version: "0.0.0", Control: c,
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		select {
		case err := <-ended:
			return err
		case <-n.Ready():
		}
		require.Equal(t, api.CodeUnknownVerb, refused(t, w.nats.Connect(t), api.VerbLimitsGet, `{"resource":"r"}`, patience).Code)
		cancel()
		return <-ended
	}
	t.Run("refuses", func(t *testing.T) {
		refusal := errors.New("not like this")
		require.ErrorIs(t, start(t, &scripted{check: refusal}), refusal)
	})
	t.Run("is missing", func(t *testing.T) {
		require.NoError(t, start(t, nil))
	})
}
