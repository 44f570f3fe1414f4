package tidegate

import (
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// pingInterval and maxPings bound the silence of a server: a connection leaves it after
	// pingInterval × (maxPings + 1), 2 s. The files in deploy/nats give servers the same.
	pingInterval = 500 * time.Millisecond
	maxPings     = 3
	// writeTimeout bounds a write to a server that does not read.
	writeTimeout = 2 * time.Second
)

// LeaveHungServers is the option with which a connection leaves a NATS server that hangs:
// after 2 s of silence it connects to the next server of its list. nats.go alone takes 6
// minutes. All services of Tidegate connect with it.
func LeaveHungServers() nats.Option {
	return func(o *nats.Options) error {
		o.PingInterval, o.MaxPingsOut, o.FlusherTimeout = pingInterval, maxPings, writeTimeout
		return nil
	}
}
