package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Options configure a Transport.
type Options struct {
	// Next is the back end. Required.
	Next http.RoundTripper
	// Now returns the date for replies that the transport makes itself. Required.
	Now func() time.Time
	// Sleep waits, or returns the context's error if that ends first. Default: a
	// timer.
	Sleep func(context.Context, time.Duration) error
	// Latency, if set, delays every request, at random either before or after the
	// back end executes it: a caller that times out never knows. Latencies replaces
	// it for its operations.
	Latency   Latency
	Latencies map[string]Latency
	// Chances are the random faults, drawn with Seed: with the same seed, the nth
	// request gets the same draw in every run.
	Chances []Chance
	Seed    uint64
	// Partitions, if set, throttles requests that exceed the capacity of a partition.
	Partitions *Partitions
	// Stale makes reads return an earlier state.
	Stale Stale
}

// Transport is an http.RoundTripper, and the SDK's HTTPClient, that injects faults.
// It is safe for concurrent use.
type Transport struct {
	o       Options
	n       atomic.Uint64 // requests so far
	late    sync.WaitGroup
	counter counter
	schemas schemas
	pages   pages
	model   *model // nil: partitions serve everything
	carry   carry  // the way to the back end
	paging  bool   // whether a chance concerns pages of streams

	mu    sync.Mutex
	match func(operation string, body []byte) Fault // guarded by mu, and called under it
}

// New returns a transport with the Options. It panics without a back end or a clock.
func New(o Options) *Transport {
	if o.Next == nil || o.Now == nil {
		panic("fault: Options.Next and Options.Now are required")
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	t := &Transport{
		o:       o,
		counter: counter{byOperation: map[string]*Count{}, injected: map[Injection]int64{}},
		schemas: schemas{byTable: map[string]*schema{}},
		pages:   pages{kept: map[string][]json.RawMessage{}, held: map[string]time.Time{}},
		paging:  slices.ContainsFunc(o.Chances, func(c Chance) bool { return isPageFault(c.Fault.Kind) }),
	}
	t.carry = func(ctx context.Context, s *shipment, body []byte) (*http.Response, error) { return s.send(ctx, body) }
	if o.Stale.UpTo > 0 {
		t.carry = newPast(o.Stale, &t.schemas, t.carry).carry
	}
	if o.Partitions != nil {
		t.model = newModel(*o.Partitions, &t.schemas, t.carry)
		t.carry = t.model.carry
	}
	return t
}

// Match sets a function that chooses faults; nil removes it. The transport calls it
// with each request, never concurrently, before it draws the random chances, which
// strike only if the function returns the zero Fault. It must not keep the body.
func (t *Transport) Match(match func(operation string, body []byte) Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.match = match
}

// Wait returns when no late request is under way.
func (t *Transport) Wait() { t.late.Wait() }

// Do implements the SDK's HTTPClient like RoundTrip.
func (t *Transport) Do(req *http.Request) (*http.Response, error) { return t.RoundTrip(req) }

// RoundTrip executes the request with its fault.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readAll(req.Body, req.ContentLength)
	if err != nil {
		return nil, fmt.Errorf("read the request's body: %w", err)
	}
	var source rand.PCG
	source.Seed(t.o.Seed, t.n.Add(1))
	s := &shipment{t: t, req: req, body: body, operation: operationOf(req), random: rand.New(&source)}
	f, paging := t.decide(s)
	t.counter.add(s.operation, Count{Calls: 1})
	if f.Kind != None && !isPageFault(f.Kind) {
		t.inject(s, f, f.Kind)
	}
	before, after := t.latency(s)
	if f.Kind == Late {
		return s.deliverLate(f, before)
	}
	if f.Kind != ShardHeld {
		before += f.Delay
	}
	if err := t.wait(req.Context(), before); err != nil {
		return nil, err
	}
	var resp *http.Response
	if paging && s.operation == "GetRecords" && (f.Kind == None || isPageFault(f.Kind)) {
		resp, err = t.carryPage(req.Context(), s, f)
	} else {
		resp, err = s.meet(f)
	}
	if err != nil {
		return nil, err
	}
	if err := t.wait(req.Context(), after); err != nil {
		discard(resp)
		return nil, err
	}
	return resp, nil
}

// decide chooses the fault of a request; no other code does. It also reports whether
// the transport must keep pages of streams, which it does only for possible faults.
func (t *Transport) decide(s *shipment) (f Fault, paging bool) {
	drawn := pick(t.o.Chances, s.operation, s.random)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.match == nil {
		return drawn, t.paging
	}
	if f := t.match(s.operation, s.body); f.Kind != None || f.Delay != 0 {
		return f, true
	}
	return drawn, true
}

// latency returns the wait before and after the back end's part; at most one of them
// is not 0.
func (t *Transport) latency(s *shipment) (before, after time.Duration) {
	latency, own := t.o.Latencies[s.operation]
	if !own {
		latency = t.o.Latency
	}
	if latency == nil {
		return 0, 0
	}
	d := latency(s.random)
	if s.random.Uint64()&1 == 0 {
		return d, 0
	}
	return 0, d
}

func (t *Transport) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	return t.o.Sleep(ctx, d)
}

// shipment is a request under way.
type shipment struct {
	t         *Transport
	req       *http.Request
	body      []byte
	operation string
	random    *rand.Rand // owned by the goroutine that carries the shipment
}

// meet applies every fault except Late.
func (s *shipment) meet(f Fault) (*http.Response, error) {
	switch f.Kind {
	case Refused:
		return s.refuse(f.Refusal.orInternalError()), nil
	case Unreachable:
		return nil, orElse(f.Err, syscall.ECONNREFUSED)
	case Hangs:
		<-s.req.Context().Done()
		return nil, s.req.Context().Err()
	case None, FailedAfter, ReplyLost, ReplyHangs, Late, PageAgain, PageOverlaps, ShardHeld, StaleRead:
	}
	resp, err := s.deliver(s.req.Context())
	if err != nil || f.Kind == None || isPageFault(f.Kind) {
		return resp, err
	}
	discard(resp)
	switch f.Kind {
	case FailedAfter:
		return s.refuse(f.Refusal.orInternalError()), nil
	case ReplyHangs:
		<-s.req.Context().Done()
		return nil, s.req.Context().Err()
	case ReplyLost, None, Refused, Unreachable, Hangs, Late, PageAgain, PageOverlaps, ShardHeld, StaleRead:
	}
	return nil, orElse(f.Err, io.ErrUnexpectedEOF)
}

// deliver sends the request through the layers before the back end.
func (s *shipment) deliver(ctx context.Context) (*http.Response, error) {
	return s.t.carry(ctx, s, s.body)
}

// send sends a request to the back end and counts the units that it consumed.
func (s *shipment) send(ctx context.Context, body []byte) (*http.Response, error) {
	resp, err := s.t.o.Next.RoundTrip(s.request(ctx, body))
	if err != nil {
		return nil, err
	}
	s.t.schemas.forget(s.operation, s.body)
	used, err := consumed(resp, s.operation)
	if err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	s.t.counter.add(s.operation, used)
	return resp, nil
}

// request returns the caller's request with another body.
func (s *shipment) request(ctx context.Context, body []byte) *http.Request {
	req := s.req.WithContext(ctx)
	if len(body) == 0 && s.req.Body == nil {
		return req
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = nil
	return req
}

// deliverLate sends the request independently of the caller: it arrives even after
// the caller has given up.
func (s *shipment) deliverLate(f Fault, latency time.Duration) (*http.Response, error) {
	arrived := make(chan struct{})
	s.t.late.Go(func() {
		defer close(arrived)
		ctx := context.WithoutCancel(s.req.Context())
		if s.t.wait(ctx, latency+f.Delay) != nil {
			return
		}
		if resp, err := s.deliver(ctx); err == nil {
			discard(resp)
		}
	})
	select {
	case <-s.req.Context().Done():
		return nil, s.req.Context().Err()
	case <-arrived:
		return nil, orElse(f.Err, io.ErrUnexpectedEOF)
	}
}

// refuse returns a reply that replaces the back end's reply.
func (s *shipment) refuse(r *Refusal) *http.Response { return s.reply(r.Status, r.body()) }

// reply returns a reply that the layer makes itself.
func (s *shipment) reply(status int, body []byte) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":     {"application/x-amz-json-1.0"},
			"Date":             {s.t.o.Now().UTC().Format(http.TimeFormat)},
			"X-Amz-Crc32":      {strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)},
			"X-Amzn-Requestid": {"FAULT"},
		},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: s.req,
	}
}

func operationOf(req *http.Request) string {
	_, operation, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	return operation
}

func orElse(err, fallback error) error {
	if err != nil {
		return err
	}
	return fallback
}

// readAll reads and closes a body of a known or unknown (-1) length.
func readAll(body io.ReadCloser, length int64) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	var b []byte
	var err error
	if length >= 0 {
		b = make([]byte, length)
		_, err = io.ReadFull(body, b)
	} else {
		b, err = io.ReadAll(body)
	}
	return b, errors.Join(err, body.Close())
}

// discard drops the reply and releases its connection.
func discard(resp *http.Response) {
	_, _ = io.Copy(io.Discard, resp.Body) // the reply is meant to be lost
	_ = resp.Body.Close()
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
