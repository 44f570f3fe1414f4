package rollback

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	rollbacks prometheus.Counter
	failures  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		rollbacks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_settlements_forgotten_total", Help: "Times that this node found NATS to have forgotten settlements that it had acknowledged; alarm on any.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_settlements_unseen_total", Help: "Looks at the settlements in NATS that failed and are tried again; while they fail, no credit is given.",
		}),
	}
	for _, c := range []prometheus.Collector{m.rollbacks, m.failures} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
