package admission

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// request is a message from a caller. It is answered exactly once and counts as pending
// until then.
type request struct {
	service     *Service
	given       string     // the caller's id for it; may be empty
	made        string     // the node's; see id
	span        trace.Span // nil where it is not traced
	verb        api.Verb
	namespace   string
	namespaceID string
	message     *nats.Msg // as it came
	body        []byte
	inbox       string
	received    time.Duration  // monotonic
	deadline    time.Duration  // monotonic: the caller stops waiting
	expires     bucket.Instant // the same in the store's time; 0: the caller did not say
	tellsTime   bool           // the reply tells the store's time
	control     bool           // it is neither an acquire nor a settlement: the node's queue does not count it
	answered    atomic.Bool
	making      sync.Once // of made
}

// id returns the id of the request in logs. If the caller sent no id, the first use makes
// an id: most requests are never logged.
func (r *request) id() string {
	if r.given != "" {
		return r.given
	}
	r.making.Do(func() { r.made = api.NewRequestID() })
	return r.made
}

// answerMargin returns how long before the caller stops waiting an undecided request is
// answered: a tenth of the caller's timeout, 50 ms at most.
func answerMargin(timeout time.Duration) time.Duration {
	return min(timeout/10, 50*time.Millisecond)
}

// answerBy returns when the answer has to leave.
func (r *request) answerBy() time.Duration {
	return r.deadline - answerMargin(r.deadline-r.received)
}

// asker returns the asker of the request's calls.
func (r *request) asker() asker {
	return asker{request: r, received: r.received, deadline: r.deadline, expires: r.expires, answerBy: r.answerBy()}
}

// about returns a context for log lines about the request.
func (r *request) about() context.Context {
	return traced(process.WithRequestIDs(r.service.abort, r.id()), r.span)
}

// traceSpan implements origin.
func (r *request) traceSpan() trace.Span { return r.span }

// isAnswered implements origin.
func (r *request) isAnswered() bool { return r.answered.Load() }

// respond answers with a body.
func (r *request) respond(body []byte) { r.respondAs(outcomeOK, body) }

// respondAs answers with a body that the metrics count under another outcome.
func (r *request) respondAs(outcome string, body []byte) { r.answer(outcome, nil, body) }

func (r *request) respondJSON(reply any) {
	body, err := json.Marshal(reply)
	if err != nil {
		r.refuse(asError(err))
		return
	}
	r.respond(body)
}

// refuse answers with an error.
func (r *request) refuse(e *api.Error) {
	r.answer(string(e.Code), errorHeader(e), e.JSON())
}

func errorHeader(e *api.Error) nats.Header {
	return nats.Header{
		api.HeaderErrorCode: {strconv.Itoa(e.Status())},
		api.HeaderError:     {e.Message},
	}
}

func (r *request) answer(outcome string, header nats.Header, body []byte) {
	if !r.answered.CompareAndSwap(false, true) {
		return
	}
	s := r.service
	if r.inbox != "" {
		outcome = r.send(outcome, header, body)
	}
	took := s.clock.Mono() - r.received
	s.metrics.request(string(r.verb), outcome, took)
	r.end(outcome)
	if s.log.Enabled(s.abort, slog.LevelDebug) {
		s.log.DebugContext(r.about(), "answered", "verb", r.verb, "namespace", r.namespace, "outcome", outcome, "took", took)
	}
	if !r.control {
		s.pending.Add(-1)
	}
	s.requests.Done()
}

// send sends the reply, or a refusal if the reply is larger than the server takes. It
// returns the outcome.
func (r *request) send(outcome string, header nats.Header, body []byte) string {
	publish := func(header nats.Header, body []byte) error {
		return r.service.nats.PublishMsg(&nats.Msg{Subject: r.inbox, Header: r.marked(outcome, header), Data: body})
	}
	err := publish(header, body)
	if errors.Is(err, nats.ErrMaxPayload) { // found before anything is sent
		e := replyTooLarge(r.verb, len(body), r.service.nats.MaxPayload())
		outcome = string(e.Code)
		err = publish(errorHeader(e), e.JSON())
	}
	if err != nil {
		r.service.log.WarnContext(r.about(), "a reply could not be sent", "verb", r.verb, "error", err)
	}
	return outcome
}

// replyTooLarge returns the refusal of a request whose reply does not fit a message.
func replyTooLarge(verb api.Verb, size int, most int64) *api.Error {
	field, advice := "", "raise max_payload of the NATS server; what the request changed stays changed"
	switch verb {
	case api.VerbStatus, api.VerbCapacity, api.VerbLimitsList, api.VerbEntityList, api.VerbEntityChildren,
		api.VerbUsageList, api.VerbUsageSummary, api.VerbAuditList, api.VerbNamespaceList:
		field, advice = "limit", "ask for smaller pages, or raise max_payload of the NATS server"
	case api.VerbAuditVerify:
		field, advice = "to_ms", "ask for a shorter time, or raise max_payload of the NATS server"
	}
	return api.Errorf(api.CodeReplyTooLarge, field, "the reply of %d bytes does not fit a message of the NATS server, which takes %d bytes: %s", size, most, advice)
}

// marked adds the request's id and the time to the header of a reply. A caller that sent
// no id gets it with errors and degraded replies only, because every header costs both
// sides time.
func (r *request) marked(outcome string, header nats.Header) nats.Header {
	at, tells := r.timeTold()
	named := r.given != "" || (outcome != outcomeOK && outcome != outcomeDenied)
	if header == nil && (named || tells) {
		header = make(nats.Header, 2)
	}
	if named {
		header[api.HeaderRequestID] = []string{r.id()}
	}
	if tells {
		header[api.HeaderTime] = []string{at}
	}
	return header
}

// rescue answers a request after a panic. It is deferred.
func (r *request) rescue() {
	if cause := recover(); cause != nil {
		r.service.logPanic(r.about(), cause)
		r.refuse(asError(errInternal))
	}
}

// asError returns the error of the wire contract for an error inside the service.
func asError(err error) *api.Error {
	var coded *api.Error
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.Is(err, errLate):
		return api.Errorf(api.CodeDeadlineExceeded, "", "%v", errLate)
	case errors.Is(err, errQueueFull):
		return overloaded()
	case errors.Is(err, errDamaged):
		return api.Errorf(api.CodeInternal, "", "%v", errDamaged)
	case isOutage(err):
		return unavailable(err)
	}
	return api.Errorf(api.CodeInternal, "", "an internal error; the service's log has the details")
}

// storeError returns the answer to a verb that needed the store. It logs errors that the
// caller did not cause.
func (s *Service) storeError(ctx context.Context, doing string, err error) *api.Error {
	var coded *api.Error
	if errors.As(err, &coded) {
		return coded
	}
	s.log.ErrorContext(ctx, "the store failed", "doing", doing, "error", err)
	return asError(blamed(err, errStoreDown))
}

func unavailable(err error) *api.Error {
	return api.Errorf(api.CodeUnavailable, "", "%v", err)
}

func overloaded() *api.Error {
	return api.Errorf(api.CodeOverloaded, "", "too many requests wait here already: try again in a moment")
}
