package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/journal"
	"github.com/tidegate/tidegate/internal/process"
)

// fsyncFlags say how safe the embedded store is against a machine that fails.
type fsyncFlags struct {
	Fsync journal.Sync `name:"fsync" default:"always" placeholder:"WHEN" help:"When the store syncs writes to disk: always (before it answers), never, or at an interval such as 100ms; default: always. A killed process loses nothing in any case."`

	wrap func(journal.File) journal.File // where tests make disks fail
}

// expireEvery is the interval between sweeps for items past their TTL.
const expireEvery = time.Minute

// memoryEngine makes a store that is in memory only. It expires items until
// closeEngine.
func memoryEngine() (embedded *engine.Engine, closeEngine func() error) {
	embedded = engine.New(engine.Options{Now: time.Now})
	stopExpiry := expireRegularly(embedded)
	return embedded, func() error {
		stopExpiry()
		return nil
	}
}

// openEngine opens the store in a data directory. closeEngine syncs and closes it; all
// users of the store must have stopped before.
func (f fsyncFlags) openEngine(dir string, log *slog.Logger) (embedded *engine.Engine, closeEngine func() error, err error) {
	embedded, err = engine.Open(engine.Options{Now: time.Now}, engine.Durability{
		Dir: filepath.Join(dir, "dynamodb"), Sync: f.Fsync, Log: log, Wrap: f.wrap,
	})
	if errors.Is(err, journal.ErrInUse) {
		return nil, nil, advise(fmt.Errorf("the data directory %s is in use", dir),
			"Another `tidegate up` or `tidegate dynamodb` runs on it: stop that, or give another directory with --dir.")
	}
	var file *fs.PathError
	if errors.As(err, &file) {
		return nil, nil, advise(err, "The data directory %s cannot be used: give one that can be written with --dir.", dir)
	}
	if err != nil {
		return nil, nil, err
	}
	stopExpiry := expireRegularly(embedded)
	return embedded, func() error {
		stopExpiry()
		return embedded.Close()
	}, nil
}

// expireRegularly is the store's background process, until stop.
func expireRegularly(embedded *engine.Engine) (stop func()) {
	stopped := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(expireEvery)
		defer ticker.Stop()
		for {
			select {
			case <-stopped:
				return
			case now := <-ticker.C:
				embedded.Expire(now)
			}
		}
	})
	return func() {
		close(stopped)
		running.Wait()
	}
}

// untilFailed blocks until stop ends, and returns why if the store's disk fails for
// good before that.
func untilFailed(stop context.Context, embedded *engine.Engine) error {
	select {
	case <-stop.Done():
		return nil
	case <-embedded.Failed():
		return advise(embedded.Health(), "See to the disk of the data directory and start this again: it goes on with what is on the disk.")
	}
}

// withHealth adds unauthenticated endpoints to the store's protocol: /healthz, /readyz
// and /metrics.
func withHealth(store *engine.Engine) http.Handler {
	registry := process.NewRegistry(thisVersion().Version)
	store.Register(registry)
	health := func(w http.ResponseWriter, _ *http.Request) {
		code, text := http.StatusOK, "alive"
		if err := store.Health(); err != nil {
			code, text = http.StatusServiceUnavailable, "store: "+err.Error()
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text+"\n") // the caller may be gone
	}
	mux := http.NewServeMux()
	mux.Handle("/", store)
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("GET /readyz", health)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}
