package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// followTimeout bounds the request that makes a consumer.
	followTimeout = 2 * time.Second
	// longestSilence is how many heartbeats may be missing.
	longestSilence = 3
	// minHeartbeat is what a server takes.
	minHeartbeat = 100 * time.Millisecond
	// abandoned is when the server drops a consumer that nobody listens to any more.
	abandoned = 10 * time.Second
	// headerLastConsumer is how many events a heartbeat's consumer has sent.
	headerLastConsumer = "Nats-Last-Consumer"
	headerStatus       = "Status"
	statusHeartbeat    = "100"
)

// Why the feed is followed anew.
var (
	errReconnected = errors.New("the connection to NATS was lost in between")
	errGap         = errors.New("events are missing")
	errSilent      = errors.New("the feed is silent")
)

// follower brings a node the changes of configuration that the change feed tells
// of, whoever wrote them.
//
// Every node needs every event, and none from before it started: so each has a
// consumer of its own, in the server's memory, that begins with what is new and is
// never acknowledged. Whenever something may have been missed (at the start, after
// a reconnection, a gap or a silence) there is a new consumer, and then all that
// the node knows is dropped: what was changed before is read again, and what is
// changed later is in the consumer.
//
// A node does without: then what the admin verbs change reaches it by their
// broadcast, and all else by the age of what it knows.
type follower struct {
	node        *Service
	js          jetstream.JetStream
	reconnected chan nats.Status

	// owned by run
	feed  *nats.Subscription // nil: there is none
	retry time.Duration      // before the next attempt
	quiet bool               // it was said that the feed is not followed
}

func newFollower(s *Service) (*follower, error) {
	js, err := jetstream.New(s.nats)
	if err != nil {
		return nil, fmt.Errorf("admission: follow the change feed: %w", err)
	}
	return &follower{node: s, js: js, reconnected: s.nats.StatusChanged(nats.CONNECTED)}, nil
}

// run follows until ctx ends. It leaves what it has subscribed to as it is: a node
// hears of changes until it has answered its last request.
func (f *follower) run(ctx context.Context) {
	defer f.node.nats.RemoveStatusListener(f.reconnected)
	for {
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		f.lost(ctx, err)
		f.pause(ctx)
	}
}

// lost says, once, that the feed is not followed. A node without one, and one that
// was told already that NATS is away, have no need of a warning.
func (f *follower) lost(ctx context.Context, cause error) {
	followed := f.node.following.Swap(false)
	if !followed && f.quiet {
		return
	}
	f.quiet = true
	level := slog.LevelInfo
	if followed && !errors.Is(cause, errReconnected) {
		level = slog.LevelWarn
	}
	f.node.log.Log(ctx, level, "the change feed is not followed: what another writer changes is noticed within a minute", "error", cause)
}

// pause waits before the next attempt, longer each time.
func (f *follower) pause(ctx context.Context) {
	f.retry = min(max(minBackoff, 2*f.retry), f.node.tuning.FeedHeartbeat*longestSilence)
	timer := time.NewTimer(f.retry)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-f.reconnected:
		f.node.dropSettings() // broadcasts may have been missed
	}
}

// subscriptions is how many there are, once run has ended.
func (f *follower) subscriptions() int {
	if f.feed == nil {
		return 0
	}
	return 1
}

// follow makes a consumer and takes what it brings, until ctx ends or something
// may be missing.
func (f *follower) follow(ctx context.Context) error {
	s := f.node
	if f.feed != nil {
		_ = f.feed.Unsubscribe() // it fails for a subscription that is gone
		f.feed = nil
	}
	t := &tail{node: s, broken: make(chan error, 1)}
	inbox := s.nats.NewInbox()
	sub, err := s.nats.Subscribe(inbox, t.take)
	if err != nil {
		return fmt.Errorf("subscribe to the change feed: %w", err)
	}
	f.feed = sub
	call, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	if _, err := f.js.CreatePushConsumer(call, events.StreamName, consumerFor(inbox, s.tuning.FeedHeartbeat)); err != nil {
		return fmt.Errorf("follow the change feed: %w", err)
	}
	s.dropSettings() // what was changed before now was not heard of
	s.following.Store(true)
	if f.quiet {
		s.log.InfoContext(ctx, "the change feed is followed")
	}
	f.retry, f.quiet = 0, false
	ticker := time.NewTicker(s.tuning.FeedHeartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-t.broken:
			return err
		case <-f.reconnected:
			s.dropSettings() // broadcasts may have been missed too
			return errReconnected
		case <-ticker.C:
			if t.silent() {
				return errSilent
			}
		}
	}
}

// consumerFor is a consumer of what concerns configuration, from now on.
func consumerFor(inbox string, heartbeat time.Duration) jetstream.ConsumerConfig {
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
		InactiveThreshold: abandoned,
	}
}

// tail is what comes of one consumer.
type tail struct {
	node   *Service
	heard  atomic.Bool // whether anything came since the last tick
	broken chan error  // holds one: why the consumer is not to be trusted any more
	last   uint64      // number of the last event; owned by the subscription
	missed int         // ticks in a row without a message; owned by follow
}

// silent reports, at each tick of the heartbeat, whether too many came without a
// message. It counts ticks and not time: a process that stood still, on a machine
// without a processor to spare, had no ticks, and hears what waits for it first.
func (t *tail) silent() bool {
	t.missed++
	if t.heard.Swap(false) {
		t.missed = 0
	}
	return t.missed > longestSilence
}

// take takes an event in, or a heartbeat.
func (t *tail) take(m *nats.Msg) {
	t.heard.Store(true)
	if status := m.Header.Get(headerStatus); status != "" {
		if sent, err := strconv.ParseUint(m.Header.Get(headerLastConsumer), 10, 64); status != statusHeartbeat || err == nil && sent != t.last {
			t.miss()
		}
		return
	}
	meta, err := m.Metadata()
	if err != nil || meta.Sequence.Consumer != t.last+1 {
		t.miss()
	}
	if err == nil {
		t.last = meta.Sequence.Consumer
	}
	e, err := events.Decode(m.Data)
	if err != nil { // a newer release's: what it concerns is not known
		t.node.log.Warn("a change of configuration in the feed cannot be read: everything is resolved again", "subject", m.Subject, "error", err)
		t.node.dropSettings()
		return
	}
	t.node.changed(e)
}

// miss says that events are missing.
func (t *tail) miss() {
	t.node.dropSettings()
	select {
	case t.broken <- errGap:
	default: // it is known already
	}
}

// ofItself is what there is to say of the node on the list of services.
func (s *Service) ofItself() api.ServiceStatus {
	if !s.following.Load() {
		return api.ServiceStatus{Warning: "the change feed is not followed"}
	}
	return api.ServiceStatus{}
}

// dropSettings makes everything be read again when it is next asked for: changes may
// have been missed.
func (s *Service) dropSettings() {
	s.metrics.renewals.Inc()
	s.news.miss()
	s.namespaces.AllChanged()
}

// changed takes in a change of the table. The images tell whether it concerns what
// this node remembers.
func (s *Service) changed(e *events.Event) {
	switch key := e.Key.(type) {
	case keys.NamespaceName:
		s.namespaces.Changed(key.Name)
	case keys.Entity:
		if old, new := e.Entity.Old, e.Entity.New; old == nil || new == nil || old.Parent != new.Parent || old.Cascade != new.Cascade {
			s.news.hear(place{namespace: key.Namespace, entity: key.ID})
		}
	default:
		if p, ok := placeOf(e.Key); ok && changesSettings(e.Config) {
			s.news.hear(p)
		}
	}
}

// placeOf is where a config item is.
func placeOf(key keys.Item) (p place, ok bool) {
	switch key := key.(type) {
	case keys.EntityConfig:
		p = place{key.Namespace, key.Entity, key.Resource}
		if key.Resource == keys.DefaultResource {
			p.resource = ""
		}
	case keys.ResourceConfig:
		p = place{namespace: key.Namespace, resource: key.Resource}
	case keys.SystemConfig:
		p = place{namespace: key.Namespace}
	default:
		return place{}, false
	}
	return p, true
}

// changesSettings reports whether a config item says something else than before of
// what governs acquires.
func changesSettings(c *events.Change[events.Config]) bool {
	return c.Old == nil || c.New == nil ||
		c.Old.OnUnavailable != c.New.OnUnavailable || !slices.Equal(c.Old.Limits, c.New.Limits)
}
