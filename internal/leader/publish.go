package leader

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
)

// Headers of atomic batches, which nats.go has no names for.
const (
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
)

// MaxBatch is the number of messages that the server takes in a batch.
const MaxBatch = 1000

// Why the leader refused a batch: nothing of it is stored. After any
// other error, except a *jetstream.APIError, the outcome is unknown.
var (
	// ErrFenced: a subject's last message is not the message that a publish expects.
	ErrFenced = errors.New("another writer was faster")
	// ErrFull: the stream holds as much as it may.
	ErrFull = errors.New("the stream is full")
)

// codeStoreFailed is the server's error code for a message that does not fit the
// stream, among others; its text says which.
const (
	codeStoreFailed = 10077
	textFull        = "maximum bytes exceeded"
)

// Batch identifies a stored batch.
type Batch struct {
	ID   string // random; Message.Batch of each of its messages
	Last uint64 // sequence number of the last message; the others have the numbers before it
}

// Batch returns the ID of the batch that the message came in, or "".
func (m *Message) Batch() string { return m.Header.Get(headerBatchID) }

// Publish stores messages as an atomic batch. It sets the headers of batches, also the headers
// of an earlier attempt.
func Publish(ctx context.Context, nc *nats.Conn, messages []*nats.Msg) (Batch, error) {
	batch, commit := Batch{ID: nuid.Next()}, len(messages)-1
	for i, m := range messages {
		m.Header.Set(headerBatchID, batch.ID)
		m.Header.Set(headerBatchSequence, strconv.Itoa(i+1))
		m.Header.Del(headerBatchCommit)
		if i == commit {
			break
		}
		if err := nc.PublishMsg(m); err != nil {
			return Batch{}, fmt.Errorf("publish a batch: %w", err)
		}
	}
	messages[commit].Header.Set(headerBatchCommit, "1")
	reply, err := nc.RequestMsgWithContext(ctx, messages[commit])
	if err != nil {
		return Batch{}, fmt.Errorf("publish a batch: %w", err)
	}
	if batch.Last, err = acknowledged(reply.Data, len(messages)); err != nil {
		return Batch{}, err
	}
	return batch, nil
}

// acknowledged reads the server's answer to a batch.
func acknowledged(data []byte, size int) (uint64, error) {
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Sequence uint64              `json:"seq"`
		Count    int                 `json:"count"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("publish a batch: the answer cannot be read: %w", err)
	}
	switch e := ack.Error; {
	case e == nil && ack.Count == size:
		return ack.Sequence, nil
	case e == nil:
		return 0, fmt.Errorf("publish a batch: the server took %d of %d messages", ack.Count, size)
	case IsFenced(e):
		return 0, ErrFenced
	case IsFull(e):
		return 0, ErrFull
	default:
		return 0, fmt.Errorf("publish a batch: %w", e)
	}
}

// IsFenced reports whether the leader refused a message because its subject's last
// message is not the expected message.
func IsFenced(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) &&
		(refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// IsFull reports whether the leader refused a message, or a batch, because the stream holds as
// much as it may.
func IsFull(err error) bool {
	var refused *jetstream.APIError
	return errors.Is(err, ErrFull) ||
		errors.As(err, &refused) && refused.ErrorCode == codeStoreFailed && strings.Contains(refused.Description, textFull)
}

// Alone makes a message of a refused batch fit to be published by itself.
func Alone(m *nats.Msg) {
	for _, header := range []string{headerBatchID, headerBatchSequence, headerBatchCommit} {
		m.Header.Del(header)
	}
}
