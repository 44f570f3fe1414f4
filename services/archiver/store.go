package archiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// writer stores the events of batches.
type writer struct {
	archive *archive.Archive
	timeout time.Duration // of a batch
	writes  int           // objects of a batch that are written at once
	metrics *metrics
}

// store brings a batch into the archive. After an error some of its objects may be
// there; the same batch given again leaves these as they are.
func (w *writer) store(ctx context.Context, b *feed.Batch) error {
	bundles, unreadable := bundlesOf(b.Records)
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	p := pool.New().WithErrors().WithFirstError().WithMaxGoroutines(w.writes)
	for _, one := range bundles {
		p.Go(func() error {
			done, err := w.archive.Put(ctx, b.Lane, one)
			w.metrics.stored(done, len(one), err)
			return err
		})
	}
	if err := p.Wait(); err != nil {
		return err
	}
	for i, reason := range unreadable {
		b.Refuse(i, reason)
	}
	return nil
}

// place is the common part of the events of an object.
type place struct{ namespace, day string }

// bundlesOf sorts the deleted events of a batch by place, each bundle in the order of
// the feed. Unreadable are the records, by index, that no release can read.
func bundlesOf(records []feed.Record) (bundles [][]api.AuditEvent, unreadable map[int]error) {
	index, unreadable := map[place]int{}, map[int]error{}
	for i, r := range records {
		key, ok := r.Key.(keys.Audit)
		if !ok || r.Audit == nil || r.Audit.New != nil { // it is in the table
			continue
		}
		e, err := deletedEvent(&r, key)
		if err != nil {
			unreadable[i] = err
			continue
		}
		at := place{key.Namespace, time.UnixMilli(key.AtMs).UTC().Format(time.DateOnly)}
		n, ok := index[at]
		if !ok {
			n = len(bundles)
			index[at] = n
			bundles = append(bundles, nil)
		}
		bundles[n] = append(bundles[n], e)
	}
	return bundles, unreadable
}

// deletedEvent is the event that a record says has left the table.
func deletedEvent(r *feed.Record, key keys.Audit) (e api.AuditEvent, err error) {
	if err := json.Unmarshal(r.Audit.Old.Record, &e); err != nil {
		return api.AuditEvent{}, fmt.Errorf("the deleted audit event cannot be read: %w", err)
	}
	if e.Namespace != key.Namespace || e.AtMs != key.AtMs || e.Sequence != key.Sequence {
		return api.AuditEvent{}, errors.New("the deleted audit event is not that of the record's key")
	}
	e.Deleted = &api.AuditDeletion{By: api.DeletedByHand, AtMs: r.AtMs}
	if r.Expired {
		e.Deleted.By = api.DeletedByTTL
	}
	return e, nil
}
