package tidegate

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/api"
)

// Call is a request, as an [Observer] sees it.
type Call struct {
	Verb      api.Verb
	Namespace string
	RequestID string // see [WithRequestID]
	// Header travels with the request. An observer may add to it.
	Header nats.Header
}

// Observer is told of each request before it is sent, and, by the function that
// it returns, of how it ended: nil where there is a reply that is no error, a
// denial included. It runs on the caller's goroutine, and must be safe for
// concurrent use.
type Observer func(ctx context.Context, call *Call) (ended func(error))

// WithObserver has each request observed, for traces: package oteltidegate makes
// spans of them. A settlement that is repeated is several requests.
func WithObserver(o Observer) Option { return func(c *Client) { c.observer = o } }

// observed sends a request that is to be observed.
func (c *Client) observed(ctx context.Context, verb api.Verb, msg *nats.Msg) ([]byte, error) {
	ended := c.observer(ctx, &Call{Verb: verb, Namespace: c.namespace, RequestID: requestID(ctx), Header: msg.Header})
	body, err := c.send(ctx, verb, msg)
	ended(err)
	return body, err
}
