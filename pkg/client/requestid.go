package tidegate

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

type requestIDKey struct{}

// WithRequestID returns a context whose requests carry the caller's own ID, so that both
// logs can be correlated. Without it, each call gets a new ID; an acquire, to be cheap,
// gets its ID from the service, and so has no ID without a reply. An ID has 1 to 64
// letters, digits and `_ . : / + = @ -`; a malformed ID is ignored.
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

// named returns ctx with a request ID: its own, or a new ID.
func named(ctx context.Context) context.Context {
	if requestID(ctx) != "" {
		return ctx
	}
	return WithRequestID(ctx, api.NewRequestID())
}
