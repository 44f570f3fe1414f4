package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/live"
)

const (
	// pendingMessages and pendingBytes bound the messages that the NATS client holds for a
	// listener before it drops some: more than the queue, so that the service sheds them,
	// with an answer.
	pendingMessages = 65536
	pendingBytes    = 256 << 20
	// awayTime is how long a node that stops waits for NATS to come back: enough to find
	// another server of a cluster, and less than callers wait for an answer.
	awayTime = time.Second
	// flushTime bounds a round trip to the NATS server.
	flushTime = 2 * time.Second
)

// errAway says that no NATS server could be told that the node takes no more requests.
var errAway = errors.New("NATS is away")

// listener takes the messages of NATS for a node: requests, and changes of configuration.
type listener struct {
	*Service
	micro   micro.Service // on duty with the endpoint of the requests, away without; see duty.Group
	changes *nats.Subscription
	others  int // number of subscriptions of the connection without the service
	failed  chan struct{}
	busy    atomic.Int64 // monotonic time at which handle began; 0: it does not run
}

// listen subscribes to requests and to configuration changes.
func (s *Service) listen() (*listener, error) {
	l := &listener{Service: s, failed: make(chan struct{})}
	s.nats.SetClosedHandler(func(*nats.Conn) { close(l.failed) })
	var err error
	if l.changes, err = s.nats.Subscribe(api.ConfigSubjectAll, l.configChanged); err != nil {
		return nil, fmt.Errorf("admission: subscribe to configuration changes: %w", err)
	}
	if err := s.watchDuty(l); err != nil {
		return nil, err
	}
	l.others = s.nats.NumSubscriptions()
	if err := l.Return(); err != nil {
		return nil, err
	}
	return l, nil
}

// register adds the node to the list of services, without an endpoint.
func (l *listener) register() (err error) {
	s := l.Service
	l.micro, err = micro.AddService(s.nats, micro.Config{
		Name:         api.ServiceName,
		Version:      s.version,
		Description:  "Tidegate admission: may this be spent?",
		QueueGroup:   api.QueueGroup,
		StatsHandler: func(*micro.Endpoint) any { return s.serviceStatus() },
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			s.log.Error("NATS reports an error", "subject", e.Subject, "error", e.Description)
		},
	})
	if err != nil {
		return fmt.Errorf("admission: add the micro service: %w", err)
	}
	return nil
}

// Return implements duty.Group: it subscribes to the requests.
func (l *listener) Return() error {
	if l.micro != nil {
		_ = l.micro.Stop() // the connection may have broken, which ends it too
	}
	if err := l.register(); err != nil {
		return err
	}
	// A single endpoint: to decode a request takes less time than the client library needs
	// to hand it to a second endpoint, and requests keep their order.
	err := l.micro.AddEndpoint("requests", micro.HandlerFunc(l.handle),
		micro.WithEndpointSubject(api.SubjectAll),
		micro.WithEndpointPendingLimits(pendingMessages, pendingBytes))
	if err != nil {
		return fmt.Errorf("admission: add the endpoint: %w", err)
	}
	if err := l.nats.FlushTimeout(flushTime); err != nil {
		return fmt.Errorf("admission: announce the service: %w", err)
	}
	return nil
}

// serviceStatus returns the node's status for the list of services.
func (s *Service) serviceStatus() api.ServiceStatus {
	if cause := s.duty.Away(); cause != "" {
		return api.ServiceStatus{Warning: "takes no requests: " + cause}
	}
	if !s.follower.Following() {
		return api.ServiceStatus{Warning: "the change feed is not followed"}
	}
	return api.ServiceStatus{}
}

// stop takes no more requests and returns when all received requests are handed over.
// more returns the number of subscriptions that the node has made since the start. stop
// fails with errAway if there is no server: then no more requests can come.
func (l *listener) stop(ctx context.Context, more func() int) error {
	if l.nats.IsClosed() {
		return nil
	}
	if err := l.micro.Stop(); err != nil {
		return fmt.Errorf("admission: stop the micro service: %w", err)
	}
	// A drained subscription removes itself after its last message; micro does
	// not tell when.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	away := time.NewTimer(awayTime)
	defer away.Stop()
	for l.nats.NumSubscriptions() > l.others+more() {
		if l.nats.IsConnected() {
			away.Reset(awayTime)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("admission: stop the micro service: %w", ctx.Err())
		case <-away.C:
			return errAway
		case <-tick.C:
		}
	}
	return nil
}

// handle takes a message. It runs on the subscription's goroutine, so it only decodes and
// hands over, and never blocks.
func (l *listener) handle(m micro.Request) {
	r := &request{service: l.Service, body: m.Data(), inbox: m.Reply(), received: l.clock.Mono(), verb: verbUnknown}
	l.busy.Store(int64(r.received))
	defer l.busy.Store(0)
	r.tellsTime = m.Headers().Get(api.HeaderTimeout) != "" || m.Headers().Get(api.HeaderDeadline) != ""
	if id := m.Headers().Get(api.HeaderRequestID); api.IsRequestID(id) {
		r.given = id
	}
	r.begin(m.Headers())
	l.requests.Add(1)
	mayAnswer := api.MayAnswer(r.inbox)
	if !mayAnswer {
		r.inbox = "" // not even a refusal is sent
	}
	if l.pending.Add(1) > int64(l.tuning.Queue) {
		l.metrics.shed[scopeNode].Inc()
		r.refuse(overloaded())
		return
	}
	defer r.rescue()
	if !mayAnswer {
		r.refuse(api.Errorf(api.CodeForbidden, "", "no answer goes to the subject that the request names for it"))
		return
	}
	if err := r.waitsUntil(m.Headers()); err != nil {
		if _, verb, ok := api.ParseSubject(m.Subject()); ok && l.route(verb) != nil {
			r.verb = verb // for metrics
		}
		r.refuse(asError(err))
		return
	}
	r.info = m.Headers().Get(api.HeaderRequestInfo)
	l.dispatch(r, m.Subject())
}

// verbUnknown is the verb of unknown verbs in metrics.
const verbUnknown = "unknown"

// dispatch routes a request by its subject.
func (l *listener) dispatch(r *request, subject string) {
	name, verb, ok := api.ParseSubject(subject)
	if !ok {
		r.refuse(api.Errorf(api.CodeUnknownVerb, "", "the subject names no namespace and verb"))
		return
	}
	serve := l.route(verb)
	if serve == nil {
		r.refuse(api.Errorf(api.CodeUnknownVerb, "", "there is no verb %.50q", verb))
		return
	}
	r.verb, r.namespace = verb, name
	switch {
	case !verb.ServedIn(name):
		r.refuse(api.Errorf(api.CodeUnknownVerb, "", "there is no verb %q under %q", verb, name))
		return
	case name == api.OperatorNamespace:
		r.namespaceID = keys.Registry
		serve(r)
		return
	}
	if id, known := l.namespaces.Cached(name); known {
		r.namespaceID = id
		serve(r)
		return
	}
	l.apart(r, func(ctx context.Context) {
		id, err := l.namespaces.Lookup(ctx, name, (r.answerBy()-l.clock.Mono())/askDivisor)
		if err != nil {
			l.nowhere(r, l.storeError(ctx, "look up the namespace", err))
			return
		}
		r.namespaceID = id
		serve(r)
	})
}

// nowhere answers a request after the look-up of its namespace failed. A valid acquire is
// answered by its own unavailable policy: stored policies are unknown.
func (l *listener) nowhere(r *request, refusal *api.Error) {
	override := r.verb == api.VerbAcquireOverride
	if (r.verb != api.VerbAcquire && !override) || refusal.Code != api.CodeUnavailable {
		r.refuse(refusal)
		return
	}
	req, err := api.DecodeAcquire(r.body, override)
	if err != nil {
		r.refuse(asError(err))
		return
	}
	(&acquisition{request: r, req: &req}).undecided(result{shardResult: shardResult{err: refusal}})
}

// route returns the handler of a verb; nil for an unknown verb. Acquires are handed over
// at once; all other verbs do I/O and run apart.
func (s *Service) route(verb api.Verb) func(*request) {
	switch {
	case verb == api.VerbAcquire:
		return s.acquire
	case verb == api.VerbAcquireOverride:
		return s.acquireOverride
	case verb == api.VerbAdjust:
		return func(r *request) { s.apart(r, func(ctx context.Context) { s.adjust(ctx, r) }) }
	case verb == api.VerbRelease:
		return func(r *request) { s.apart(r, func(ctx context.Context) { s.release(ctx, r) }) }
	case verb == api.VerbStatus:
		return func(r *request) { s.apart(r, func(ctx context.Context) { s.status(ctx, r) }) }
	case s.control != nil && s.control.Serves(verb):
		return func(r *request) { s.apart(r, func(ctx context.Context) { s.administer(ctx, r) }) }
	}
	return nil
}

// apart runs work with I/O in the background, until the answer is due.
func (s *Service) apart(r *request, work func(context.Context)) {
	s.pool.Go(func() {
		ctx, cancel := context.WithTimeout(r.about(), r.answerBy()-s.clock.Mono())
		defer cancel()
		defer r.rescue()
		work(ctx)
	})
}

// administer serves the admin verbs.
func (s *Service) administer(ctx context.Context, r *request) {
	reply, refusal := s.control.Serve(ctx, config.AdminRequest{Namespace: r.namespace, NamespaceID: r.namespaceID, Info: r.info, Verb: r.verb, Body: r.body})
	if refusal != nil {
		r.refuse(refusal)
		return
	}
	r.respond(reply)
}

// configChanged invalidates the settings that a change of configuration may concern. If in
// doubt it invalidates more: to resolve settings again is cheap.
func (l *listener) configChanged(m *nats.Msg) {
	name, _ := api.ParseConfigSubject(m.Subject)
	if name == api.OperatorNamespace {
		l.namespaceChanged(m)
		return
	}
	id, known := l.namespaces.Cached(name)
	target, err := api.DecodeConfigChange(m.Data)
	if err != nil {
		l.log.Warn("a configuration change cannot be read: everything is resolved again", "error", err)
		l.memory.invalidations.AllChanged()
		return
	}
	if !known {
		id = "" // the namespace may still have buckets in memory: mark the buckets of all namespaces
	}
	l.memory.Changed(live.Place{Namespace: id, Entity: target.Entity, Resource: target.Resource})
}

// namespaceChanged makes the next request in a namespace look it up again.
func (l *listener) namespaceChanged(m *nats.Msg) {
	change, err := api.DecodeNamespaceChange(m.Data)
	if err != nil {
		l.log.Warn("a change of a namespace cannot be read: it is noticed within a minute", "error", err)
		return
	}
	l.memory.NamespaceChanged(change.Name)
}
