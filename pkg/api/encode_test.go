package api_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/api"
)

// referenceReply is AcquireReply as encoding/json would write it by tags alone.
type referenceReply struct {
	Allowed      bool              `json:"allowed"`
	Lease        *string           `json:"lease,omitempty"`
	Degraded     bool              `json:"degraded,omitempty"`
	RetryAfterMs int64             `json:"retry_after_ms,omitempty"`
	Never        bool              `json:"never,omitempty"`
	Limits       []api.LimitStatus `json:"limits"`
}

func TestAppendReplyIsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reply := api.AcquireReply{
			Allowed: rapid.Bool().Draw(t, "allowed"), Lease: rapid.String().Draw(t, "lease"), Degraded: rapid.Bool().Draw(t, "degraded"),
			RetryAfterMs: rapid.Int64().Draw(t, "retry"), Never: rapid.Bool().Draw(t, "never"),
			Limits: rapid.SliceOfN(statuses(), 0, 5).Draw(t, "limits"),
		}
		reference := referenceReply{reply.Allowed, nil, reply.Degraded, reply.RetryAfterMs, reply.Never, reply.Limits}
		if reply.Allowed {
			reference.Lease = &reply.Lease
		}
		want, err := json.Marshal(reference)
		require.NoError(t, err)
		require.Equal(t, string(want), string(reply.AppendJSON(nil)))

		back, err := api.DecodeAcquireReply(want)
		require.NoError(t, err)
		if !reply.Allowed {
			reply.Lease = ""
		}
		require.Equal(t, reply, back)
	})
}

func statuses() *rapid.Generator[api.LimitStatus] {
	return rapid.Custom(func(t *rapid.T) api.LimitStatus {
		return api.LimitStatus{
			Entity: rapid.String().Draw(t, "entity"), Resource: rapid.String().Draw(t, "resource"), Name: rapid.String().Draw(t, "name"),
			Capacity: rapid.Int64().Draw(t, "capacity"), Requested: rapid.Int64().Draw(t, "requested"), Available: rapid.Int64().Draw(t, "available"),
			Exceeded: rapid.Bool().Draw(t, "exceeded"), RetryAfterMs: rapid.Int64().Draw(t, "retry"), Never: rapid.Bool().Draw(t, "never"),
		}
	})
}

// TestAppendRequestIsEncodingJSON compares with the tags of the same struct,
// from which only Amounts has a form of its own.
func TestAppendRequestIsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := api.AcquireRequest{
			Entity: rapid.String().Draw(t, "entity"), Resource: rapid.String().Draw(t, "resource"),
			OnUnavailable: api.Policy(rapid.String().Draw(t, "policy")),
			Limits:        rapid.SliceOfN(rapid.Custom(drawLimit), 0, 3).Draw(t, "limits"),
		}
		counts := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,5}`), rapid.Int64(), 0, 5).Draw(t, "consume")
		for name, tokens := range counts {
			q.Consume = append(q.Consume, api.Amount{Name: name, Tokens: tokens})
		}
		want, err := json.Marshal(q)
		require.NoError(t, err)
		got := q.AppendJSON(nil)
		require.Equal(t, string(want), string(got))

		var back struct{ Consume map[string]int64 }
		require.NoError(t, json.Unmarshal(got, &back))
		require.Equal(t, counts, back.Consume)
	})
}

func drawLimit(t *rapid.T) api.Limit {
	period := rapid.Int64Range(1, api.MaxPeriodSeconds).Draw(t, "period")
	return api.Limit{
		Name:                rapid.StringMatching(`[a-zA-V][a-zA-Z0-9_.-]{0,9}`).Filter(func(s string) bool { return s != api.ReservedLimit }).Draw(t, "name"),
		Capacity:            rapid.Int64Range(1, api.MaxAmount).Draw(t, "capacity"),
		RefillAmount:        rapid.Int64Range(1, min(api.MaxAmount, api.MaxRate*period)).Draw(t, "amount"),
		RefillPeriodSeconds: period,
	}
}
