package natstest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
)

// Cut is what becomes of a connection when a batch of JetStream is committed.
type Cut uint8

// The kinds of cuts.
const (
	NoCut    Cut = iota
	CutFirst     // it breaks before: the batch does not arrive whole
	CutAfter     // it breaks after: the batch arrives, its answer does not
)

// Cuts is a way to NATS, a custom dialer, that now and then breaks just before a
// batch of JetStream is committed, or just after, so that nobody learns of it.
type Cuts struct {
	mu    sync.Mutex
	next  func() Cut // called under mu
	count atomic.Int64
}

// NewCuts is a way that breaks at one batch of ten.
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

// CutsBy is a way that breaks at the batches that next says, which is not called
// concurrently.
func CutsBy(next func() Cut) *Cuts { return &Cuts{next: next} }

// Count is how often it broke.
func (c *Cuts) Count() int64 { return c.count.Load() }

// Dial connects.
func (c *Cuts) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), network, address) // nats.go gives none
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
