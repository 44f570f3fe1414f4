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
	// Now dates the replies that the transport makes itself. Required.
	Now func() time.Time
	// Sleep waits, or returns the context's error when that ends first.
	// Default: a timer.
	Sleep func(context.Context, time.Duration) error
	// Latency, where set, delays every request, before or after the back end's
	// part by the toss of a coin: a caller that gives up early never knows.
	// Latencies holds for its operations instead.
	Latency   Latency
	Latencies map[string]Latency
	// Chances are the random faults, and Seed their origin: the nth request
	// meets the same draw in every run of the same seed.
	Chances []Chance
	Seed    uint64
	// Partitions, where set, throttles what partitions cannot serve.
	Partitions *Partitions
	// Stale reads see the state of a moment ago.
	Stale Stale
}

// Transport is an http.RoundTripper, and the SDK's HTTPClient, with faults. It
// is safe for concurrent use.
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

// New makes a transport that so far only has what Options say. It panics
// without a back end or a clock.
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

// Match sets the function that chooses faults by hand; nil: none. It is asked
// about each request, one at a time, before the random chances, which only
// strike where it returns the zero Fault. It must not keep the body.
func (t *Transport) Match(match func(operation string, body []byte) Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.match = match
}

// Wait returns when no late request is under way any more.
func (t *Transport) Wait() { t.late.Wait() }

// Do is RoundTrip under the name that the SDK calls.
func (t *Transport) Do(req *http.Request) (*http.Response, error) { return t.RoundTrip(req) }

// RoundTrip lets the request meet its fault.
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

// decide is the one place where faults are chosen. It also reports whether
// pages of streams are to be remembered: only for faults that may come.
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

// latency is the wait before and after the back end's part; one of them is 0.
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

// shipment is one request on its way.
type shipment struct {
	t         *Transport
	req       *http.Request
	body      []byte
	operation string
	random    *rand.Rand // owned by whoever carries the shipment
}

// meet is everything but lateness.
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

// deliver brings the request to the back end, past what stands before it.
func (s *shipment) deliver(ctx context.Context) (*http.Response, error) {
	return s.t.carry(ctx, s, s.body)
}

// send hands a request to the back end and counts what it consumed.
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

// request is the caller's with a body of its own.
func (s *shipment) request(ctx context.Context, body []byte) *http.Request {
	req := s.req.WithContext(ctx)
	if len(body) == 0 && s.req.Body == nil {
		return req
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = nil
	return req
}

// deliverLate sends the request off on its own. It arrives even when the
// caller has gone, which is what makes it interesting.
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

// refuse is the reply that stands in for the back end's.
func (s *shipment) refuse(r *Refusal) *http.Response { return s.reply(r.Status, r.body()) }

// reply is one of the layer's own.
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

// discard gives a connection back.
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
