package differential

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine"
)

// TestDurableEngine compares the engine in memory with one that is closed and
// opened again between requests, tokens, indexes and all.
func TestDurableEngine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		o := engine.Options{Now: func() time.Time { return now }}
		dir := t.TempDir()
		open := func() *engine.Engine {
			e, err := engine.Open(o, engine.Durability{Dir: dir, Log: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			return e
		}
		durable := open()
		other := &target{name: "durable", url: "http://engine.invalid", client: &http.Client{Transport: durable.HTTPClient()}}
		p := &pair{ours: inMemory(o), other: other, between: func() {
			require.NoError(t, durable.Close())
			durable = open()
			other.client = &http.Client{Transport: durable.HTTPClient()}
		}}
		defer func() { require.NoError(t, durable.Close()) }()
		p.sequence(rt)
	})
}

func inMemory(o engine.Options) *target {
	return &target{name: "in memory", url: "http://engine.invalid", client: &http.Client{Transport: engine.New(o).HTTPClient()}}
}
