package store

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/prometheus/client_golang/prometheus"
)

// Clocked returns a configuration as Watch does, and the clock that its clients set: each
// reply bounds the store's time. source is the machine's own clock.
func Clocked(cfg aws.Config, service string, source ClockSource, metrics prometheus.Registerer) (aws.Config, *Clock, error) {
	clock := NewClock(source)
	watched, err := Watch(cfg, WatchOptions{Service: service, Metrics: metrics, Mono: clock.Mono})
	if err != nil {
		return aws.Config{}, nil, err
	}
	watched.HTTPClient = clock.Watch(cfg.HTTPClient)
	return watched, clock, nil
}
