package control

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

// Caller is the principal of a request and its namespace: a tenant's, or the registry for an
// operator's request.
type Caller struct {
	Name string // of the namespace, in subjects
	ID   string // of the namespace, in keys
	By   api.Principal
	// Named makes changes fail with forbidden unless By is verified.
	Named bool
}

// Stores are the stores that the verbs read and change.
type Stores struct {
	Limits     *config.LimitStore
	Namespaces *config.NamespaceOperator
	Keys       *LeaseKeys
	Entities   *config.EntityStore
	Audit      *audit.Reader
	Capacity   *Capacity
	Usage      *Usage
	Shards     *shards.Operator
}

// Service serves the admin verbs. It is safe for concurrent use.
type Service struct {
	publish func(subject string, data []byte) error
	log     *slog.Logger
	verbs   map[api.Verb]serveFunc // never changed
}

// New returns a Service that broadcasts changes through publish, such as nats.Conn's, which
// must not block.
func New(stores Stores, publish func(subject string, data []byte) error, log *slog.Logger) *Service {
	s := &Service{publish: publish, log: log, verbs: map[api.Verb]serveFunc{}}
	for _, r := range s.rows(stores) {
		s.verbs[r.verb] = r.serve
	}
	return s
}

// Serves reports whether Handle knows a verb.
func (s *Service) Serves(v api.Verb) bool {
	_, ok := s.verbs[v]
	return ok
}

// Handle answers a request with the reply's body, or refuses it. A refused request changed
// nothing, except with the code unavailable: then the change may have been made, and the
// message states it.
func (s *Service) Handle(ctx context.Context, c Caller, v api.Verb, body []byte) ([]byte, *api.Error) {
	serve, ok := s.verbs[v]
	if !ok || !v.ServedIn(c.Name) {
		return nil, api.Errorf(api.CodeUnknownVerb, "", "there is no verb %.50q", string(v))
	}
	value, err := serve(ctx, c, body)
	if err != nil {
		return nil, s.refusal(ctx, c, v, err)
	}
	reply, err := json.Marshal(value)
	if err != nil {
		return nil, s.refusal(ctx, c, v, err)
	}
	return reply, nil
}

// refusal turns an error into the reply's error. An error that the caller did not cause is
// logged in full and reported in short: its text may name keys and hosts.
func (s *Service) refusal(ctx context.Context, c Caller, v api.Verb, err error) *api.Error {
	var refusal *api.Error
	if errors.As(err, &refusal) {
		return refusal
	}
	s.log.ErrorContext(ctx, "an admin request failed", "namespace", c.Name, "verb", v, "error", err)
	switch {
	case errors.Is(err, table.ErrDamaged):
		return api.Errorf(api.CodeInternal, "", "a stored item is damaged; the node's log says which")
	case errors.Is(err, audit.ErrObjectDamaged):
		return api.Errorf(api.CodeInternal, "", "an object of the audit archive is damaged; the node's log says which, and audit verify finds all")
	case errors.Is(err, audit.ErrOutcomeUnknown):
		return api.Errorf(api.CodeUnavailable, "", "the store did not answer in time: %s", audit.ErrOutcomeUnknown)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return api.Errorf(api.CodeDeadlineExceeded, "", "the store did not answer within the request's time; nothing was changed")
	}
	return api.Errorf(api.CodeUnavailable, "", "the store cannot be used now; nothing was changed")
}

// broadcastLevel notifies all nodes of a changed level. A failed broadcast does not undo the
// change: nodes read their settings again by age.
func (s *Service) broadcastLevel(ctx context.Context, c Caller, target api.LimitsTarget) {
	if err := s.broadcast(c.Name, target); err != nil {
		s.log.WarnContext(ctx, "a changed config was not broadcast: nodes will notice within a minute", "namespace", c.Name, "error", err)
	}
}

// broadcastOperator makes all nodes read what an operator changed. A failed broadcast does
// not undo the change: nodes read the registry and the keys again by age.
func (s *Service) broadcastOperator(ctx context.Context, change api.OperatorChange) {
	if err := s.broadcast(api.OperatorNamespace, change); err != nil {
		s.log.WarnContext(ctx, "an operator's change was not broadcast: nodes will notice within a minute", "namespace", change.Name, "error", err)
	}
}

func (s *Service) broadcast(namespace string, change any) error {
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return s.publish(api.ConfigSubject(namespace), data)
}
