package differential

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/internal/localdynamo"
)

// TestDurableEngine compares the engine in memory with one that is closed and
// opened again between requests, tokens, indexes and all.
func TestDurableEngine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		o := localdynamo.Options{Now: func() time.Time { return now }}
		dir := t.TempDir()
		open := func() *localdynamo.Engine {
			e, err := localdynamo.Open(o, localdynamo.Durability{Dir: dir, Log: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			return e
		}
		durable := open()
		other := &engine{name: "durable", url: "http://localdynamo.invalid", client: &http.Client{Transport: durable.HTTPClient()}}
		p := &pair{ours: inMemory(o), other: other, between: func() {
			require.NoError(t, durable.Close())
			durable = open()
			other.client = &http.Client{Transport: durable.HTTPClient()}
		}}
		defer func() { require.NoError(t, durable.Close()) }()
		p.sequence(rt)
	})
}

func inMemory(o localdynamo.Options) *engine {
	return &engine{name: "in memory", url: "http://localdynamo.invalid", client: &http.Client{Transport: localdynamo.New(o).HTTPClient()}}
}
