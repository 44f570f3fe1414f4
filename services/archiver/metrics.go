package archiver

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/worker"
)

// metrics counts the work of an archiver; package feed counts the feed's.
type metrics struct {
	events  prometheus.Counter
	bytes   prometheus.Counter
	written prometheus.Counter
	existed prometheus.Counter
	failed  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	objects := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_archiver_objects_total",
		Help: "Objects of audit events: written, already present because the batch was redelivered, or failed and retried.",
	}, []string{"outcome"})
	m := &metrics{
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_archiver_events_total", Help: "Audit events that left the table and are durable in the archive; a redelivered event counts again.",
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_archiver_written_bytes_total", Help: "Compressed size of the written objects.",
		}),
		written: objects.WithLabelValues("written"),
		existed: objects.WithLabelValues("existed"),
		failed:  objects.WithLabelValues("failed"),
	}
	if err := worker.Register(reg, objects, m.events, m.bytes); err != nil {
		return nil, err
	}
	return m, nil
}

// stored counts the outcome of a bundle of so many events.
func (m *metrics) stored(done archive.Stored, events int, err error) {
	m.written.Add(float64(done.Written))
	m.existed.Add(float64(done.Existed))
	m.bytes.Add(float64(done.Bytes))
	if err != nil {
		m.failed.Inc()
		return
	}
	m.events.Add(float64(events))
}
