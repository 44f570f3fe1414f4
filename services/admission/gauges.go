package admission

import "github.com/prometheus/client_golang/prometheus"

// gauges registers the metrics that are computed on demand.
func (s *Service) gauges(reg prometheus.Registerer) error {
	for _, g := range []struct {
		name, help string
		value      func() float64
	}{
		{"tidegate_admission_pending_requests", "Acquires and settlements that wait for their reply.", func() float64 { return float64(s.pending.Load()) }},
		{"tidegate_admission_pending_limit", "Maximum number of pending requests; the node sheds the rest.", func() float64 { return float64(s.tuning.Queue) }},
		{
			"tidegate_admission_control_running", "Requests for status and administration that the node works on.",
			func() float64 { running, _ := s.controls.counts(); return float64(running) },
		},
		{
			"tidegate_admission_control_waiting", "Requests for status and administration that wait for their turn.",
			func() float64 { _, waiting := s.controls.counts(); return float64(waiting) },
		},
		{
			"tidegate_admission_remembered_buckets", "Bucket states in memory.",
			func() float64 { shards, _ := s.router.members.counts(); return float64(shards) },
		},
		{
			"tidegate_admission_remembered_bytes", "Estimated memory of the bucket states, in bytes; the least recently used are dropped beyond --remember.",
			func() float64 { _, bytes := s.router.members.counts(); return float64(bytes) },
		},
		{
			"tidegate_admission_clock_correction_seconds", "How far this node's clock is ahead of the store's clock; beyond 2 s the node stops writing.",
			func() float64 { return s.clock.Correction().Seconds() },
		},
		{
			"tidegate_admission_feed_followed", "1 while this node follows the change feed; at 0 it takes up to a minute to notice other writers' changes.",
			func() float64 {
				if s.follower.Following() {
					return 1
				}
				return 0
			},
		},
	} {
		if err := reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help}, g.value)); err != nil {
			return err
		}
	}
	return nil
}
