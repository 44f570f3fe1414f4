package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/internal/outage"
	"github.com/tidegate/tidegate/internal/rollback"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
)

const (
	// recordsBucket is the NATS KV bucket of lease records, by namespace and lease.
	recordsBucket = "TIDEGATE_LEASES"
	recordsStream = "KV_" + recordsBucket
	recordSubject = "$KV." + recordsBucket + "."

	// recordTimeout bounds an attempt to read or write a record.
	recordTimeout = time.Second
	// recordRetention is the number of credit windows for which records are kept, at least
	// for minRetention.
	recordRetention = 2
	minRetention    = time.Minute
	// noCredit is an epoch that no lease belongs to. A record written in it may not last,
	// so that its credits stay spent.
	noCredit = math.MaxInt64
)

var (
	// ErrOvertaken says that the record is not at the revision that the write expects. The
	// record was not written.
	ErrOvertaken = errors.New("the lease's record has changed")
	// ErrNotStored says that a record was certainly not written.
	ErrNotStored = errors.New("the lease's record was not stored")
	// ErrNoRoom says that a record was certainly not written, because there is no room for it.
	ErrNoRoom = errors.New("no room for the lease's record")
)

// Records stores the records of leases. It is safe for concurrent use.
type Records interface {
	// Read returns the newest record of a lease; its Record is nil if no record is stored.
	Read(ctx context.Context, key string) (Version, error)
	// Write stores a record if its revision is still the expected revision, 0 for no record. It
	// returns the new revision, and the epoch that holds after it: only leases of that
	// epoch get credits. After ErrOvertaken, ErrNotStored and ErrNoRoom the record was not stored;
	// after any other error the outcome is unknown, and it may be stored yet.
	Write(ctx context.Context, key string, rec *Record, expected uint64) (revision uint64, epoch int64, err error)
}

// Version is a record as it is stored.
type Version struct {
	Record   *Record // nil: no record is stored
	Revision uint64  // 0: no record is stored
}

// guardedRecords stores records in a NATS KV bucket. The guard sends the node's writes in
// batches, and notices if NATS has forgotten writes.
type guardedRecords struct {
	nats    *nats.Conn
	guard   *rollback.Guard
	clock   *store.Clock
	log     *slog.Logger
	stock   *stock
	metrics *recordMetrics

	// owned by watchStock
	node     string // names the node's counts; random, of this start
	revision uint64 // of the node's stored counts
}

// openRecords opens the bucket, and creates it if it is missing. Records outlive the
// credits that they decide.
func openRecords(ctx context.Context, c Config, epochs *rollback.Epochs) (*guardedRecords, error) {
	js, err := jetstream.New(c.NATS)
	if err != nil {
		return nil, fmt.Errorf("open lease records: %w", err)
	}
	life := max(recordRetention*c.CreditWindow, minRetention)
	err = outage.Await(ctx, c.Log, "admission: the lease records in JetStream", func(ctx context.Context) error {
		_, err := rollback.OpenBucket(ctx, js, rollback.Bucket{
			Name: recordsBucket, Description: "Tidegate: what each settled lease may still give back",
			TTL: life, Replicas: c.Replicas, MaxBytes: c.MaxBytes,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open lease records (is JetStream enabled on the NATS server?): %w", err)
	}
	guard, err := rollback.New(rollback.Config{
		NATS: c.NATS, Bucket: recordsBucket, Subject: api.EpochSubject, Epochs: epochs,
		Now: func() time.Time { return time.Time{}.Add(c.Clock.Mono()) }, Log: c.Log, Metrics: c.Metrics,
	})
	if err != nil {
		return nil, fmt.Errorf("guard lease records: %w", err)
	}
	m, err := newRecordMetrics(c.Metrics)
	if err != nil {
		return nil, err
	}
	r := &guardedRecords{nats: c.NATS, guard: guard, clock: c.Clock, log: c.Log, stock: newStock(life), metrics: m, node: nuid.Next()}
	return r, errors.Join(r.look(ctx), r.readStocks(ctx))
}

// Read implements Records: it asks the stream's leader.
func (r *guardedRecords) Read(ctx context.Context, key string) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	m, err := leader.Last(ctx, r.nats, recordsStream, recordSubject+key)
	if errors.Is(err, leader.ErrNone) {
		return Version{}, nil
	}
	if err != nil {
		return Version{}, fmt.Errorf("read the record of lease %s: %w", key, err)
	}
	stored := Version{Record: new(Record), Revision: m.Sequence}
	if err := cbor.Unmarshal(m.Data, stored.Record); err != nil {
		return Version{}, fmt.Errorf("decode the record of lease %s: %w", key, err)
	}
	return stored, nil
}

// Write implements Records.
func (r *guardedRecords) Write(ctx context.Context, key string, rec *Record, expected uint64) (uint64, int64, error) {
	value, err := cbor.Marshal(rec)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: encode: %w", ErrNotStored, err)
	}
	namespace, _, _ := strings.Cut(key, ".")
	now, _ := r.clock.Now() // an unchecked clock is good enough for minutes
	if expected == 0 {
		if err := r.stock.check(namespace, now); err != nil {
			return 0, 0, r.refuse(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	revision, epoch, err := r.guard.Write(ctx, key, value, expected)
	if err == nil || errors.Is(err, rollback.ErrUncertain) {
		r.stock.stored(namespace, int64(len(recordSubject)+len(key)+len(value)+recordOverhead), expected > 0, now)
	}
	switch {
	case leader.IsFull(err):
		return 0, 0, r.refuse(errNoRoom)
	case errors.Is(err, rollback.ErrUncertain):
		return revision, noCredit, nil
	case errors.Is(err, rollback.ErrRefused):
		return 0, 0, ErrOvertaken
	case errors.Is(err, rollback.ErrNotWritten):
		return 0, 0, fmt.Errorf("%w: %w", ErrNotStored, err)
	case err != nil:
		return 0, 0, fmt.Errorf("store the record of lease %s: %w", key, err)
	}
	return revision, epoch, nil
}
