package sharder

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/events"
)

// listen takes in the reports of admission nodes, until unsubscribe is called.
func (s *Sharder) listen() (unsubscribe func(), err error) {
	sub, err := s.cfg.NATS.Subscribe(events.LoadSubject, func(m *nats.Msg) { s.heard(m.Data) })
	if err != nil {
		return nil, fmt.Errorf("listen to %s: %w", events.LoadSubject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // the connection is closed next
}

// heard takes a report in. An unreadable report is dropped: the next is a
// second away.
func (s *Sharder) heard(data []byte) {
	r, err := events.DecodeLoad(data)
	if err != nil {
		s.metrics.unread.Inc()
		s.cfg.Log.Warn("a load report cannot be read", "error", err)
		return
	}
	s.metrics.heard.Inc()
	s.tracker.report(r)
}
