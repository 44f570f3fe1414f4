package admission

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// env holds the parts of the node that its writers and its router use. All of them
// share a single env.
type env struct {
	store     *bucketStore
	settings  *settingsSource
	clock     *store.Clock
	pool      *workerPool
	nonces    *nonces
	abort     context.Context //nolint:containedctx // the life of the node's work, which no single request owns
	metrics   *metrics
	log       *slog.Logger
	tracer    trace.Tracer  // nil: nothing is traced
	batch     int           // operations in a write at most; 0: no bound
	share     int           // calls that may wait for a bucket
	unsettled *atomic.Int64 // settlements that have not ended, plus sums of refunds that are not written
}

// nonces makes the nonces of the node's writes.
type nonces struct {
	boot     string // random, the first part of every nonce
	sequence atomic.Uint64
}

func newNonces() *nonces {
	var boot [6]byte
	_, _ = rand.Read(boot[:])
	return &nonces{boot: base64.RawURLEncoding.EncodeToString(boot[:])}
}

// next returns a nonce that no other write of any node has.
func (n *nonces) next() string {
	return n.boot + "." + strconv.FormatUint(n.sequence.Add(1), 36)
}

func (e *env) logStore(ctx context.Context, doing string, key keys.Bucket, err error) {
	e.log.ErrorContext(ctx, "the store failed", "doing", doing, "bucket", key.Key().PK, "error", err)
}

// logPanic reports a panic that was recovered.
func (e *env) logPanic(ctx context.Context, cause any) {
	e.metrics.panics.Inc()
	e.log.ErrorContext(ctx, "recovered from a panic", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
}

// recorder takes note of the load and the debt that a writer sees at its shard. Only
// the writer's flight calls it, never two goroutines at once. Its methods do not block.
type recorder interface {
	// denied counts an acquire of the bucket that the shard could not hold.
	denied()
	// refused counts the write units of a failed condition. The item includes them once
	// another write of this writer is applied.
	refused(units int64)
	// throttled counts the write units that the shard's partition did not let through.
	// dearest holds the largest cost of the calls that wait, by limit, in whole tokens.
	throttled(units int64, dearest map[string]int64)
	// written takes in the item that an applied write left. counted reports that the item
	// now includes all refused writes.
	written(item *table.Bucket, counted bool)
	// learned ends a step: the shard's known state may take more memory than before.
	learned()
}
