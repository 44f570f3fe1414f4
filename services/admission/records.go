package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

const (
	// recordsBucket is the NATS KV bucket of lease records, by lease.
	recordsBucket = "TIDEGATE_LEASES"
	recordsStream = "KV_" + recordsBucket
	recordSubject = "$KV." + recordsBucket + "."

	// recordTimeout bounds one attempt to read or write records.
	recordTimeout = time.Second
	// maxRecordBatch is how many records one atomic batch holds at most; the server
	// takes 1,000.
	maxRecordBatch = 500

	// headerNonce tells the versions of a record apart.
	headerNonce = "Tidegate-Nonce"

	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
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
	// write stores a record if its revision is still the expected one, 0 for none, and
	// returns its new revision. The errors errOvertaken and errNotStored say that it
	// was not stored; after any other the outcome is unknown, and it may be stored yet.
	write(ctx context.Context, key string, rec *record, nonce string, expected uint64) (revision uint64, err error)
}

// records stores the records of leases in a NATS KV bucket. Writes are
// compare-and-set by revision. While one write is under way, others wait and then
// travel together in one atomic batch, because the server syncs once for each.
type records struct {
	nats   *nats.Conn
	stream jetstream.Stream
	acked  func(revision uint64, nonce string) // told of each record that was stored
	run    func(func())                        // starts work that the node waits for

	mu      sync.Mutex
	waiting []*recordWrite // guarded by mu
	sending bool           // guarded by mu
}

// recordVersion is a record as it is stored.
type recordVersion struct {
	record   *record // nil: there is none
	revision uint64  // 0: there is none
	nonce    string
}

// recordWrite is one compare-and-set.
type recordWrite struct {
	ctx      context.Context //nolint:containedctx // the time of one call, which this is
	key      string
	value    []byte
	nonce    string
	expected uint64
	done     chan recordResult
}

type recordResult struct {
	revision uint64
	err      error
}

// openRecords opens the bucket, and creates it if it is missing. It keeps records for
// ttl, which must be longer than credits are accepted. The bucket answers reads at
// the stream's leader: a follower may be behind.
func openRecords(ctx context.Context, nc *nats.Conn, ttl time.Duration, replicas int, run func(func())) (*records, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open lease records: %w", err)
	}
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:               recordsStream,
		Description:        "Tidegate: what each settled lease may still give back",
		Subjects:           []string{recordSubject + ">"},
		MaxMsgsPerSubject:  1,
		Discard:            jetstream.DiscardNew,
		MaxAge:             ttl,
		Replicas:           replicas,
		AllowRollup:        true,
		DenyDelete:         true,
		AllowAtomicPublish: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open lease records (is JetStream enabled on the NATS server?): %w", err)
	}
	return &records{nats: nc, stream: stream, run: run, acked: func(uint64, string) {}}, nil
}

// read implements recordStore: it asks the stream's leader.
func (r *records) read(ctx context.Context, key string) (recordVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	m, err := r.stream.GetLastMsgForSubject(ctx, recordSubject+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return recordVersion{}, nil
	}
	if err != nil {
		return recordVersion{}, fmt.Errorf("read the record of lease %s: %w", key, err)
	}
	stored := recordVersion{record: new(record), revision: m.Sequence, nonce: m.Header.Get(headerNonce)}
	if err := cbor.Unmarshal(m.Data, stored.record); err != nil {
		return recordVersion{}, fmt.Errorf("decode the record of lease %s: %w", key, err)
	}
	return stored, nil
}

// write implements recordStore.
func (r *records) write(ctx context.Context, key string, rec *record, nonce string, expected uint64) (uint64, error) {
	value, err := cbor.Marshal(rec)
	if err != nil {
		return 0, fmt.Errorf("%w: encode: %w", errNotStored, err)
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	w := &recordWrite{ctx: ctx, key: key, value: value, nonce: nonce, expected: expected, done: make(chan recordResult, 1)}
	r.mu.Lock()
	r.waiting = append(r.waiting, w)
	start := !r.sending
	r.sending = true
	r.mu.Unlock()
	if start {
		r.run(r.send)
	}
	select {
	case res := <-w.done:
		return res.revision, res.err
	case <-ctx.Done():
		return 0, fmt.Errorf("store the record of lease %s: %w", key, ctx.Err())
	}
}

// send stores what waits, batch after batch, until nothing does.
func (r *records) send() {
	for {
		r.mu.Lock()
		batch := r.take()
		if len(batch) == 0 {
			r.sending = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		r.store(batch)
	}
}

// take removes from what waits what goes into the next batch: one write of each
// record. A write whose caller has left is not sent. r.mu is held.
func (r *records) take() (batch []*recordWrite) {
	keys := make(map[string]bool, len(r.waiting))
	var rest []*recordWrite
	for _, w := range r.waiting {
		switch {
		case w.ctx.Err() != nil:
			w.done <- recordResult{err: errNotStored}
		case keys[w.key] || len(batch) == maxRecordBatch:
			rest = append(rest, w)
		default:
			keys[w.key] = true
			batch = append(batch, w)
		}
	}
	r.waiting = rest
	return batch
}

// store sends writes and tells their results. The server refuses a batch as a whole:
// its writes are then sent one by one, all under way at once.
func (r *records) store(batch []*recordWrite) {
	if len(batch) > 1 {
		last, err := r.publish(batch)
		if !errors.Is(err, errOvertaken) && !errors.Is(err, errNotStored) {
			for i, w := range batch {
				r.finish(w, last-uint64(len(batch)-1-i), err) //nolint:gosec // i is below the length
			}
			return
		}
	}
	var sent sync.WaitGroup
	for _, w := range batch {
		sent.Add(1)
		r.run(func() {
			defer sent.Done()
			revision, err := r.publish([]*recordWrite{w})
			r.finish(w, revision, err)
		})
	}
	sent.Wait()
}

func (r *records) finish(w *recordWrite, revision uint64, err error) {
	if err == nil {
		r.acked(revision, w.nonce)
	}
	w.done <- recordResult{revision, err}
}

// publish sends writes as one message, or as one atomic batch, and returns the
// sequence of the last.
func (r *records) publish(batch []*recordWrite) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	id := nuid.Next()
	for i, w := range batch {
		m := nats.NewMsg(recordSubject + w.key)
		m.Data = w.value
		m.Header.Set(headerNonce, w.nonce)
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(w.expected, 10))
		if len(batch) > 1 {
			m.Header.Set(headerBatchID, id)
			m.Header.Set(headerBatchSequence, strconv.Itoa(i+1))
		}
		if i < len(batch)-1 {
			if err := r.nats.PublishMsg(m); err != nil { // a batch without its end is dropped
				return 0, fmt.Errorf("%w: %w", errNotStored, err)
			}
			continue
		}
		if len(batch) > 1 {
			m.Header.Set(headerBatchCommit, "1")
		}
		reply, err := r.nats.RequestMsgWithContext(ctx, m)
		if errors.Is(err, nats.ErrNoResponders) {
			return 0, fmt.Errorf("%w: %w", errNotStored, err)
		}
		if err != nil {
			return 0, fmt.Errorf("store lease records: %w", err)
		}
		return storedAt(reply.Data)
	}
	return 0, errNotStored
}

// storedAt reads the server's answer to a write or a batch.
func storedAt(data []byte) (uint64, error) {
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Sequence uint64              `json:"seq"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("store lease records: the answer cannot be read: %w", err)
	}
	switch e := ack.Error; {
	case e == nil:
		return ack.Sequence, nil
	case e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence, e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return 0, errOvertaken
	default:
		return 0, fmt.Errorf("%w: %w", errNotStored, e)
	}
}
