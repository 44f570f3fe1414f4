//go:build cluster

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

const (
	resource = "gpt-4"
	limit    = "rpm"
	// callersEach is the number of callers with a connection to each server.
	callersEach = 3
	// askEvery is the time between two acquires of a caller, which do not wait for each
	// other.
	askEvery = 40 * time.Millisecond
	// answerTime is how long a caller waits for a reply: the client's default, so that a
	// machine that stalls for a moment loses none.
	answerTime = api.DefaultTimeout
	// settleEvery is the number of acquires of a caller of which it releases one.
	settleEvery = 4
)

// crowd are callers on all servers, which spend until they are stopped.
type crowd struct {
	stop   context.CancelFunc
	asking sync.WaitGroup

	mu   sync.Mutex
	asks []ask // guarded by mu; those that have ended
	sums sums  // guarded by mu
}

// ask is an acquire or a release that has ended.
type ask struct {
	at      time.Time // when it was sent
	server  int       // of the caller
	release bool
	err     error // nil: admitted, or released
}

// lost reports that no reply came.
func (a ask) lost() bool {
	var reply *api.Error
	return a.err != nil && !errors.As(a.err, &reply)
}

// sums are tokens by what is known of them.
type sums struct{ spent, unknown, returned, unreturned int64 }

// newCrowd connects callers, as the documents say that callers connect.
func newCrowd(t *testing.T, w *world) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	c := &crowd{stop: cancel}
	t.Cleanup(c.end)
	for i := range len(w.urls) * callersEach {
		server := i % len(w.urls)
		var client *tidegate.Client
		nc, err := nats.Connect(strings.ReplaceAll(w.nats(api.DefaultNamespace, server), password(api.DefaultNamespace), password("TENANT")),
			tidegate.InboxPrefix(api.DefaultNamespace), tidegate.LeaveHungServers(), nats.MaxReconnects(-1), nats.DontRandomize(),
			nats.LameDuckModeHandler(func(*nats.Conn) {
				if err := client.Move(); err != nil {
					t.Errorf("a caller: %v", err)
				}
			}),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		client, err = tidegate.New(nc, tidegate.WithTimeout(answerTime))
		require.NoError(t, err)
		c.asking.Go(func() { c.ask(ctx, client, server, "key-"+strconv.Itoa(i%5)) })
	}
	return c
}

// end stops the callers and waits for their last replies.
func (c *crowd) end() {
	c.stop()
	c.asking.Wait()
}

func (c *crowd) ask(ctx context.Context, client *tidegate.Client, server int, entity string) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.asking.Go(func() {
			at := time.Now()
			lease, err := client.Acquire(context.Background(), entity, resource, tidegate.Consume{limit: 1})
			c.note(ask{at: at, server: server, err: err})
			if err != nil || n%settleEvery != 0 {
				return
			}
			at = time.Now()
			c.note(ask{at: at, server: server, release: true, err: lease.Release(context.Background())})
		})
	}
}

func (c *crowd) note(a ask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks = append(c.asks, a)
	switch {
	case a.release && a.err == nil:
		c.sums.returned++
	case a.release:
		c.sums.unreturned++
	case a.err == nil:
		c.sums.spent++
	default:
		c.sums.unknown++
	}
}

// loss is how many replies were lost of the requests sent in some time.
type loss struct {
	sent, lost, refused int
	until               time.Duration // since the begin: when the last lost acquire was sent; 0: none was
	releases            int           // that were lost
	byServer            map[int]int   // lost acquires, by the server of their callers
	example             error
}

func (l loss) String() string {
	return fmt.Sprintf("%d of %d acquires lost, the last sent %.1f s after the fault; %d refused; lost by server %v; %d releases lost; %v",
		l.lost, l.sent, l.until.Seconds(), l.refused, l.byServer, l.releases, l.example)
}

// during returns the loss among the requests that are sent while a fault goes on, and
// logs it.
func (c *crowd) during(t *testing.T, fault string, goOn func()) loss {
	t.Helper()
	begin := time.Now()
	goOn()
	end := time.Now()
	time.Sleep(answerTime + 200*time.Millisecond) // then the fate of each is known
	l := c.lossBetween(begin, end)
	t.Logf("%5.1f s: %s: %v", end.Sub(begin).Seconds(), fault, l)
	return l
}

func (c *crowd) lossBetween(begin, end time.Time) loss {
	l := loss{byServer: map[int]int{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.asks {
		switch {
		case a.at.Before(begin) || a.at.After(end):
		case a.release && a.lost():
			l.releases++
			l.example = a.err
		case a.release:
		case a.lost():
			l.sent++
			l.lost++
			l.byServer[a.server+1]++
			l.until = max(l.until, a.at.Sub(begin))
			l.example = a.err
		default:
			l.sent++
			if a.err != nil {
				l.refused++
				l.example = a.err
			}
		}
	}
	return l
}
