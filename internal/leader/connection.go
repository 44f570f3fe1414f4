package leader

import (
	"errors"

	"github.com/nats-io/nats.go"
)

// errBuffers names the option that a service's connection needs.
var errBuffers = errors.New("the NATS connection keeps messages while it is disconnected: connect with nats.ReconnectBufSize(-1)")

// CheckConnection returns an error if a connection buffers messages while it is
// disconnected. A buffered acknowledgement or batch belongs to the term before the
// interruption. In the next term the same numbers may be those of other messages: the
// acknowledgement would skip records, and the batch would precede what it follows.
func CheckConnection(nc *nats.Conn) error {
	if nc.Opts.ReconnectBufSize >= 0 {
		return errBuffers
	}
	return nil
}
