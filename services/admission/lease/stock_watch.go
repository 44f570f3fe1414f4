package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/leader"
)

const (
	// lookEvery is how often a node asks how much room the records take.
	lookEvery = time.Second
	// shareEvery is how often a node stores its counts, and reads those of the others.
	shareEvery = 5 * time.Second
	// stockKey begins the keys of the nodes' counts. No namespace has such an id: ids have
	// 11 characters.
	stockKey = "stock."
)

// The reasons of tidegate_admission_lease_records_refused_total.
const (
	reasonShare = "share"
	reasonFull  = "full"
)

// recordMetrics show the room that lease records take.
type recordMetrics struct {
	bytes   prometheus.Gauge
	most    prometheus.Gauge
	refused *prometheus.CounterVec
}

func newRecordMetrics(reg prometheus.Registerer) (*recordMetrics, error) {
	m := &recordMetrics{
		bytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidegate_admission_lease_record_bytes", Help: "Size of the lease records in NATS.",
		}),
		most: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidegate_admission_lease_record_limit_bytes", Help: "Maximum size of the lease records in NATS, as --lease-max-bytes set it; a sixteenth is reserved for records that exist.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_admission_lease_records_refused_total",
			Help: "Lease records that were not stored: reason share, their namespace has as many bytes as are free; reason full, there is no room for a new record of any namespace. Alert on any.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{reasonShare, reasonFull} { // an alert sees the first
		m.refused.WithLabelValues(reason)
	}
	for _, c := range []prometheus.Collector{m.bytes, m.most, m.refused} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("lease records: metrics: %w", err)
		}
	}
	return m, nil
}

// watchStock keeps the node's knowledge of the records' room up to date until ctx ends.
func (r *guardedRecords) watchStock(ctx context.Context) {
	looks, shares := time.NewTicker(lookEvery), time.NewTicker(shareEvery)
	defer looks.Stop()
	defer shares.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			if err := r.share(context.WithoutCancel(ctx)); err != nil {
				r.log.WarnContext(ctx, "the node's count of lease records is not stored", "error", err)
			}
			return
		case <-looks.C:
			err = r.look(ctx)
		case <-shares.C:
			err = r.share(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "the room for lease records is as last known", "error", err)
		}
	}
}

// look asks how much room the records take.
func (r *guardedRecords) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	info, err := leader.Info(ctx, r.nats, recordsStream)
	if err != nil {
		return fmt.Errorf("look at the lease records: %w", err)
	}
	r.stock.told(int64(info.State.Bytes), info.Config.MaxBytes) //nolint:gosec // bytes on a disk
	r.metrics.bytes.Set(float64(info.State.Bytes))
	r.metrics.most.Set(float64(max(0, info.Config.MaxBytes)))
	return nil
}

// share stores the counts of this node and reads those of the others.
func (r *guardedRecords) share(ctx context.Context) error {
	now, _ := r.clock.Now() // an unchecked clock is good enough for minutes
	r.stock.forget(now)
	return errors.Join(r.storeStock(ctx), r.readStocks(ctx))
}

// storeStock stores the counts of this node, if they have changed.
func (r *guardedRecords) storeStock(ctx context.Context) error {
	own, changed := r.stock.toStore()
	if !changed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	value, err := cbor.Marshal(own)
	if err == nil {
		r.revision, _, err = r.guard.Write(ctx, stockKey+r.node, value, r.revision)
	}
	if err != nil {
		// The outcome may be unknown: the next attempt goes on from what is stored.
		r.stock.notStored()
		if m, errRead := leader.Last(ctx, r.nats, recordsStream, recordSubject+stockKey+r.node); errRead == nil {
			r.revision = m.Sequence
		}
		return fmt.Errorf("store the count of lease records: %w", err)
	}
	return nil
}

// readStocks reads the counts of the other nodes, of as many as have stored a record in
// the life of a record.
func (r *guardedRecords) readStocks(ctx context.Context) error {
	if taken, most := r.stock.size(); most == 0 || taken < most/reservedPart {
		return nil // far from any share
	}
	ctx, cancel := context.WithTimeout(ctx, shareEvery)
	defer cancel()
	subjects, err := leader.Subjects(ctx, r.nats, recordsStream, recordSubject+stockKey+">")
	if err != nil {
		return fmt.Errorf("list the counts of lease records: %w", err)
	}
	var all []stocks
	for _, subject := range subjects {
		if subject == recordSubject+stockKey+r.node {
			continue
		}
		m, err := leader.Last(ctx, r.nats, recordsStream, subject)
		if errors.Is(err, leader.ErrNone) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read a count of lease records: %w", err)
		}
		of := stocks{}
		if err := cbor.Unmarshal(m.Data, &of); err != nil {
			return fmt.Errorf("decode the count of lease records %s: %w", subject, err)
		}
		all = append(all, of)
	}
	r.stock.hears(all)
	return nil
}

// refuse returns the error for a record that is not stored for want of room.
func (r *guardedRecords) refuse(reason error) error {
	label := reasonFull
	if errors.Is(reason, errNoShare) {
		label = reasonShare
	}
	r.metrics.refused.WithLabelValues(label).Inc()
	return fmt.Errorf("%w: %w", ErrNoRoom, reason)
}

// Check returns an error if there is no room for a new lease record of any namespace: then
// nothing can be given back for a lease's first settlement.
func (d *Desk) Check(context.Context) error {
	taken, most := d.stock.size()
	if most > 0 && taken >= most-most/reservedPart {
		return fmt.Errorf("lease records take %d of %d bytes: new leases can give nothing back; raise --lease-max-bytes", taken, most)
	}
	return nil
}
