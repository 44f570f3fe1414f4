package tidegate

import (
	"errors"
	"fmt"
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

// moveTimeout bounds the wait of [Client.Move] for another server.
const moveTimeout = 5 * time.Second

// Move connects to another NATS server without losing a reply: it waits for the replies
// to the requests in flight, while new requests wait for it. The connection must have no
// other use that waits for a reply. Call it when the server announces that it is about to
// shut down:
//
//	nats.LameDuckModeHandler(func(*nats.Conn) { err := client.Move() … })
//
// The error says that no other server answered yet; the connection goes on to try.
func (c *Client) Move() error {
	c.moving.Lock()
	defer c.moving.Unlock()
	connected := c.nc.StatusChanged(nats.CONNECTED)
	defer c.nc.RemoveStatusListener(connected)
	if err := c.nc.ForceReconnect(); err != nil {
		return fmt.Errorf("connect to another NATS server: %w", err)
	}
	late := time.NewTimer(moveTimeout)
	defer late.Stop()
	select {
	case <-connected:
		return nil
	case <-late.C:
		return errors.New("connect to another NATS server: no server answers")
	}
}
