package aggregator

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/worker"
)

// metrics counts the work of an aggregator; package feed counts the feed's.
type metrics struct {
	written prometheus.Counter
	refused prometheus.Counter
	failed  prometheus.Counter
	units   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_aggregator_writes_total",
		Help: "Writes of usage snapshots: applied, refused because some of their records were already counted, or failed and retried.",
	}, []string{"outcome"})
	m := &metrics{
		written: writes.WithLabelValues("applied"),
		refused: writes.WithLabelValues("refused"),
		failed:  writes.WithLabelValues("failed"),
		units: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_aggregator_write_units_total", Help: "Write capacity units of usage snapshots, refused writes excluded.",
		}),
	}
	if err := worker.Register(reg, writes, m.units); err != nil {
		return nil, err
	}
	return m, nil
}

// wrote counts a write that was applied.
func (m *metrics) wrote(cost *types.ConsumedCapacity) {
	m.written.Inc()
	if cost != nil {
		m.units.Add(aws.ToFloat64(cost.CapacityUnits))
	}
}
