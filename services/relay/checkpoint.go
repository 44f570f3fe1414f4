package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/pkg/events"
)

// checkpoint is the content of a marker: up to where a stream shard is in the
// feed.
type checkpoint struct {
	Stream   string `json:"stream"`             // ARN
	Shard    string `json:"shard"`              // of the stream
	Sequence string `json:"sequence,omitempty"` // of the last record, as DynamoDB writes it; empty before the first record
	Closed   bool   `json:"closed,omitempty"`   // it was read to its end: its children may be read
	// While buckets wait for room: up to where all other kinds are, and whether that
	// is the shard's end.
	Ahead       string `json:"ahead,omitempty"`
	AheadClosed bool   `json:"ahead_closed,omitempty"`
}

// marker is a checkpoint in the feed.
type marker struct {
	checkpoint
	number uint64    // in the feed: the fence of the next marker; 0: the feed has no marker yet
	at     time.Time // when it was published
	begun  bool      // it belongs to the requested stream shard, and its beginning was decided on
}

// loadMarker reads the marker of a stream shard at the feed's leader: a replica
// could have a marker that the feed has forgotten. It may be out of date, for which there
// is the fence.
func loadMarker(ctx context.Context, nc *nats.Conn, at source) (marker, error) {
	m, err := lastMarker(ctx, nc, at.shard)
	if err != nil {
		return marker{}, err
	}
	if m.begun = m.number > 0 && m.Stream == at.arn; !m.begun { // the feed has no marker, or an old stream had a shard of that name
		m.checkpoint = checkpoint{Stream: at.arn, Shard: at.shard}
	}
	return m, nil
}

// lastMarker returns the feed's marker of a stream shard of that name, or the zero marker
// where it has nothing.
func lastMarker(ctx context.Context, nc *nats.Conn, shard string) (marker, error) {
	raw, err := leader.Last(ctx, nc, events.StreamName, events.CheckpointSubject(shard))
	switch {
	case errors.Is(err, leader.ErrNone):
		return marker{}, nil
	case err != nil:
		return marker{}, fmt.Errorf("read the checkpoint: %w", err)
	}
	m := marker{number: raw.Sequence, at: raw.Time}
	if err := json.Unmarshal(raw.Data, &m.checkpoint); err != nil {
		return marker{}, fmt.Errorf("the checkpoint of stream shard %s, message %d of the feed, is damaged: %w", shard, raw.Sequence, err)
	}
	return m, nil
}

// later reports whether a sequence number comes after another of the same stream
// shard; any number comes after the empty number.
func later(a, b string) bool {
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}
