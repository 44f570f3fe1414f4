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

// never is the time to live of what outlives the feed's maximum age.
const never = "never"

// maxBatch is how many messages a batch takes; the last is the marker.
const maxBatch = leader.MaxBatch

// publish adds messages and the marker behind them to the feed: all of them, or
// none. After an error other than leader.ErrFenced and leader.ErrFull nobody knows
// whether the batch is in the feed; its marker tells.
func publish(ctx context.Context, nc *nats.Conn, messages []*nats.Msg, mark checkpoint, fence uint64) (leader.Batch, error) {
	payload, err := json.Marshal(mark)
	if err != nil {
		return leader.Batch{}, fmt.Errorf("encode the checkpoint: %w", err)
	}
	last := nats.NewMsg(events.CheckpointSubject(mark.Shard))
	last.Data = payload
	last.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(fence, 10))
	last.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	last.Header.Set(jetstream.MsgTTLHeader, never)
	batch, err := leader.Publish(ctx, nc, append(messages, last))
	if err != nil {
		return leader.Batch{}, fmt.Errorf("publish a page: %w", err)
	}
	return batch, nil
}
