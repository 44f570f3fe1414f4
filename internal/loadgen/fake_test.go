package loadgen

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// fake answers like Tidegate, from buckets that never refill: limits are per
// ten years.
type fake struct {
	mu       sync.Mutex
	limits   []api.Limit
	spent    map[string]int64 // by limit; of all entities together
	leases   map[string]int64 // tpm held
	acquires int
	broken   bool                     // admits whatever is spent already
	on       func(acquire int) string // an error code to answer with, or ""
}

func tenYears(name string, tokens int64) api.Limit {
	return api.Limit{Name: name, Capacity: tokens, RefillAmount: 1, RefillPeriodSeconds: api.MaxPeriodSeconds}
}

// start serves on a NATS server of its own.
func (f *fake) start(t *testing.T) *tidegate.Client {
	t.Helper()
	f.spent, f.leases = map[string]int64{}, map[string]int64{}
	ns := natstest.Start(t)
	nc := ns.Connect(t)
	_, err := nc.Subscribe(api.SubjectAll, func(m *nats.Msg) {
		reply := nats.NewMsg(m.Reply)
		answer := f.answer(m)
		if refusal, ok := answer.(*api.Error); ok {
			reply.Header.Set(api.HeaderErrorCode, strconv.Itoa(refusal.Status()))
		}
		data, err := json.Marshal(answer)
		if reply.Data = data; err == nil {
			err = m.RespondMsg(reply)
		}
		if err != nil {
			t.Error(err)
		}
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	client, err := tidegate.New(ns.Connect(t))
	require.NoError(t, err)
	return client
}

func (f *fake) answer(m *nats.Msg) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, verb, _ := api.ParseSubject(m.Subject)
	var q struct {
		Consume, Deltas map[string]int64
		Lease           string
		Limits          []api.Limit
	}
	if err := json.Unmarshal(m.Data, &q); err != nil {
		return api.Errorf(api.CodeMalformedJSON, "", "%v", err)
	}
	switch verb {
	case api.VerbAcquire:
		return f.acquire(q.Consume)
	case api.VerbAdjust:
		f.leases[q.Lease] += q.Deltas[LimitTokens]
		f.spent[LimitTokens] += q.Deltas[LimitTokens]
		return api.AdjustReply{Lease: q.Lease}
	case api.VerbLimitsResolve:
		return api.LimitsResolveReply{Limits: f.limits}
	case api.VerbLimitsGet:
		return api.LimitsLevel{Limits: f.limits}
	case api.VerbLimitsSet:
		f.limits = q.Limits
		return api.LimitsLevel{Limits: f.limits}
	}
	return api.Errorf(api.CodeUnknownVerb, "", "%s", verb)
}

func (f *fake) acquire(consume map[string]int64) any {
	f.acquires++
	if f.on != nil {
		if code := f.on(f.acquires); code != "" {
			return api.Errorf(api.Code(code), "", "planted")
		}
	}
	reply := api.AcquireReply{Allowed: true, Lease: strconv.Itoa(f.acquires)}
	for _, l := range f.limits {
		s := api.LimitStatus{Name: l.Name, Capacity: l.Capacity, Requested: consume[l.Name]}
		if !f.broken && f.spent[l.Name]+consume[l.Name] > l.Capacity {
			s.Exceeded, s.RetryAfterMs = true, 1000
			reply.Allowed, reply.Lease, reply.RetryAfterMs = false, "", 1000
		}
		reply.Limits = append(reply.Limits, s)
	}
	if reply.Allowed {
		f.leases[reply.Lease] = consume[LimitTokens]
		for name, n := range consume {
			f.spent[name] += n
		}
	}
	return reply
}

// node serves metrics as an admission node does; they grow with each look.
func node(t *testing.T, looks ...string) string {
	t.Helper()
	var mu sync.Mutex
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if len(looks) == 0 {
			http.Error(w, "gone", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("# TYPE tidegate_admission_pending_requests gauge\ntidegate_admission_pending_requests 0\n" + looks[0]))
		looks = looks[1:]
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}
