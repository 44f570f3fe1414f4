package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/pkg/events"
)

// never is the time to live of messages that outlive the feed's maximum age.
const never = "never"

// maxBatch is how many messages a batch takes; the last is the marker.
const maxBatch = leader.MaxBatch

// publish adds messages and the marker behind them to the feed: all of them, or
// nothing. After an error other than leader.ErrFenced and leader.ErrFull it is unknown
// whether the batch is in the feed; its marker tells.
func publish(ctx context.Context, nc *nats.Conn, messages []*nats.Msg, mark checkpoint, fence uint64) (leader.Batch, error) {
	last, err := markerMessage(mark, fence)
	if err != nil {
		return leader.Batch{}, err
	}
	batch, err := leader.Publish(ctx, nc, append(messages, last))
	if err != nil {
		return leader.Batch{}, fmt.Errorf("publish a page: %w", err)
	}
	return batch, nil
}

// markerMessage is a marker, refused by the server unless the marker before it has
// the number of the fence.
func markerMessage(mark checkpoint, fence uint64) (*nats.Msg, error) {
	payload, err := json.Marshal(mark)
	if err != nil {
		return nil, fmt.Errorf("encode the checkpoint: %w", err)
	}
	m := nats.NewMsg(events.CheckpointSubject(mark.Shard))
	m.Data = payload
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(fence, 10))
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	m.Header.Set(jetstream.MsgTTLHeader, never)
	return m, nil
}

// isOfBucket reports whether a message is an event of a bucket.
func isOfBucket(m *nats.Msg) bool {
	kind, _, err := events.ParseSubject(m.Subject)
	return err == nil && kind == events.KindBucket
}

// sizeOf is about how much of the feed messages take.
func sizeOf(messages []*nats.Msg) (bytes int64) {
	for _, m := range messages {
		bytes += int64(len(m.Subject) + len(m.Data) + overhead)
	}
	return bytes
}
