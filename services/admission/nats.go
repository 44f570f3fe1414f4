package admission

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tidegate/tidegate/internal/admin"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// pendingMessages and pendingBytes bound what the NATS client holds for a
	// listener before it drops: more than the queue, so that it is the service
	// that sheds, with an answer.
	pendingMessages = 65536
	pendingBytes    = 256 << 20
)

// listener is the node's micro service.
type listener struct {
	service       micro.Service
	nats          *nats.Conn
	changes       *nats.Subscription
	subscriptions int // of the connection without the listener's
	failed        chan struct{}
}

// listen subscribes to requests and to configuration changes.
func (s *Service) listen() (*listener, error) {
	l := &listener{nats: s.nats, subscriptions: s.nats.NumSubscriptions(), failed: make(chan struct{})}
	s.nats.SetClosedHandler(func(*nats.Conn) { close(l.failed) })
	var err error
	if l.changes, err = s.nats.Subscribe(api.ConfigSubjectAll, s.configChanged); err != nil {
		return nil, fmt.Errorf("admission: subscribe to configuration changes: %w", err)
	}
	l.service, err = micro.AddService(s.nats, micro.Config{
		Name:        api.ServiceName,
		Version:     s.version,
		Description: "Tidegate admission: may this be spent?",
		QueueGroup:  api.QueueGroup,
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			s.log.Error("NATS reports an error", "subject", e.Subject, "error", e.Description)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("admission: add the micro service: %w", err)
	}
	for i := range s.tuning.Listeners {
		err := l.service.AddEndpoint("requests-"+strconv.Itoa(i), micro.HandlerFunc(s.handle),
			micro.WithEndpointSubject(api.SubjectAll),
			micro.WithEndpointPendingLimits(pendingMessages, pendingBytes))
		if err != nil {
			return nil, fmt.Errorf("admission: add an endpoint: %w", err)
		}
	}
	if err := s.nats.Flush(); err != nil {
		return nil, fmt.Errorf("admission: announce the service: %w", err)
	}
	return l, nil
}

// stop takes no more messages and returns when those received are handed over.
func (l *listener) stop(ctx context.Context) error {
	if l.nats.IsClosed() {
		return nil
	}
	if err := l.changes.Unsubscribe(); err != nil {
		return fmt.Errorf("admission: stop following configuration changes: %w", err)
	}
	if err := l.service.Stop(); err != nil {
		return fmt.Errorf("admission: stop the micro service: %w", err)
	}
	// A drained subscription removes itself after its last message; micro does
	// not tell when.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for l.nats.NumSubscriptions() > l.subscriptions {
		select {
		case <-ctx.Done():
			return fmt.Errorf("admission: stop the micro service: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// handle takes one message. It runs on the subscription's goroutine, so it only
// decodes and hands over, and never blocks.
func (s *Service) handle(m micro.Request) {
	r := &request{service: s, body: m.Data(), inbox: m.Reply(), received: s.clock.Mono(), verb: verbUnknown}
	s.requests.Add(1)
	if s.pending.Add(1) > int64(s.tuning.Queue) {
		r.refuse(overloaded())
		return
	}
	defer func() {
		if cause := recover(); cause != nil {
			s.logPanic(cause)
			r.refuse(asError(errInternal))
		}
	}()
	timeout, err := api.ParseTimeout(m.Headers().Get(api.HeaderTimeout))
	if err != nil {
		r.refuse(asError(err))
		return
	}
	r.deadline = r.received + timeout
	s.dispatch(r, m.Subject())
}

// verbUnknown is the verb that metrics show for what is none of ours.
const verbUnknown = "unknown"

// dispatch routes a request by its subject.
func (s *Service) dispatch(r *request, subject string) {
	name, verb, ok := api.ParseSubject(subject)
	if !ok {
		r.refuse(api.Errorf(api.CodeUnknownVerb, "", "the subject names no namespace and verb"))
		return
	}
	serve := s.route(verb)
	if serve == nil {
		r.refuse(api.Errorf(api.CodeUnknownVerb, "", "there is no verb %.50q", verb))
		return
	}
	r.verb, r.namespace = verb, name
	if id, known := s.namespaces.Cached(name); known {
		r.namespaceID = id
		serve(r)
		return
	}
	s.apart(r, func(ctx context.Context) {
		id, err := s.namespaces.Lookup(ctx, name)
		if err != nil {
			r.refuse(s.storeError(ctx, "look up the namespace", err))
			return
		}
		r.namespaceID = id
		serve(r)
	})
}

// route returns what serves a verb; nil for an unknown one. Acquires are handed
// over at once, everything else has I/O of its own and runs apart.
func (s *Service) route(verb api.Verb) func(*request) {
	switch {
	case verb == api.VerbAcquire:
		return s.acquire
	case verb == api.VerbAdjust:
		return func(r *request) { s.apart(r, func(ctx context.Context) { s.adjust(ctx, r) }) }
	case verb == api.VerbRelease:
		return func(r *request) { s.apart(r, func(ctx context.Context) { s.release(ctx, r) }) }
	case verb == api.VerbStatus:
		return func(r *request) { s.apart(r, func(ctx context.Context) { s.status(ctx, r) }) }
	case s.admin.Serves(verb):
		return func(r *request) { s.apart(r, func(ctx context.Context) { s.administer(ctx, r) }) }
	}
	return nil
}

// apart runs work with I/O beside the subscription, until the answer is due.
func (s *Service) apart(r *request, work func(context.Context)) {
	s.flights.Go(func() {
		ctx, cancel := context.WithTimeout(s.abort, r.answerBy()-s.clock.Mono())
		defer cancel()
		defer func() {
			if cause := recover(); cause != nil {
				s.logPanic(cause)
				r.refuse(asError(errInternal))
			}
		}()
		work(ctx)
	})
}

// administer serves the admin verbs.
func (s *Service) administer(ctx context.Context, r *request) {
	reply, err := s.admin.Handle(ctx, admin.Namespace{Name: r.namespace, ID: r.namespaceID}, r.verb, r.body)
	if err != nil {
		r.refuse(s.storeError(ctx, "serve "+string(r.verb), err))
		return
	}
	r.respond(reply)
}

// configChanged marks what a change of configuration may concern. Whatever
// cannot be told apart is marked too: resolving again is cheap, and right.
func (s *Service) configChanged(m *nats.Msg) {
	name, _ := api.ParseConfigSubject(m.Subject)
	id, known := s.namespaces.Cached(name)
	target, err := api.DecodeConfigChange(m.Data)
	if err != nil {
		s.log.Warn("a configuration change cannot be read: everything is resolved again", "error", err)
		known, target = false, api.LimitsTarget{System: true}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.buckets.Values() {
		if (!known || c.key.Namespace == id) && concerns(target, c.key) {
			c.outdated.Store(true)
		}
	}
}

// concerns reports whether a config level may govern a bucket.
func concerns(level api.LimitsTarget, bucket keys.Bucket) bool {
	return (level.Entity == "" || level.Entity == bucket.Entity) &&
		(level.Resource == "" || level.Resource == bucket.Resource)
}
