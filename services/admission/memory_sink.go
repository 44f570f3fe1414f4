package admission

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/services/admission/live"
)

// memorySink applies changes of configuration to the settings and namespaces that the node
// keeps in memory. It is the sink of the change feed.
type memorySink struct {
	invalidations *live.Invalidations // of settings
	namespaces    *config.NamespaceCache
	renewals      prometheus.Counter
}

// Changed invalidates the settings that depend on a place.
func (s *memorySink) Changed(p live.Place) { s.invalidations.Changed(p) }

// NamespaceChanged makes the next request in a namespace look it up again.
func (s *memorySink) NamespaceChanged(name string) { s.namespaces.Changed(name) }

// Missed makes every bucket and every namespace read its configuration again at its next
// use.
func (s *memorySink) Missed() {
	s.renewals.Inc()
	s.invalidations.Missed()
	s.namespaces.AllChanged()
}
