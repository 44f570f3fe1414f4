package rollback

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	rollbacks prometheus.Counter
	failures  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		rollbacks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_settlements_forgotten_total", Help: "Times that this node found that NATS had lost acknowledged settlements; alert on any.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_settlements_unseen_total", Help: "Failed checks of the settlements in NATS, which are retried; while they fail, no credit is given.",
		}),
	}
	for _, c := range []prometheus.Collector{m.rollbacks, m.failures} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
