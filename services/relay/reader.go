package relay

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/pkg/events"
)

const (
	// firstBackoff is the pause before the first retry; it doubles.
	firstBackoff = 20 * time.Millisecond
	// pageBytes is the most that DynamoDB puts into a page.
	pageBytes = 1 << 20
)

// reader brings the records of a stream shard into the feed, for as long as it
// is the relay's.
//
// It trusts nothing that it remembers but the marker: after any failure it reads
// that and begins again behind it. In a new term of the feed it does not trust that
// either, nor that its parent was read to its end: it stops.
type reader struct {
	relay  *Relay
	at     source
	term   leader.Term // of the feed, in which the reader was started
	partly bool        // buckets of its parent wait: only the other kinds may be read
	passed atomic.Bool // all but buckets was read to the shard's end

	// owned by run
	loaded   bool   // mark is known
	mark     marker // up to where the shard is in the feed
	position string // sequence number up to where it was read: behind the mark there was nothing for the feed
	iterator *string
	horizon  bool // the next records are gone: the oldest remaining records come next
	pause    time.Duration
	marked   time.Time // when the mark was last known to be the position
	lag      *lag
	reading  chan fetched // the page that iterator begins is being read; nil: it is not
	ahead    bool         // buckets are left for later
}

// fetched is the result of a read of a stream shard.
type fetched struct {
	page *dynamodbstreams.GetRecordsOutput
	at   time.Time // when it was asked for: the page has all there was by then, unless it is full
	err  error
}

// run reads until ctx ends, or to the shard's end, which it then reports. A page
// that was read is published even if ctx ends meanwhile.
func (r *reader) run(ctx context.Context) (done bool) {
	r.lag = r.relay.metrics.lags.follow(r.at.shard)
	defer r.relay.metrics.lags.leave(r.at.shard, r.lag)
	defer r.begin()
	for ctx.Err() == nil {
		begin := r.relay.cfg.Now()
		full, err := r.runOnce(ctx)
		switch {
		case errors.Is(err, errNewTerm):
			return false // the watch looks at the feed, and starts the shards that may be read then
		case err != nil:
			r.failed(ctx, err)
		case r.mark.Closed:
			return true
		case !full:
			r.pause = 0
			pause(ctx, r.relay.tuning.Poll-r.relay.cfg.Now().Sub(begin))
		default:
			r.pause = 0
		}
	}
	return false
}

// failed counts and logs a failure, and waits before the next attempt,
// longer each time.
func (r *reader) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	m, log := r.relay.metrics, r.relay.cfg.Log.With("stream_shard", r.at.shard)
	r.begin()
	switch {
	case errors.Is(err, context.Canceled):
		// Only the relay aborts its requests: it is being stopped, and may not have
		// come to this reader yet. Should it not be, the read is done again.
		log.DebugContext(ctx, "a read was aborted", "error", err)
	case errors.Is(err, leader.ErrFenced):
		m.fenced.Inc()
		log.DebugContext(ctx, "another relay reads the same stream shard", "error", err)
	case isExpired(err):
		log.InfoContext(ctx, "reading goes on from the checkpoint", "error", err)
	case isTrimmed(err):
		r.horizon = true
		r.relay.lost(ctx, r.at.shard, r.position, err)
	case errors.Is(err, leader.ErrFull):
		m.full.Inc()
		r.relay.room.refused()
		r.relay.fillsUp()
		log.ErrorContext(ctx, "the relay waits: a service that follows the change feed is behind, or its maximum size is too small", "error", err)
	default:
		m.failures.Inc()
		log.WarnContext(ctx, "a stream shard is tried again", "error", err)
	}
	r.pause = min(max(firstBackoff, 2*r.pause), r.relay.tuning.MaxBackoff)
	pause(ctx, r.pause)
}

// runOnce reads a page and publishes it; full says that there is more at once.
func (r *reader) runOnce(ctx context.Context) (full bool, err error) {
	if err := r.relay.history.check(ctx, r.term); err != nil {
		return false, err
	}
	if err := r.load(ctx); err != nil || r.mark.Closed {
		return false, err
	}
	if r.turn(); r.ahead && r.mark.AheadClosed {
		return false, nil // until there is room for buckets
	}
	if r.iterator == nil {
		behind := r.position
		if r.horizon {
			behind = ""
		}
		if r.iterator, err = r.relay.store.iterator(ctx, r.at, behind); err != nil {
			return false, err
		}
	}
	got := r.next(ctx)
	if got.err != nil {
		return false, got.err
	}
	r.horizon = false
	r.iterator = got.page.NextShardIterator
	if full = r.isFull(got.page); full && r.iterator != nil {
		r.readAhead(ctx)
	}
	if err := r.relayPage(ctx, got.page); err != nil {
		return false, err
	}
	if !full && !r.ahead {
		r.lag.until(got.at)
	}
	return full, nil
}

// next is the page that the iterator begins.
func (r *reader) next(ctx context.Context) fetched {
	if r.reading == nil {
		return r.relay.fetch(ctx, r.iterator)
	}
	got := <-r.reading
	r.reading = nil
	return got
}

func (r *Relay) fetch(ctx context.Context, iterator *string) fetched {
	at := r.cfg.Now()
	page, err := r.store.page(ctx, iterator, r.tuning.Page)
	return fetched{page, at, err}
}

// readAhead reads the next page while the previous page is published.
func (r *reader) readAhead(ctx context.Context) {
	reading, iterator := make(chan fetched, 1), r.iterator
	r.reading = reading
	go func() { reading <- r.relay.fetch(ctx, iterator) }() // next or begin waits for it
}

// begin forgets the place; the next page is the page behind the marker, or
// behind the position.
func (r *reader) begin() {
	if r.iterator = nil; r.reading != nil {
		<-r.reading
		r.reading = nil
	}
}

// load reads the marker, unless it is known.
func (r *reader) load(ctx context.Context) error {
	if r.loaded {
		return nil
	}
	call, cancel := r.relay.request(ctx)
	defer cancel()
	m, err := loadMarker(call, r.relay.cfg.NATS, r.at)
	if err != nil {
		return err
	}
	r.begin()
	r.loaded, r.mark, r.position = true, m, m.from(r.ahead)
	r.marked = r.relay.cfg.Now()
	return nil
}

// isFull reports whether a page was so long that there is likely to be more.
func (r *reader) isFull(page *dynamodbstreams.GetRecordsOutput) bool {
	size := int64(0)
	for i := range page.Records {
		if d := page.Records[i].Dynamodb; d != nil && d.SizeBytes != nil {
			size += *d.SizeBytes
		}
	}
	return 2*len(page.Records) >= r.relay.tuning.Page || 2*size >= pageBytes
}

// relayPage publishes the new records of a page. A page that comes again, or
// overlaps the previous page, has fewer.
func (r *reader) relayPage(ctx context.Context, page *dynamodbstreams.GetRecordsOutput) error {
	// Records that were read are published to the end, also while the relay is told to stop.
	ctx = context.WithoutCancel(ctx)
	messages := make([]*nats.Msg, 0, len(page.Records))
	position, at := r.position, time.Time{}
	for i := range page.Records {
		record := &page.Records[i]
		if record.Dynamodb == nil || record.Dynamodb.SequenceNumber == nil || !later(*record.Dynamodb.SequenceNumber, position) {
			continue
		}
		m, err := r.message(ctx, record)
		if err != nil {
			return err
		}
		if m != nil {
			messages = append(messages, m)
		}
		position = *record.Dynamodb.SequenceNumber
		if record.Dynamodb.ApproximateCreationDateTime != nil {
			at = *record.Dynamodb.ApproximateCreationDateTime
		}
	}
	closed := page.NextShardIterator == nil
	if r.isDue(len(messages), position, closed) {
		if err := r.publish(ctx, messages, r.mark.next(r.ahead, position, closed)); err != nil {
			return err
		}
	}
	if r.position = position; !r.ahead {
		r.lag.until(at)
	}
	return nil
}

// isDue reports whether a batch is worth it: a batch of a mere marker is at a shard's
// end, and now and then.
func (r *reader) isDue(messages int, position string, closed bool) bool {
	if messages > 0 || closed {
		return true
	}
	return position != r.mark.from(r.ahead) && r.relay.cfg.Now().Sub(r.marked) >= r.relay.tuning.Checkpoint
}

func (r *reader) publish(ctx context.Context, messages []*nats.Msg, mark checkpoint) error {
	r.relay.batches <- struct{}{}
	defer func() { <-r.relay.batches }()
	call, cancel := r.relay.request(ctx)
	defer cancel()
	if err := r.relay.history.check(call, r.term); err != nil {
		return err
	}
	batch, err := publish(call, r.relay.cfg.NATS, messages, mark, r.mark.number)
	if err != nil {
		r.loaded = false // whatever became of it, the marker tells
		return err
	}
	r.relay.history.acknowledged(batch)
	r.mark = marker{checkpoint: mark, number: batch.Last}
	r.marked = r.relay.cfg.Now()
	if r.relay.room.took(sizeOf(messages)) {
		r.relay.fillsUp()
	}
	r.relay.metrics.batches.Inc()
	r.relay.metrics.records.Add(float64(len(messages)))
	return nil
}

// message returns a record's message for the feed, nil for a record that stays out of it, or waits.
// A record that cannot become an event is put among the dead letters; the error is theirs.
func (r *reader) message(ctx context.Context, from *types.Record) (*nats.Msg, error) {
	record, err := recordOf(r.at.label, from)
	var m *nats.Msg
	if err == nil {
		m, err = r.relay.message(&record)
	}
	if !r.isFor(record.sequence, m != nil && isOfBucket(m)) {
		return nil, nil //nolint:nilnil // not now
	}
	switch {
	case err != nil:
		return nil, r.putAside(ctx, &record, err)
	case m == nil:
		r.relay.metrics.outside.Inc()
	}
	return m, nil
}

// putAside puts a record among the dead letters.
func (r *reader) putAside(ctx context.Context, record *record, reason error) error {
	data, err := encodeDeadLetter(record, reason, r.relay.longest())
	if err != nil {
		return err
	}
	call, cancel := r.relay.request(ctx)
	defer cancel()
	err = r.relay.dead.Put(call, service, feed.DeadRecord{
		// It was in no lane; replays of relays are in whichever.
		Subject: events.ReplaySubject(service, 0), Mark: record.label + "/" + record.sequence, Data: data, Reason: reason,
	})
	if err != nil {
		return err
	}
	r.relay.metrics.dead.Inc()
	r.relay.cfg.Log.ErrorContext(ctx, "a record goes to the dead letters", "stream_shard", r.at.shard, "sequence", record.sequence, "reason", reason)
	return nil
}
