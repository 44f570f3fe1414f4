package admission

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/internal/rollback"
	"github.com/tidegate/tidegate/pkg/api"
)

const (
	// recordsBucket is the NATS KV bucket of lease records, by namespace and lease.
	recordsBucket = "TIDEGATE_LEASES"
	recordsStream = "KV_" + recordsBucket
	recordSubject = "$KV." + recordsBucket + "."

	// recordTimeout bounds one attempt to read or write a record.
	recordTimeout = time.Second
	// noCredit is an epoch that no lease is of: what was written in it is not certain to
	// last, so that its credits stay spent.
	noCredit = math.MaxInt64
)

var (
	// errOvertaken says that the record is not at the revision that the write expects.
	// It was not written.
	errOvertaken = errors.New("the lease's record has changed")
	// errNotStored says that a record was certainly not written.
	errNotStored = errors.New("the lease's record was not stored")
)

// recordStore keeps the records of leases. It is safe for concurrent use.
type recordStore interface {
	// read returns the newest record of a lease; its record is nil where there is none.
	read(ctx context.Context, key string) (recordVersion, error)
	// write stores a record if its revision is still the expected one, 0 for none. It
	// returns the new revision, and the epoch that holds after it: only leases of it
	// get credits. The errors errOvertaken and errNotStored say that the record was not
	// stored; after any other the outcome is unknown, and it may be stored yet.
	write(ctx context.Context, key string, rec *record, expected uint64) (revision uint64, epoch int64, err error)
}

// recordVersion is a record as it is stored.
type recordVersion struct {
	record   *record // nil: there is none
	revision uint64  // 0: there is none
}

// records stores records in a NATS KV bucket. The guard gathers the writes of the
// node into batches, and notices when NATS has forgotten some.
type records struct {
	nats  *nats.Conn
	guard *rollback.Guard
}

// openRecords opens the bucket, and creates it if it is missing. It keeps records for
// ttl, which must be longer than credits are accepted.
func (s *Service) openRecords(ctx context.Context, ttl time.Duration) (*records, error) {
	js, err := jetstream.New(s.nats)
	if err != nil {
		return nil, fmt.Errorf("open lease records: %w", err)
	}
	_, err = rollback.OpenBucket(ctx, js, rollback.Bucket{
		Name: recordsBucket, Description: "Tidegate: what each settled lease may still give back",
		TTL: ttl, Replicas: s.tuning.LeaseReplicas,
	})
	if err != nil {
		return nil, fmt.Errorf("open lease records (is JetStream enabled on the NATS server?): %w", err)
	}
	guard, err := rollback.New(rollback.Config{
		NATS: s.nats, Bucket: recordsBucket, Subject: api.EpochSubject, Epochs: s.epochs,
		Now: func() time.Time { return time.Time{}.Add(s.clock.Mono()) }, Log: s.log, Metrics: s.registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("guard lease records: %w", err)
	}
	return &records{nats: s.nats, guard: guard}, nil
}

// guardRecords opens the lease records and runs their guard until stop is called,
// which returns when the guard has ended. It waits for the guard's first look.
func (s *Service) guardRecords(ctx context.Context) (guard *rollback.Guard, stop func(), err error) {
	records, err := s.openRecords(ctx, max(recordRetention*s.tuning.CreditWindow, minRetention))
	if err != nil {
		return nil, nil, fmt.Errorf("admission: %w", err)
	}
	s.records = records
	guarding, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := records.guard.Run(guarding); err != nil {
			s.log.ErrorContext(ctx, "lease records are not guarded: nothing can be given back", "error", err)
		}
	}()
	stop = func() { cancel(); <-ended }
	select {
	case <-records.guard.Ready():
		return records.guard, stop, nil
	case <-ended:
		cancel()
		return nil, nil, errors.New("admission: the lease records are not guarded")
	case <-ctx.Done():
		stop()
		return nil, nil, fmt.Errorf("admission: look at the lease records: %w", ctx.Err())
	}
}

// read implements recordStore: it asks the stream's leader.
func (r *records) read(ctx context.Context, key string) (recordVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	m, err := leader.Last(ctx, r.nats, recordsStream, recordSubject+key)
	if errors.Is(err, leader.ErrNone) {
		return recordVersion{}, nil
	}
	if err != nil {
		return recordVersion{}, fmt.Errorf("read the record of lease %s: %w", key, err)
	}
	stored := recordVersion{record: new(record), revision: m.Sequence}
	if err := cbor.Unmarshal(m.Data, stored.record); err != nil {
		return recordVersion{}, fmt.Errorf("decode the record of lease %s: %w", key, err)
	}
	return stored, nil
}

// write implements recordStore.
func (r *records) write(ctx context.Context, key string, rec *record, expected uint64) (uint64, int64, error) {
	value, err := cbor.Marshal(rec)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: encode: %w", errNotStored, err)
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	revision, epoch, err := r.guard.Write(ctx, key, value, expected)
	switch {
	case errors.Is(err, rollback.ErrUncertain):
		return revision, noCredit, nil
	case errors.Is(err, rollback.ErrRefused):
		return 0, 0, errOvertaken
	case errors.Is(err, rollback.ErrNotWritten):
		return 0, 0, fmt.Errorf("%w: %w", errNotStored, err)
	case err != nil:
		return 0, 0, fmt.Errorf("store the record of lease %s: %w", key, err)
	}
	return revision, epoch, nil
}
