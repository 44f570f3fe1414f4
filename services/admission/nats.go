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
)

// errAway says that no NATS server could be told that the node takes no more requests.
var errAway = errors.New("NATS is away")

// listener takes the messages of NATS for a node: requests, and changes of configuration.
type listener struct {
	*Service
	micro   micro.Service // lists the node; it handles no requests
	changes *nats.Subscription
	intakes []*nats.Subscription // of requests
	failed  chan struct{}
}

// listen subscribes to requests and to configuration changes.
func (s *Service) listen() (*listener, error) {
	l := &listener{Service: s, failed: make(chan struct{})}
	s.nats.SetClosedHandler(func(*nats.Conn) { close(l.failed) })
	var err error
	if l.changes, err = s.nats.Subscribe(api.ConfigSubjectAll, l.configChanged); err != nil {
		return nil, fmt.Errorf("admission: subscribe to configuration changes: %w", err)
	}
	if l.micro, err = s.list(); err != nil {
		return nil, err
	}
	for _, e := range l.endpoints() {
		intake, err := s.nats.QueueSubscribe(e.subject, api.QueueGroup, e.handler)
		if err == nil {
			err = intake.SetPendingLimits(pendingMessages, pendingBytes)
		}
		if err != nil {
			return nil, fmt.Errorf("admission: subscribe to %s: %w", e.subject, err)
		}
		l.intakes = append(l.intakes, intake)
	}
	if err := s.nats.Flush(); err != nil {
		return nil, fmt.Errorf("admission: announce the service: %w", err)
	}
	return l, nil
}

// endpoint is a subscription to some of the verbs, in all namespaces.
type endpoint struct {
	subject string
	handler nats.MsgHandler
}

// endpoints returns the subscriptions of a node. Their subjects do not overlap: within a
// queue group, NATS would give a request to either of two subscriptions. Each has a
// goroutine and a queue in the NATS client, so that no other verb waits before an acquire.
func (l *listener) endpoints() []endpoint {
	every := func(verb api.Verb) string { return api.Subject("*", verb) }
	return []endpoint{
		{every(api.VerbAcquire), l.handle},
		{every(api.VerbAcquireOverride), l.handle},
		{every(api.VerbAdjust), l.handle},
		{every(api.VerbRelease), l.handle},
		{every(api.VerbStatus), l.handleControl},
		{every(api.VerbsAdmin), l.handleControl},
	}
}

// list puts the node on the list of services. The framework's requests do not show the size
// of a header block, which senderInfo needs: so it serves the node's status alone.
func (s *Service) list() (micro.Service, error) {
	listed, err := micro.AddService(s.nats, micro.Config{
		Name:         api.ServiceName,
		Version:      s.version,
		Description:  "Tidegate admission: may this be spent?",
		StatsHandler: func(*micro.Endpoint) any { return s.serviceStatus() },
	})
	if err != nil {
		return nil, fmt.Errorf("admission: add the micro service: %w", err)
	}
	answer := micro.HandlerFunc(func(r micro.Request) { _ = r.RespondJSON(s.serviceStatus()) }) // the caller may be gone
	err = listed.AddEndpoint("status", answer, micro.WithEndpointSubject(api.StatusSubject(api.ServiceAdmission)), micro.WithEndpointQueueGroupDisabled())
	if err != nil {
		return nil, fmt.Errorf("admission: add the endpoint: %w", err)
	}
	return listed, nil
}

// serviceStatus returns the node's status for the list of services.
func (s *Service) serviceStatus() api.ServiceStatus {
	if !s.follower.Following() {
		return api.ServiceStatus{Warning: "the change feed is not followed"}
	}
	return api.ServiceStatus{}
}

// stop takes no more requests and returns when all received requests are handed over. It
// fails with errAway if there is no server: then no more requests can come.
func (l *listener) stop(ctx context.Context) error {
	if l.nats.IsClosed() {
		return nil
	}
	if err := l.micro.Stop(); err != nil {
		return fmt.Errorf("admission: stop the micro service: %w", err)
	}
	// A drained subscription closes after its last message.
	closed := make(chan struct{})
	open := new(atomic.Int64)
	open.Store(int64(len(l.intakes)))
	for _, intake := range l.intakes {
		intake.SetClosedHandler(func(string) {
			if open.Add(-1) == 0 {
				close(closed)
			}
		})
		if err := intake.Drain(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			return fmt.Errorf("admission: stop the requests: %w", err)
		}
	}
	tick := time.NewTicker(awayTime / 100)
	defer tick.Stop()
	away := time.NewTimer(awayTime)
	defer away.Stop()
	for {
		select {
		case <-closed:
			return nil
		case <-l.failed:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("admission: stop the requests: %w", ctx.Err())
		case <-away.C:
			return errAway
		case <-tick.C:
			if l.nats.IsConnected() {
				away.Reset(awayTime)
			}
		}
	}
}

// handle takes an acquire or a settlement. It runs on the subscription's goroutine, so it
// only decodes and hands over, and never blocks.
func (l *listener) handle(m *nats.Msg) {
	r := l.receive(m)
	if l.pending.Add(1) > int64(l.tuning.Queue) {
		l.metrics.shed[scopeNode].Inc()
		r.refuse(overloaded())
		return
	}
	l.accept(r, m)
}

// handleControl takes any other request, as handle does. Its queue is controlCalls.
func (l *listener) handleControl(m *nats.Msg) {
	r := l.receive(m)
	r.control = true
	l.accept(r, m)
}

// receive makes a request of a message. It must be answered.
func (l *listener) receive(m *nats.Msg) *request {
	r := &request{service: l.Service, message: m, body: m.Data, inbox: m.Reply, received: l.clock.Mono(), verb: verbUnknown}
	r.tellsTime = m.Header.Get(api.HeaderTimeout) != "" || m.Header.Get(api.HeaderDeadline) != ""
	if id := m.Header.Get(api.HeaderRequestID); api.IsRequestID(id) {
		r.given = id
	}
	r.begin(m.Header)
	l.requests.Add(1)
	if !api.MayAnswer(r.inbox) {
		r.inbox = "" // not even a refusal is sent
	}
	return r
}

// accept checks the headers of a request and dispatches it.
func (l *listener) accept(r *request, m *nats.Msg) {
	defer r.rescue()
	if !api.MayAnswer(m.Reply) {
		r.refuse(api.Errorf(api.CodeForbidden, "", "no answer goes to the subject that the request names for it"))
		return
	}
	if err := r.waitsUntil(m.Header); err != nil {
		if _, verb, ok := api.ParseSubject(m.Subject); ok && l.serves(verb) {
			r.verb = verb // for metrics
		}
		r.refuse(asError(err))
		return
	}
	l.dispatch(r, m.Subject)
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
	if !l.serves(verb) {
		r.refuse(api.Errorf(api.CodeUnknownVerb, "", "there is no verb %.50q", verb))
		return
	}
	r.verb, r.namespace = verb, name
	if !verb.ServedIn(name) {
		r.refuse(api.Errorf(api.CodeUnknownVerb, "", "there is no verb %q under %q", verb, name))
		return
	}
	if work := l.controlWork(verb); work != nil {
		l.submit(r, func(ctx context.Context) {
			if l.locate(ctx, r) {
				work(ctx, r)
			}
		})
		return
	}
	serve := l.route(verb)
	if id, known := l.namespaces.Cached(name); known {
		r.namespaceID = id
		serve(r)
		return
	}
	l.apart(r, func(ctx context.Context) {
		if l.locate(ctx, r) {
			serve(r)
		}
	})
}

// locate finds the request's namespace. It reports false after it has answered the
// request, because there is no such namespace or it cannot be looked up.
func (l *listener) locate(ctx context.Context, r *request) bool {
	if r.namespace == api.OperatorNamespace {
		r.namespaceID = keys.Registry
		return true
	}
	id, err := l.namespaces.Lookup(ctx, r.namespace, (r.answerBy()-l.clock.Mono())/askDivisor)
	if err != nil {
		l.nowhere(r, l.storeError(ctx, "look up the namespace", err))
		return false
	}
	r.namespaceID = id
	return true
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

// serves reports whether the node knows a verb.
func (s *Service) serves(verb api.Verb) bool {
	return s.route(verb) != nil || s.controlWork(verb) != nil
}

// route returns the handler of an acquire or a settlement; nil for any other verb.
// Acquires are handed over at once; settlements do I/O first and run apart.
func (s *Service) route(verb api.Verb) func(*request) {
	switch verb {
	case api.VerbAcquire:
		return s.acquire
	case api.VerbAcquireOverride:
		return s.acquireOverride
	case api.VerbAdjust:
		return func(r *request) { s.apart(r, func(ctx context.Context) { s.adjust(ctx, r) }) }
	case api.VerbRelease:
		return func(r *request) { s.apart(r, func(ctx context.Context) { s.release(ctx, r) }) }
	}
	return nil
}

// controlWork returns the handler of a verb that is neither an acquire nor a settlement;
// nil for any other verb.
func (s *Service) controlWork(verb api.Verb) func(context.Context, *request) {
	switch {
	case verb == api.VerbStatus:
		return s.status
	case s.control != nil && s.control.Serves(verb):
		return s.administer
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
	reply, refusal := s.control.Serve(ctx, config.AdminRequest{
		Namespace: r.namespace, NamespaceID: r.namespaceID, Info: senderInfo(r.message), Verb: r.verb, Body: r.body,
	})
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
		l.operatorChanged(m)
		return
	}
	target, err := api.DecodeConfigChange(m.Data)
	if err != nil {
		l.log.Warn("a configuration change cannot be read: everything is resolved again", "error", err)
		l.memory.invalidations.AllChanged()
		return
	}
	id, known := l.namespaces.Last(name)
	if !known && l.follower.Following() {
		return // hardly any bucket of it is in memory; the feed tells of the change by the namespace's id
	}
	// Without an id, the buckets of all namespaces are marked.
	l.memory.Changed(live.Place{Namespace: id, Entity: target.Entity, Resource: target.Resource})
}

// operatorChanged makes the next request in a namespace look it up again, or the node read
// the lease keys again.
func (l *listener) operatorChanged(m *nats.Msg) {
	change, err := api.DecodeOperatorChange(m.Data)
	switch {
	case err != nil:
		l.log.Warn("an operator's change cannot be read: it is noticed within a minute", "error", err)
	case change.LeaseKeys:
		l.leases.KeysChanged()
	default:
		l.memory.NamespaceChanged(change.Name)
	}
}
