package engine

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/engine/journal"
)

// retryEvery is the interval between retries while the disk is full.
const retryEvery = time.Second

// Health returns nil while the engine serves, and otherwise the reason why it does
// not. An engine in memory always serves.
func (e *Engine) Health() error {
	if err := e.usable(); err != nil {
		return errors.New(asAPIError(err).message)
	}
	return nil
}

// usable refuses requests once the disk has failed or the engine is closed.
func (e *Engine) usable() error {
	if e.storage == nil {
		return nil
	}
	return e.storage.failed(e.storage.journal.Err())
}

// Failed returns a channel that is closed when the disk has failed for good: the
// engine must be opened again. A full disk is no such failure. For an engine in
// memory, the channel is nil.
func (e *Engine) Failed() <-chan struct{} {
	if e.storage == nil {
		return nil
	}
	return e.storage.journal.Failed()
}

// failed converts an error of the journal into an error for callers.
func (s *storage) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrClosed):
		return &apiError{name: typeInternal, message: "the store is closed"}
	}
	select {
	case <-s.journal.Failed():
		return &apiError{name: typeInternal, message: "the store's disk failed, so nothing is served until it is opened again: " + err.Error()}
	default:
		return &apiError{name: typeInternal, message: "the store's disk has no room, so nothing is served until it has: " + err.Error()}
	}
}

// Register adds the engine's metrics to a registry.
func (e *Engine) Register(registry prometheus.Registerer) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidegate_engine_failed",
			Help: "1 while the embedded store serves nothing because its disk is full or has failed; alert on it.",
		}, func() float64 {
			if e.Health() != nil {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "tidegate_engine_snapshot_failures_total",
			Help: "Failed snapshots of the embedded store, which are retried; until then its log grows.",
		}, func() float64 {
			if e.storage == nil {
				return 0
			}
			return float64(e.storage.snapshotFailures.Load())
		}),
	)
}
