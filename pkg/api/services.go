package api

import "strings"

// The services that run on NATS. Each is a NATS micro service with the name
// ServicePrefix + service.
const (
	ServicePrefix     = "tidegate-"
	ServiceAdmission  = "admission"
	ServiceRelay      = "relay"
	ServiceAggregator = "aggregator"
	ServiceSharder    = "sharder"
	ServiceArchiver   = "archiver"

	statusPrefix = "tidegate.services.v1."
)

// StatusSubject returns the subject on which all processes of a service answer with
// their [ServiceStatus].
func StatusSubject(service string) string { return statusPrefix + service }

// ParseServiceName returns the service of a NATS micro service's name; ok is false
// if the name is not a Tidegate service's.
func ParseServiceName(name string) (service string, ok bool) {
	service, ok = strings.CutPrefix(name, ServicePrefix)
	return service, ok && service != ""
}

// ServiceStatus is the status report of a service process. Absent fields do not
// apply to the service, or could not be determined.
type ServiceStatus struct {
	// Lanes is the number of lanes of the change feed that the process follows; for a
	// relay, the number of stream shards that it reads.
	Lanes *int64 `json:"lanes,omitempty"`
	// Waiting is the number of unhandled records in these lanes.
	Waiting *int64 `json:"waiting,omitempty"`
	// LagSeconds is the age in the feed of the oldest unhandled record; for a relay,
	// the largest lag of the feed behind the table over its stream shards.
	LagSeconds *float64 `json:"lag_seconds,omitempty"`
	// DeadLetters is the number of dead letters of the service, over all its processes.
	DeadLetters *int64 `json:"dead_letters,omitempty"`
	// Warning describes a problem of the process; empty if there is no problem.
	Warning string `json:"warning,omitempty"`
}

// Service describes a running process of a service.
type Service struct {
	Service   string `json:"service"` // such as "relay"
	ID        string `json:"id"`      // unique to the process
	Version   string `json:"version"`
	StartedMs int64  `json:"started_ms"` // Unix milliseconds
	ServiceStatus
}
