package tidegate

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

type requestIDKey struct{}

// WithRequestID returns a context whose requests carry an id that the caller has
// for what it does, so that the logs of both can be put together. Without it each
// call has a new one: of an acquire, which is to be cheap, the one that the service
// gives it, and so none where nobody answers. An id is 1 to 64 letters, digits and
// `_ . : / + = @ -`; one that is none is not used.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// requestID is the id that requests under ctx carry, if any.
func requestID(ctx context.Context) string {
	if id, ok := ctx.Value(requestIDKey{}).(string); ok && api.IsRequestID(id) {
		return id
	}
	return ""
}

// named is ctx with an id: the one that it has, or a new one.
func named(ctx context.Context) context.Context {
	if requestID(ctx) != "" {
		return ctx
	}
	return WithRequestID(ctx, api.NewRequestID())
}
