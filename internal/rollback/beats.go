package rollback

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/tidegate/tidegate/internal/leader"
)

// headerOperation marks the message that takes a key away.
const (
	headerOperation = "KV-Operation"
	operationPurge  = "PURGE"
)

// beat is the last message of the key that only this node writes.
type beat struct {
	subject  string
	sequence uint64 // 0: the bucket has no beat yet
	nonce    string
	at       time.Time // when it was acknowledged, at the latest
	epoch    int64     // that held then
}

// beats writes this node's beats and finds the last at the leader. It is owned by
// Guard.Run.
type beats struct {
	link    *link
	epochs  *Epochs
	now     func() time.Time
	node    string
	keys    int // beat keys so far
	last    beat
	pending map[string]bool // nonces of beats that were written without an answer
}

// beatPrefix begins the subjects of the nodes' beats.
func beatPrefix(bucket string) string { return subjectOf(bucket, "beat.") }

// publish stores messages and the next beat behind them as a batch. The error is
// leader.ErrFenced where a message, or the beat, expected another revision.
func (b *beats) publish(ctx context.Context, messages []*nats.Msg) (last uint64, _ error) {
	nonce, m := b.next()
	call, cancel := b.link.request(ctx)
	defer cancel()
	batch, err := leader.Publish(call, b.link.nats, append(messages, m))
	return batch.Last, b.published(nonce, batch.Last, err)
}

// renew writes a beat alone.
func (b *beats) renew(ctx context.Context) error {
	nonce, m := b.next()
	return b.send(ctx, nonce, m)
}

func (b *beats) send(ctx context.Context, nonce string, m *nats.Msg) error {
	call, cancel := b.link.request(ctx)
	defer cancel()
	ack, err := b.link.js.PublishMsg(call, m)
	switch {
	case err == nil:
		return b.published(nonce, ack.Sequence, nil)
	case leader.IsFenced(err):
		err = leader.ErrFenced
	}
	return b.published(nonce, 0, err)
}

// next returns the beat that follows the last beat.
func (b *beats) next() (nonce string, m *nats.Msg) {
	nonce, m = nuid.Next(), nats.NewMsg(b.last.subject)
	m.Data = []byte(nonce)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(b.last.sequence, 10))
	return nonce, m
}

// published notes the outcome of a beat.
func (b *beats) published(nonce string, sequence uint64, err error) error {
	var refused *jetstream.APIError
	switch {
	case err == nil:
		b.acknowledged(nonce, sequence)
	case errors.As(err, &refused) || errors.Is(err, leader.ErrFull):
		return fmt.Errorf("%w: %w", ErrNotWritten, err)
	case !errors.Is(err, leader.ErrFenced):
		b.pending[nonce] = true
	}
	return err
}

// acknowledged notes the node's last beat. Earlier ones without an answer can be
// stored no more, because they expect another revision.
func (b *beats) acknowledged(nonce string, sequence uint64) {
	b.last.nonce, b.last.sequence, b.last.at, b.last.epoch = nonce, sequence, b.now(), b.epochs.Current()
	clear(b.pending)
}

// fresh begins with another key.
func (b *beats) fresh() {
	b.keys++
	b.last = beat{subject: beatPrefix(b.link.bucket) + b.node + "." + strconv.Itoa(b.keys), epoch: b.epochs.Current()}
	b.pending = map[string]bool{}
}

// purge takes the beat away. If that fails, the other nodes wait once for this node.
func (b *beats) purge(ctx context.Context) {
	if b.last.sequence > 0 {
		nonce, m := b.next()
		m.Header.Set(headerOperation, operationPurge)
		_ = b.send(ctx, nonce, m)
	}
}

// found is the leader's state of a beat.
type found uint8

const (
	foundSame    found = iota // the last beat that was acknowledged
	foundPending              // a later beat with a lost acknowledgement; it is the last now
	foundOther                // an older beat, or no beat: the stream was rolled back, or its leader is behind
)

// find reads the beat at the leader.
func (b *beats) find(ctx context.Context) (found, error) {
	call, cancel := b.link.request(ctx)
	defer cancel()
	m, err := leader.Last(call, b.link.nats, b.link.stream, b.last.subject)
	switch {
	case errors.Is(err, leader.ErrNone) && b.last.sequence == 0:
		return foundSame, nil
	case errors.Is(err, leader.ErrNone):
		return foundOther, nil
	case err != nil:
		return foundOther, err
	}
	nonce := string(m.Data)
	switch {
	case m.Sequence == b.last.sequence && nonce == b.last.nonce:
		return foundSame, nil
	case m.Sequence > b.last.sequence && b.pending[nonce]:
		b.acknowledged(nonce, m.Sequence)
		return foundPending, nil
	}
	return foundOther, nil
}
