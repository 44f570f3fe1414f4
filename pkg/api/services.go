package api

import "strings"

// The services that run on NATS, as they are called there: they are NATS micro
// services, whose names begin with ServicePrefix.
const (
	ServicePrefix     = "tidegate-"
	ServiceAdmission  = "admission"
	ServiceRelay      = "relay"
	ServiceAggregator = "aggregator"
	ServiceSharder    = "sharder"
	ServiceArchiver   = "archiver"

	statusPrefix = "tidegate.services.v1."
)

// StatusSubject is where all processes of a service answer with their
// [ServiceStatus].
func StatusSubject(service string) string { return statusPrefix + service }

// ParseServiceName is the service of a NATS micro service's name; ok is false for
// one that is none of ours.
func ParseServiceName(name string) (service string, ok bool) {
	service, ok = strings.CutPrefix(name, ServicePrefix)
	return service, ok && service != ""
}

// ServiceStatus is what one process of a service says of itself. What is absent
// does not apply to the service, or could not be found out.
type ServiceStatus struct {
	// Lanes of the change feed that the process follows; of a relay, the stream
	// shards that it reads.
	Lanes *int64 `json:"lanes,omitempty"`
	// Waiting is how many records of those lanes it has yet to handle.
	Waiting *int64 `json:"waiting,omitempty"`
	// LagSeconds is how long the oldest of them has been in the feed; of a relay,
	// how far the feed is behind the table, in the worst of its stream shards.
	LagSeconds *float64 `json:"lag_seconds,omitempty"`
	// DeadLetters of the service, of all its processes together.
	DeadLetters *int64 `json:"dead_letters,omitempty"`
	// Warning says what is not as it should be; empty for nothing.
	Warning string `json:"warning,omitempty"`
}

// Service is one process of a service that runs.
type Service struct {
	Service   string `json:"service"` // such as "relay"
	ID        string `json:"id"`      // of the process, until it ends
	Version   string `json:"version"`
	StartedMs int64  `json:"started_ms"` // Unix milliseconds
	ServiceStatus
}
