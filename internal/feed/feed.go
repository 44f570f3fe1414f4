package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/pkg/events"
)

// Retention is how much of the feed and of the dead letters is kept. Zero values
// mean the defaults.
type Retention struct {
	Replicas int           // of the streams in a NATS cluster. Default 1
	MaxAge   time.Duration // of an event that a service did not get to. Default 24 h, that of DynamoDB's streams
	MaxBytes int64         // of the feed; a full feed refuses events, and the relay waits. Default 1 GiB
}

const (
	defaultMaxAge   = 24 * time.Hour
	defaultMaxBytes = 1 << 30
	// deadBytes bounds the dead letters. They have no age: somebody has to look.
	deadBytes = 256 << 20
	// deadStream holds the dead letters of all services.
	deadStream = "TIDEGATE_DLQ"
)

// openFeed returns the feed, or nil if it does not exist. It fails for a feed with
// another number of lanes, which this release would read wrongly.
func openFeed(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	feed, err := js.Stream(ctx, events.StreamName)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, nil //nolint:nilnil // nil means that the feed does not exist
	case err != nil:
		return nil, fmt.Errorf("look at the stream %s: %w", events.StreamName, err)
	}
	if got := feed.CachedInfo().Config.Metadata[events.LanesMetadata]; got != strconv.Itoa(events.Lanes) {
		return nil, fmt.Errorf("the stream %s has %q lanes and this release %d: they must be the same for all services", events.StreamName, got, events.Lanes)
	}
	return feed, nil
}

// FollowFeed opens the feed for a service that follows it. A feed that is there
// stays as it is: how much of it is kept is for the relays to say. Else a service
// that is started with other settings than they would take replicas away, or events
// that other services have yet to see. FollowFeed creates a missing feed.
func FollowFeed(ctx context.Context, js jetstream.JetStream, r Retention) (jetstream.Stream, error) {
	feed, err := openFeed(ctx, js)
	if err != nil {
		return nil, err
	}
	if feed == nil {
		return EnsureFeed(ctx, js, r)
	}
	if _, err := js.Stream(ctx, deadStream); errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := ensureDeadLetters(ctx, js, feed.CachedInfo().Config.Replicas); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("look at the stream %s: %w", deadStream, err)
	}
	return feed, nil
}

// EnsureFeed makes the feed's streams, or brings them to these settings: the settings of
// the relay that was started last. It fails as openFeed does.
func EnsureFeed(ctx context.Context, js jetstream.JetStream, r Retention) (jetstream.Stream, error) {
	if _, err := openFeed(ctx, js); err != nil {
		return nil, err
	}
	replicas := max(1, r.Replicas)
	maxAge, maxBytes := r.MaxAge, r.MaxBytes
	if maxAge <= 0 {
		maxAge = defaultMaxAge
	}
	if maxBytes <= 0 {
		maxBytes = defaultMaxBytes
	}
	feed, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:        events.StreamName,
		Description: "Changes of Tidegate's table",
		Subjects:    []string{events.ChangesAll, events.CheckpointsAll, events.ReplaysAll},
		Retention:   jetstream.LimitsPolicy,
		MaxAge:      maxAge,
		MaxBytes:    maxBytes,
		Discard:     jetstream.DiscardNew, // the relay waits; nothing that a service has yet to see is dropped
		Replicas:    replicas,
		AllowDirect: true,
		AllowRollup: true, // a single checkpoint per stream shard
		AllowMsgTTL: true, // and it never expires

		AllowAtomicPublish: true,
		Metadata:           map[string]string{events.LanesMetadata: strconv.Itoa(events.Lanes)},
	})
	if err != nil {
		return nil, fmt.Errorf("make the stream %s: %w", events.StreamName, err)
	}
	if err := ensureDeadLetters(ctx, js, replicas); err != nil {
		return nil, err
	}
	return feed, nil
}

func ensureDeadLetters(ctx context.Context, js jetstream.JetStream, replicas int) error {
	_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:        deadStream,
		Description: "Changes that a service of Tidegate could not read or apply",
		Subjects:    []string{events.DeadLettersAll},
		MaxBytes:    deadBytes,
		Discard:     jetstream.DiscardNew,
		Replicas:    replicas,
		AllowDirect: true,
	})
	if err != nil {
		return fmt.Errorf("make the stream %s: %w", deadStream, err)
	}
	return nil
}
