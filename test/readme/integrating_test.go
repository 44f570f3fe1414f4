package readme_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// connect returns a client for the tenant acme. Options hold its credentials:
// nats.UserCredentials("acme.creds"), nats.UserInfo("acme", password),
// nats.RootCAs("ca.crt"), nats.ClientCert("client.crt", "client.key").
func connect(url string, options ...nats.Option) (*tidegate.Client, error) {
	options = append(options,
		nats.Name("checkout"),        // shown in the tools of NATS
		nats.MaxReconnects(-1),       // reconnect for as long as it takes
		tidegate.LeaveHungServers(),  // after 2 s without a sign of life
		tidegate.InboxPrefix("acme"), // the permissions allow replies under it only
	)
	nc, err := nats.Connect(url, options...)
	if err != nil {
		return nil, err
	}
	return tidegate.New(nc, tidegate.WithNamespace("acme"))
}

// limited passes a request to next if its API key may spend 1 of the limit rpm on
// the resource "orders". Otherwise it answers 429 with a retry-after.
func limited(client *tidegate.Client, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := client.Acquire(r.Context(), r.Header.Get("Api-Key"), "orders", tidegate.Consume{"rpm": 1})
		var denied *tidegate.DeniedError
		var refused *tidegate.Error
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.As(err, &denied):
			seconds := math.Ceil(denied.Jittered().Seconds())
			w.Header().Set("Retry-After", strconv.FormatFloat(seconds, 'f', 0, 64))
			http.Error(w, "slow down", http.StatusTooManyRequests)
		case errors.As(err, &refused) && refused.Code == api.CodeInvalidEntity:
			http.Error(w, "that is no API key", http.StatusUnauthorized)
		default: // unknown: no decision was possible; log err, which has the request's ID
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
	})
}

// patiently acquires, and after a denial waits and retries until ctx ends.
func patiently(ctx context.Context, client *tidegate.Client, entity, resource string, consume tidegate.Consume) (*tidegate.Lease, error) {
	for {
		lease, err := client.Acquire(ctx, entity, resource, consume)
		var denied *tidegate.DeniedError
		if !errors.As(err, &denied) || denied.Never {
			return lease, err
		}
		select {
		case <-time.After(denied.Jittered()):
		case <-ctx.Done():
			return nil, err // the denial says more than ctx.Err()
		}
	}
}

// reserve spends an estimate, and returns the token that settles it.
func reserve(ctx context.Context, client *tidegate.Client, tokens int64) (string, error) {
	lease, err := client.Acquire(ctx, "api-key-123", "gpt-4", tidegate.Consume{"tpm": tokens},
		tidegate.OnUnavailable(tidegate.Allow)) // fail open
	if err != nil {
		return "", err
	}
	return lease.Token(), nil // empty if the admission was degraded: settling it does nothing
}

// settle corrects the estimate by the difference, in any process.
func settle(ctx context.Context, client *tidegate.Client, token string, difference int64) error {
	return client.Lease(token).Adjust(ctx, tidegate.Deltas{"tpm": difference})
}

// provision sets a customer's own limits and makes the plan its parent. The plan's
// limits apply to all its customers together. It needs the tenant's admin user.
func provision(ctx context.Context, admin tidegate.Admin, customer, plan string) error {
	_, err := admin.CreateEntity(ctx, api.EntityCreateRequest{ID: customer, Parent: plan, Cascade: true})
	var refused *tidegate.Error
	if err != nil && (!errors.As(err, &refused) || refused.Code != api.CodeAlreadyExists) {
		return err
	}
	_, err = admin.SetLimits(ctx, api.LimitsSetRequest{
		LimitsTarget: api.LimitsTarget{Entity: customer},
		Limits:       []api.Limit{{Name: "rpm", Capacity: 200, RefillAmount: 100, RefillPeriodSeconds: 60}},
	})
	return err
}

// The functions of docs/go.md do what they say.
func TestIntegratingFromGo(t *testing.T) {
	s := share(t, "")
	run := func(command string) {
		t.Helper()
		output, code := s.shell(t, command)
		require.Zero(t, code, output)
	}
	run("tidegate namespace create acme")
	run("tidegate limits set --resource orders rpm=2/day --namespace acme")
	run("tidegate limits set --resource gpt-4 tpm=1000/day --namespace acme")
	run("tidegate limits set --resource ticks rpm=1/second --namespace acme")
	client, err := connect(s.NATS)
	require.NoError(t, err)

	t.Run("limited", func(t *testing.T) {
		server := limited(client, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		codes := []int{}
		for _, key := range []string{"key", "key", "key", ""} {
			request, reply := httptest.NewRequest(http.MethodGet, "/", http.NoBody), httptest.NewRecorder()
			request.Header.Set("Api-Key", key)
			server.ServeHTTP(reply, request)
			codes = append(codes, reply.Code)
			if reply.Code == http.StatusTooManyRequests {
				seconds, err := strconv.Atoi(reply.Header().Get("Retry-After"))
				require.NoError(t, err)
				require.Greater(t, seconds, 40_000, "half a day for one of two a day")
			}
		}
		require.Equal(t, []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests, http.StatusUnauthorized}, codes)
	})
	t.Run("patiently", func(t *testing.T) {
		for range 2 {
			_, err := patiently(t.Context(), client, "key", "ticks", tidegate.Consume{"rpm": 1})
			require.NoError(t, err)
		}
		var denied *tidegate.DeniedError
		_, err := patiently(t.Context(), client, "key", "ticks", tidegate.Consume{"rpm": 2})
		require.ErrorAs(t, err, &denied)
		require.True(t, denied.Never)
	})
	t.Run("reserve and settle", func(t *testing.T) {
		token, err := reserve(t.Context(), client, 500)
		require.NoError(t, err)
		require.NoError(t, settle(t.Context(), client, token, -180))
		status, err := client.Status(t.Context(), "api-key-123", "gpt-4", nil)
		require.NoError(t, err)
		require.EqualValues(t, 680, status.Limits[0].Available)
		require.NoError(t, settle(t.Context(), client, "", -180), "of a lease that nobody gave")
	})
	t.Run("provision", func(t *testing.T) {
		run("tidegate entity create pro --namespace acme")
		run("tidegate limits set --entity pro rpm=10000/min --namespace acme")
		for range 2 { // it may be called again
			require.NoError(t, provision(t.Context(), client.Admin(), "customer", "pro"))
		}
		lease, err := client.Acquire(t.Context(), "customer", "orders", tidegate.Consume{"rpm": 1})
		require.NoError(t, err)
		capacities := map[string]int64{}
		for _, l := range lease.Limits() {
			capacities[l.Entity] = l.Capacity
		}
		require.Equal(t, map[string]int64{"customer": 200, "pro": 10_000}, capacities)
	})
	t.Run("nobody", func(t *testing.T) {
		nobody, err := tidegate.New(s.connect(t), tidegate.WithNamespace("nowhere"))
		require.NoError(t, err)
		reply := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		request.Header.Set("Api-Key", "key")
		limited(nobody, nil).ServeHTTP(reply, request)
		require.Equal(t, http.StatusServiceUnavailable, reply.Code)
	})
}
