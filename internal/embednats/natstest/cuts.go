package natstest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
)

// Cut is the fate of a connection when a batch of JetStream is committed.
type Cut uint8

// The kinds of cuts.
const (
	NoCut    Cut = iota
	CutFirst     // it breaks before: the batch does not arrive whole
	CutAfter     // it breaks after: the batch arrives, its answer does not
)

// Cuts is a custom dialer for NATS. Its connections break from time to time, just
// before or just after the commit of a JetStream batch, so the client does not learn
// the result.
type Cuts struct {
	mu    sync.Mutex
	next  func() Cut // called under mu
	count atomic.Int64
}

// NewCuts returns a dialer that breaks its connections at a tenth of the batches.
func NewCuts(random *rand.Rand) *Cuts {
	return CutsBy(func() Cut {
		switch random.IntN(20) {
		case 0:
			return CutFirst
		case 1:
			return CutAfter
		}
		return NoCut
	})
}

// CutsBy returns a dialer that breaks its connections as next decides for each batch.
// Calls of next are not concurrent.
func CutsBy(next func() Cut) *Cuts { return &Cuts{next: next} }

// Count returns the number of broken connections.
func (c *Cuts) Count() int64 { return c.count.Load() }

// Dial connects.
func (c *Cuts) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), network, address) // nats.go passes no context
	if err != nil {
		return nil, err
	}
	return &cut{Conn: conn, by: c}, nil
}

type cut struct {
	net.Conn
	by *Cuts
}

func (c *cut) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("Nats-Batch-Commit")) {
		return c.Conn.Write(b)
	}
	c.by.mu.Lock()
	kind := c.by.next()
	c.by.mu.Unlock()
	if kind == NoCut {
		return c.Conn.Write(b)
	}
	c.by.count.Add(1)
	defer func() { _ = c.Close() }()
	if kind == CutFirst { // some of the batch does not get there
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b) // the batch does, its answer does not
}
