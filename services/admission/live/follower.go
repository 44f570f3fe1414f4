package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/pkg/events"
)

// MinHeartbeat is the shortest heartbeat that a NATS server accepts.
const MinHeartbeat = 100 * time.Millisecond

const (
	// consumerTimeout bounds the request that creates a consumer.
	consumerTimeout = 2 * time.Second
	// maxMissedHeartbeats is the number of heartbeats in a row that may be missing.
	maxMissedHeartbeats = 3
	// inactiveThreshold is the time after which the server drops a consumer without a
	// subscriber.
	inactiveThreshold = 10 * time.Second
	// minRetry is the pause after a first failed attempt to follow the feed.
	minRetry = 5 * time.Millisecond
)

// Reasons to replace the consumer.
var (
	errReconnected = errors.New("the connection to NATS was lost in between")
	errGap         = errors.New("events are missing")
	errSilent      = errors.New("the feed is silent")
)

// Sink receives the changes of configuration that a Follower reads. The Follower calls it
// from several goroutines, so it must be safe for concurrent use, and it must not block.
type Sink interface {
	// Changed reports a change of the configuration at a place.
	Changed(p Place)
	// NamespaceChanged reports a change of the namespace with a name.
	NamespaceChanged(name string)
	// Missed reports that changes of any place or namespace may have been missed: in the
	// feed, or in the broadcasts that the node receives on the same connection.
	Missed()
}

// Config configures a Follower. All fields are required.
type Config struct {
	NATS      *nats.Conn
	Log       *slog.Logger
	Heartbeat time.Duration // of the feed's consumer, at least MinHeartbeat
	Sink      Sink
}

// Follower reads the change feed of the table, and reports every change of configuration
// to its sink, whichever program wrote the change.
//
// Every node needs every event from its start on. So each node has its own consumer, in
// the server's memory, which starts with new events and needs no acknowledgements. If
// events may have been missed (at the start, after a reconnection, a gap or a silence),
// the Follower creates a new consumer and then reports Missed: the node reads earlier
// changes from the table, and the new consumer delivers later changes.
//
// A node works without the feed. It then learns changes that the admin verbs make from
// their broadcasts, and all other changes when its settings reach their maximum age.
type Follower struct {
	cfg         Config
	js          jetstream.JetStream
	reconnected chan nats.Status
	following   atomic.Bool

	// owned by Run
	feed  *nats.Subscription // nil: not subscribed
	retry time.Duration      // pause before the next attempt
	quiet bool               // the log says that the feed is not followed
}

// NewFollower makes a Follower. It does nothing until Open.
func NewFollower(cfg Config) *Follower { return &Follower{cfg: cfg} }

// Open begins to watch the connection for reconnections. Run ends the watch.
func (f *Follower) Open() error {
	var err error
	if f.js, err = jetstream.New(f.cfg.NATS); err != nil {
		return fmt.Errorf("follow the change feed: %w", err)
	}
	f.reconnected = f.cfg.NATS.StatusChanged(nats.CONNECTED)
	return nil
}

// Following reports whether the feed is followed now.
func (f *Follower) Following() bool { return f.following.Load() }

// Run follows the feed until ctx ends. It leaves its subscription open: a node receives
// changes until it has answered its last request.
func (f *Follower) Run(ctx context.Context) {
	defer f.cfg.NATS.RemoveStatusListener(f.reconnected)
	for {
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		f.lost(ctx, err)
		f.pause(ctx)
	}
}

// lost logs, once, that the feed is not followed. The log has no warning if the node never
// followed a feed, or if it already reported that NATS was away.
func (f *Follower) lost(ctx context.Context, cause error) {
	followed := f.following.Swap(false)
	if !followed && f.quiet {
		return
	}
	f.quiet = true
	level := slog.LevelInfo
	if followed && !errors.Is(cause, errReconnected) {
		level = slog.LevelWarn
	}
	f.cfg.Log.Log(ctx, level, "the change feed is not followed: what another writer changes is noticed within a minute", "error", cause)
}

// pause waits before the next attempt, longer each time.
func (f *Follower) pause(ctx context.Context) {
	f.retry = min(max(minRetry, 2*f.retry), f.cfg.Heartbeat*maxMissedHeartbeats)
	timer := time.NewTimer(f.retry)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-f.reconnected:
		f.cfg.Sink.Missed() // broadcasts may have been lost
	}
}

// follow creates a consumer and reports its events, until ctx ends or events may be
// missing.
func (f *Follower) follow(ctx context.Context) error {
	if f.feed != nil {
		_ = f.feed.Unsubscribe() // fails if the subscription is gone
		f.feed = nil
	}
	t := newTail(f.cfg.Sink, f.cfg.Log)
	inbox := f.cfg.NATS.NewInbox()
	sub, err := f.cfg.NATS.Subscribe(inbox, t.take)
	if err != nil {
		return fmt.Errorf("subscribe to the change feed: %w", err)
	}
	f.feed = sub
	call, cancel := context.WithTimeout(ctx, consumerTimeout)
	defer cancel()
	if _, err := f.js.CreatePushConsumer(call, events.StreamName, consumerConfig(inbox, f.cfg.Heartbeat)); err != nil {
		return fmt.Errorf("follow the change feed: %w", err)
	}
	f.cfg.Sink.Missed() // the consumer has no earlier changes
	f.following.Store(true)
	if f.quiet {
		f.cfg.Log.InfoContext(ctx, "the change feed is followed")
	}
	f.retry, f.quiet = 0, false
	ticker := time.NewTicker(f.cfg.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-t.broken:
			return err
		case <-f.reconnected:
			f.cfg.Sink.Missed() // broadcasts may have been lost too
			return errReconnected
		case <-ticker.C:
			if t.silent() {
				return errSilent
			}
		}
	}
}

// consumerConfig returns the configuration of a consumer that delivers new changes of
// configuration to an inbox.
func consumerConfig(inbox string, heartbeat time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Description: "an admission node",
		FilterSubjects: []string{
			events.KindSubject(events.KindConfig), events.KindSubject(events.KindEntity), events.KindSubject(events.KindNamespace),
		},
		DeliverSubject:    inbox,
		DeliverPolicy:     jetstream.DeliverNewPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		MemoryStorage:     true,
		Replicas:          1,
		IdleHeartbeat:     heartbeat,
		InactiveThreshold: inactiveThreshold,
	}
}
