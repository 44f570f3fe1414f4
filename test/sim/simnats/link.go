package simnats

import (
	"bytes"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// link is the client's end of a connection. Write parses the client's commands into the
// inbound queue and never blocks. Read returns the bytes that the scheduler has delivered.
type link struct {
	server *Server
	party  string
	id     uint64

	mu       sync.Mutex
	partial  []byte // guarded by mu: an incomplete frame
	readable bytes.Buffer
	deadline time.Time // guarded by mu: of reads
	broken   error     // guarded by mu: what Read returns after the last delivered byte
	wake     chan struct{}

	// guarded by server.mu
	in, out      []frame
	inHeld       time.Time // no frame moves before
	outHeld      time.Time
	gone         bool
	greeted      bool                     // the handshake is over
	subs         map[string]*subscription // by sid
	noResponders bool
}

// kind is the kind of a frame.
type kind uint8

const (
	kindConnect kind = iota
	kindPing
	kindPong
	kindSub
	kindUnsub
	kindPub
	kindRaw // from the server, bytes as they are
)

// frame is a protocol command, or bytes for a client.
type frame struct {
	kind    kind
	subject string
	reply   string
	sid     string
	group   string
	max     int
	header  []byte
	data    []byte
	raw     []byte
	arrived time.Time
}

// LocalAddr implements net.Conn.
func (l *link) LocalAddr() net.Addr { return address(l.party) }

// RemoteAddr implements net.Conn.
func (l *link) RemoteAddr() net.Addr { return address("nats") }

type address string

// Network implements net.Addr.
func (address) Network() string { return "sim" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

// Write parses the client's commands. It fails after the link is cut.
func (l *link) Write(p []byte) (int, error) {
	l.mu.Lock()
	if l.broken != nil {
		l.mu.Unlock()
		return 0, syscall.EPIPE
	}
	l.partial = append(l.partial, p...)
	frames, rest := parse(l.partial)
	l.partial = append([]byte(nil), rest...)
	l.mu.Unlock()
	if len(frames) > 0 {
		l.server.arrive(l, frames)
	}
	return len(p), nil
}

// Read waits for delivered bytes.
func (l *link) Read(p []byte) (int, error) {
	for {
		l.mu.Lock()
		if l.readable.Len() > 0 {
			n, _ := l.readable.Read(p)
			l.mu.Unlock()
			return n, nil
		}
		if l.broken != nil {
			defer l.mu.Unlock()
			return 0, l.broken
		}
		until := l.deadline
		l.mu.Unlock()
		if until.IsZero() {
			<-l.wake
			continue
		}
		timer := time.NewTimer(until.Sub(l.server.options.Now()))
		select {
		case <-l.wake:
			timer.Stop()
		case <-timer.C:
			return 0, timeoutError{}
		}
	}
}

type timeoutError struct{}

// Error implements error.
func (timeoutError) Error() string { return "i/o timeout" }

// Timeout implements net.Error.
func (timeoutError) Timeout() bool { return true }

// Temporary implements net.Error.
func (timeoutError) Temporary() bool { return true }

// Close cuts the link from the client's side. Frames that were written before it reach the
// server.
func (l *link) Close() error {
	l.end(net.ErrClosed)
	l.server.closing(l)
	return nil
}

// end makes reads and writes fail.
func (l *link) end(cause error) {
	l.mu.Lock()
	if l.broken == nil {
		l.broken = cause
	}
	l.mu.Unlock()
	l.signal()
}

func (l *link) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// deliver hands bytes to the client.
func (l *link) deliver(b []byte) {
	l.mu.Lock()
	l.readable.Write(b)
	l.mu.Unlock()
	l.signal()
}

// SetDeadline implements net.Conn. Writes never block.
func (l *link) SetDeadline(t time.Time) error { return l.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (l *link) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	l.deadline = t
	l.mu.Unlock()
	l.signal()
	return nil
}

// SetWriteDeadline implements net.Conn. Writes never block.
func (l *link) SetWriteDeadline(time.Time) error { return nil }

var errReset error = &net.OpError{Op: "read", Net: "sim", Err: syscall.ECONNRESET}

var _ io.ReadWriteCloser = (*link)(nil)
