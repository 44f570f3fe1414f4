package rollback

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/leader"
)

// link is a node's access to the stream at its leader.
type link struct {
	nats    *nats.Conn
	js      jetstream.JetStream
	bucket  string
	stream  string // of the bucket
	timeout time.Duration
}

// request bounds a request to NATS.
func (l *link) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.timeout)
}

// term returns the stream's term.
func (l *link) term(ctx context.Context) (leader.Term, error) {
	call, cancel := l.request(ctx)
	defer cancel()
	return leader.TermOf(call, l.nats, l.stream)
}
