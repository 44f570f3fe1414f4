package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// claimsBucket is the NATS KV bucket of settlement claims.
const claimsBucket = "TIDEGATE_CLAIMS"

// claimTimeout bounds one call to the claims bucket.
const claimTimeout = time.Second

// claims make each settlement of a lease happen once: before a node writes, it
// claims the lease's sequence number by creating a key.
type claims struct {
	kv jetstream.KeyValue
	// pending is how long a claim may be unfinished before its node counts as
	// dead: longer than a settlement's write and read may take.
	pending time.Duration
	now     func() time.Time
}

// claimRecord is the value of a claim's key.
type claimRecord struct {
	Hash  string          `json:"hash"`            // of the operation that claimed
	Done  bool            `json:"done"`            // its writes are applied
	Reply json.RawMessage `json:"reply,omitempty"` // what was answered then
}

// claimState is what became of an attempt to claim.
type claimState uint8

const (
	claimTaken       claimState = iota // ours: go on, then finish or abandon it
	claimDone                          // done before: answer the same again
	claimOther                         // another operation has it
	claimUnfinished                    // begun, and its node seems to be dead
	claimUnreachable                   // nothing is known
)

// claim is one attempt.
type claim struct {
	state    claimState
	key      string
	hash     string
	revision uint64
	reply    []byte
}

// openClaims opens the bucket, and makes it where it is not there. Claims are
// kept for ttl, which must be longer than credits are accepted.
func openClaims(ctx context.Context, nc *nats.Conn, ttl, pending time.Duration, replicas int, now func() time.Time) (*claims, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open settlement claims: %w", err)
	}
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket:      claimsBucket,
		Description: "Tidegate: which settlement of which lease was begun and done",
		TTL:         ttl,
		Replicas:    replicas,
	})
	if err != nil {
		return nil, fmt.Errorf("open settlement claims (is JetStream enabled on the NATS server?): %w", err)
	}
	return &claims{kv: kv, pending: pending, now: now}, nil
}

// take claims key for the operation of hash. While another node is at the same
// operation, it waits for that node's answer.
func (c *claims) take(ctx context.Context, key, hash string) claim {
	cl := claim{key: key, hash: hash}
	value, _ := json.Marshal(claimRecord{Hash: hash}) // of strings and booleans: cannot fail
	call, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	revision, err := c.kv.Create(call, key, value)
	switch {
	case err == nil:
		cl.state, cl.revision = claimTaken, revision
	case errors.Is(err, jetstream.ErrKeyExists):
		c.follow(ctx, &cl)
	default:
		cl.state = claimUnreachable
	}
	return cl
}

// follow watches a claim that exists until it is done or its time is up.
func (c *claims) follow(ctx context.Context, cl *claim) {
	cl.state = claimUnreachable
	watch, cancel := context.WithTimeout(ctx, c.pending)
	defer cancel()
	updates, err := c.kv.Watch(watch, cl.key)
	if err != nil {
		return
	}
	defer func() { _ = updates.Stop() }()
	for {
		select {
		case <-watch.Done():
			return
		case entry, open := <-updates.Updates():
			if !open {
				return
			}
			if entry == nil {
				continue // all that was there before the watch
			}
			c.judge(entry, cl)
			if cl.state != claimUnfinished || c.now().Sub(entry.Created()) > c.pending {
				return
			}
		}
	}
}

// judge reads one version of a claim.
func (c *claims) judge(entry jetstream.KeyValueEntry, cl *claim) {
	var record claimRecord
	switch err := json.Unmarshal(entry.Value(), &record); {
	case err != nil:
		cl.state = claimUnreachable // deleted, or damaged
	case record.Hash != cl.hash:
		cl.state = claimOther
	case record.Done:
		cl.state, cl.reply = claimDone, record.Reply
	default:
		cl.state = claimUnfinished
	}
}

// finish records that the claimed operation is applied, with its answer. When
// this fails, the claim stays unfinished and nothing is given back twice.
func (c *claims) finish(ctx context.Context, cl claim, reply []byte) error {
	value, err := json.Marshal(claimRecord{Hash: cl.hash, Done: true, Reply: reply})
	if err != nil {
		return fmt.Errorf("encode claim: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if _, err := c.kv.Update(ctx, cl.key, value, cl.revision); err != nil {
		return fmt.Errorf("finish claim %s: %w", cl.key, err)
	}
	return nil
}

// abandon takes a claim back whose operation was certainly not applied, so that
// it may be tried again.
func (c *claims) abandon(ctx context.Context, cl claim) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if err := c.kv.Purge(ctx, cl.key, jetstream.LastRevision(cl.revision)); err != nil {
		return fmt.Errorf("abandon claim %s: %w", cl.key, err)
	}
	return nil
}
