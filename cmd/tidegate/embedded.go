package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/localdynamo"
	"github.com/tidegate/tidegate/internal/localdynamo/journal"
)

// fsyncFlags say how safe the embedded store is against a machine that fails.
type fsyncFlags struct {
	Fsync journal.Sync `name:"fsync" default:"always" placeholder:"WHEN" help:"When the store forces writes to the disk: always (before it answers), never, or at intervals such as 100ms; default: always. A process that is killed loses nothing in any case."`
}

// expireEvery is how often items whose time is over are deleted.
const expireEvery = time.Minute

// openEngine opens the store in a data directory. close makes all safe; whoever
// uses the store has stopped by then.
func (f fsyncFlags) openEngine(dir string, log *slog.Logger) (engine *localdynamo.Engine, closeEngine func() error, err error) {
	engine, err = localdynamo.Open(localdynamo.Options{Now: time.Now}, localdynamo.Durability{
		Dir: filepath.Join(dir, "dynamodb"), Sync: f.Fsync, Log: log,
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
	stopExpiry := expireRegularly(engine)
	return engine, func() error {
		stopExpiry()
		return engine.Close()
	}, nil
}

// expireRegularly is the store's background process, until stop.
func expireRegularly(engine *localdynamo.Engine) (stop func()) {
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
				engine.Expire(now)
			}
		}
	})
	return func() {
		close(stopped)
		running.Wait()
	}
}
