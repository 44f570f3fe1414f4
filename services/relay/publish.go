package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/tidegate/tidegate/pkg/events"
)

// Headers of atomic batches, which nats.go has no names for, and of markers.
const (
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"

	never = "never" // the time to live of what outlives the feed's maximum age
)

// maxBatch is how many messages the server takes in one atomic batch; the last
// is the marker.
const maxBatch = 1000

// What the server says of a batch that it refused. After any other error nobody
// knows whether the batch is in the feed; its marker tells.
var (
	// errFenced: another relay has published since the marker was read.
	errFenced = errors.New("another relay was faster")
	// errFull: the feed holds as much as it may.
	errFull = errors.New("the change feed is full: a service that follows it is behind, or its maximum size is too small")
)

// codeStoreFailed is the server's error code for a message that does not fit the
// stream, among others; its text says which.
const (
	codeStoreFailed = 10077
	textFull        = "maximum bytes exceeded"
)

// publish adds messages and the marker behind them to the feed: all of them, or
// none. It returns the marker's number.
func publish(ctx context.Context, nc *nats.Conn, messages []*nats.Msg, mark checkpoint, fence uint64) (uint64, error) {
	last, err := markerMessage(mark, fence)
	if err != nil {
		return 0, err
	}
	batch := nuid.Next()
	for i, m := range messages {
		inBatch(m, batch, i+1)
		if err := nc.PublishMsg(m); err != nil {
			return 0, fmt.Errorf("publish a page: %w", err)
		}
	}
	inBatch(last, batch, len(messages)+1)
	last.Header.Set(headerBatchCommit, "1")
	reply, err := nc.RequestMsgWithContext(ctx, last)
	if err != nil {
		return 0, fmt.Errorf("publish a page: %w", err)
	}
	return acknowledged(reply.Data, len(messages)+1)
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

func inBatch(m *nats.Msg, batch string, n int) {
	m.Header.Set(headerBatchID, batch)
	m.Header.Set(headerBatchSequence, strconv.Itoa(n))
}

// acknowledged reads the server's answer to a batch.
func acknowledged(data []byte, size int) (uint64, error) {
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Sequence uint64              `json:"seq"`
		Count    int                 `json:"count"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("publish a page: the answer cannot be read: %w", err)
	}
	switch e := ack.Error; {
	case e == nil && ack.Count == size:
		return ack.Sequence, nil
	case e == nil:
		return 0, fmt.Errorf("publish a page: the server took %d of %d messages", ack.Count, size)
	case e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence, e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return 0, errFenced
	case e.ErrorCode == codeStoreFailed && strings.Contains(e.Description, textFull):
		return 0, errFull
	default:
		return 0, fmt.Errorf("publish a page: %w", e)
	}
}
