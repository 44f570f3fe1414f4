package rollback

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Bucket describes a key-value bucket that a guard writes.
type Bucket struct {
	Name        string
	Description string
	TTL         time.Duration // of a key; 0: it does not expire
	Replicas    int           // default 1
	MaxBytes    int64         // of all keys; a full bucket takes no new key. 0: no bound
}

// OpenBucket makes the bucket, or brings it to these settings. It is a bucket of
// JetStream's, with two differences: it takes atomic batches, and it answers no
// direct gets, so that every read is the leader's.
func OpenBucket(ctx context.Context, js jetstream.JetStream, b Bucket) (jetstream.KeyValue, error) {
	window := 2 * time.Minute // of duplicates, the server's own; not longer than keys live
	if b.TTL > 0 {
		window = min(window, b.TTL)
	}
	maxBytes := b.MaxBytes
	if maxBytes <= 0 {
		maxBytes = -1
	}
	_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:              streamOf(b.Name),
		Description:       b.Description,
		Subjects:          []string{subjectOf(b.Name, ">")},
		MaxMsgsPerSubject: 1,
		MaxAge:            b.TTL,
		MaxBytes:          maxBytes,
		Duplicates:        window,
		Discard:           jetstream.DiscardNew,
		Replicas:          max(1, b.Replicas),
		AllowRollup:       true,
		DenyDelete:        true,

		AllowAtomicPublish: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make the bucket %s: %w", b.Name, err)
	}
	kv, err := js.KeyValue(ctx, b.Name)
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", b.Name, err)
	}
	return kv, nil
}

// The names that JetStream's key-value buckets have.
func streamOf(bucket string) string       { return "KV_" + bucket }
func subjectOf(bucket, key string) string { return "$KV." + bucket + "." + key }
