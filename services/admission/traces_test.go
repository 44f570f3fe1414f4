package admission

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/client/oteltidegate"
)

const tpmOne = `{"entity":"key-1","resource":"gpt-4","consume":{"tpm":1}}`

// spanRecorder keeps the spans of a world: those of its nodes, and of callers.
type spanRecorder struct {
	*tracetest.InMemoryExporter
	*sdktrace.TracerProvider
}

func newRecorder(t *testing.T, w *world) spanRecorder {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	r := spanRecorder{exporter, sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))}
	w.traces = r.TracerProvider
	return r
}

// of waits until as many spans of a name have ended, and returns them.
func (r spanRecorder) of(t *testing.T, name string, n int) (spans tracetest.SpanStubs) {
	t.Helper()
	require.Eventually(t, func() bool {
		spans = nil
		for _, s := range r.GetSpans() {
			if s.Name == name {
				spans = append(spans, s)
			}
		}
		return len(spans) >= n
	}, patience, time.Millisecond, "%s: %d", name, n)
	require.Len(t, spans, n, name)
	return spans
}

func attributes(s tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// linked are the spans that a span is linked to.
func linked(s tracetest.SpanStub) (ids []trace.SpanID) {
	for _, l := range s.Links {
		ids = append(ids, l.SpanContext.SpanID())
	}
	return ids
}

// A caller's trace goes on in the node and to the store.
func TestOneTraceFromTheClientToTheStore(t *testing.T) {
	w := tpmWorld(t)
	r := newRecorder(t, w)
	w.node(t, Tuning{})
	client, err := tidegate.New(w.nats.Connect(t), oteltidegate.Traces(r.TracerProvider))
	require.NoError(t, err)
	lease, err := client.Acquire(t.Context(), "key-1", "gpt-4", tidegate.Consume{"tpm": 500}) // creates the bucket
	require.NoError(t, err)
	r.of(t, "admission acquire", 1)
	r.Reset()

	ctx, root := r.Tracer("caller").Start(tidegate.WithRequestID(t.Context(), "order-17"), "order")
	_, err = client.Acquire(ctx, "key-1", "gpt-4", tidegate.Consume{"tpm": 500})
	require.NoError(t, err)
	root.End()
	parent := r.of(t, "order", 1)[0]
	for _, name := range []string{"tidegate acquire", "admission acquire", "bucket commit", "DynamoDB.UpdateItem"} {
		s := r.of(t, name, 1)[0]
		require.Equal(t, parent.SpanContext.TraceID(), s.SpanContext.TraceID(), name)
		require.Equal(t, parent.SpanContext.SpanID(), s.Parent.SpanID(), "%s is a child of %s", name, parent.Name)
		parent = s
	}
	require.Equal(t, map[string]string{"tidegate.namespace": "default", "tidegate.request_id": "order-17", "tidegate.outcome": "ok"}, attributes(r.of(t, "admission acquire", 1)[0]))
	require.Equal(t, "order-17", attributes(r.of(t, "tidegate acquire", 1)[0])["tidegate.request_id"])
	require.Equal(t, "aws.dynamodb", attributes(parent)["db.system.name"])
	require.Len(t, r.GetSpans(), 5, "and nothing else is traced")

	// A settlement is one too.
	r.Reset()
	require.NoError(t, lease.Release(ctx))
	id := root.SpanContext().TraceID()
	require.Equal(t, id, r.of(t, "admission release", 1)[0].SpanContext.TraceID())
	require.Equal(t, id, r.of(t, "DynamoDB.UpdateItem", 1)[0].SpanContext.TraceID())
}

// A write of several requests is in the trace of one of them, and linked to all;
// each of the others is linked to it.
func TestOneWriteIsLinkedToAllItServes(t *testing.T) {
	const many = 6
	w := tpmWorld(t)
	r := newRecorder(t, w)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	acquire(t, nc, tpmOne)
	sent, release := n.hold(t, fault.Fault{})
	var replies []*nats.Subscription
	ask := func(i int) { replies = append(replies, sendAs(t, nc, api.VerbAcquire, "r"+strconv.Itoa(i), tpmOne)) }
	ask(0) // goes out alone
	<-sent
	for i := range many {
		ask(1 + i)
	}
	require.Eventually(t, func() bool { return n.pending.Load() == 1+many }, patience, time.Millisecond)
	r.of(t, "admission acquire", 1) // the one that made the bucket
	r.Reset()
	release()
	for _, s := range replies {
		require.Empty(t, replyTo(t, s).Header.Get(api.HeaderErrorCode))
	}

	requests := r.of(t, "admission acquire", 1+many)
	byID := map[trace.SpanID]tracetest.SpanStub{}
	for _, s := range requests {
		byID[s.SpanContext.SpanID()] = s
	}
	served := map[trace.SpanID]bool{}
	for _, write := range r.of(t, "bucket commit", 2) {
		links := linked(write)
		require.Contains(t, links, write.Parent.SpanID(), "it is in the trace of one that it serves")
		require.Equal(t, strconv.Itoa(len(links)), attributes(write)["tidegate.operations"])
		for _, id := range links {
			require.Contains(t, byID, id)
			served[id] = true
			if id != write.Parent.SpanID() {
				require.Contains(t, linked(byID[id]), write.SpanContext.SpanID(), "and back")
			}
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(byID)), slices.Collect(maps.Keys(served)))
}

// Spans say what went wrong on this side, and nothing else is an error.
func TestSpansTellFailures(t *testing.T) {
	w := tpmWorld(t)
	r := newRecorder(t, w)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	acquire(t, nc, tpmOne)
	r.of(t, "admission acquire", 1) // which ends behind the answer
	for _, c := range []struct {
		body, outcome string
		faults        func(string, []byte) fault.Fault
		failed        bool
	}{
		{tpmOne, "ok", nil, false},
		{`{"entity":"key-1","resource":"gpt-4","consume":{"tpm":1000000}}`, "denied", nil, false},
		{`{"entity":"key-1","resource":"gpt-4","consume":{"x":1}}`, "unknown_limit", nil, false},
		{tpmOne, "unavailable", func(string, []byte) fault.Fault { return fault.Fault{Kind: fault.Refused} }, true},
		{
			`{"entity":"key-1","resource":"gpt-4","consume":{"tpm":1},"on_unavailable":"allow"}`, "degraded",
			func(string, []byte) fault.Fault { return fault.Fault{Kind: fault.Refused} }, true,
		},
	} {
		n.faults.Match(c.faults)
		r.Reset()
		replyTo(t, sendAs(t, nc, api.VerbAcquire, "", c.body))
		s := r.of(t, "admission acquire", 1)[0]
		require.Equal(t, c.outcome, attributes(s)["tidegate.outcome"])
		require.Equal(t, c.failed, s.Status.Code.String() == "Error", c.outcome)
		for _, write := range r.GetSpans() {
			if write.Name == "bucket commit" || write.Name == "DynamoDB.UpdateItem" {
				require.Equal(t, c.failed, write.Status.Code.String() == "Error", "%s: %s", c.outcome, write.Name)
			}
		}
	}
}

// Headers are found in whatever case a caller's library has put them, and a trace
// that its caller does not keep is not kept here.
func TestTheCallerDecidesWhatIsTraced(t *testing.T) {
	w := tpmWorld(t)
	r := newRecorder(t, w)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	send := func(header, parent string) {
		t.Helper()
		m := nats.NewMsg(api.Subject(api.DefaultNamespace, api.VerbStatus))
		m.Data = []byte(`{"entity":"key-1","resource":"gpt-4"}`)
		m.Header[header] = []string{parent}
		_, err := nc.RequestMsg(m, patience)
		require.NoError(t, err)
	}
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"
	send("traceparent", parent+"00")
	for i, header := range []string{"traceparent", "Traceparent", "TRACEPARENT"} {
		send(header, parent+"01")
		require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", r.of(t, "admission status", i+1)[i].SpanContext.TraceID().String())
	}
	send("traceparent", "rubbish")
	require.False(t, r.of(t, "admission status", 4)[3].Parent.IsValid(), "a trace of its own")
}

// Where nobody wants traces, they cost nothing on the way of an acquire.
func TestTracesCostNothingWhenOff(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{})
	r := &request{service: n.Service, verb: api.VerbAcquire}
	calls := []*call{r.call(operation{}, func(shardResult) {}), r.call(operation{}, func(shardResult) {})}
	headers := nats.Header{"traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r.begin(headers)
		within, end := n.trace(ctx, spanCommit, 0, calls)
		end(nil)
		_ = traced(within, r.span)
		r.end(outcomeOK)
	}))
	require.Empty(t, r.made, "nor is an id made that nobody asks for")
}
