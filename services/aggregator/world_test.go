package aggregator

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/keys"
)

// world is a table, reached through faults.
type world struct{ *tabletest.Bench }

// newWorld is one whose namespace is registered.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{tabletest.New(t)}
	_, err := w.Direct.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
		TransactItems: table.CreateNamespaceItems(w.Table, table.Namespace{Name: "acme", ID: ns}),
	})
	require.NoError(t, err)
	return w
}

// counter is one that counts into the world's table.
func (w *world) counter(t testing.TB) *counter {
	t.Helper()
	return w.counterVia(t, w.Faults)
}

func (w *world) counterVia(t testing.TB, via aws.HTTPClient) *counter {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	cfg := Config{DynamoDB: engine.Config(via, "us-east-1"), Table: w.Table, Tuning: Tuning{StoreTimeout: 200 * time.Millisecond}}
	c, err := newCounter(cfg.withDefaults(), m)
	require.NoError(t, err)
	return c
}

// gate holds the first request until it is opened.
type gate struct {
	next       aws.HTTPClient
	once       sync.Once
	here, open chan struct{}
}

func (g *gate) Do(r *http.Request) (*http.Response, error) {
	g.once.Do(func() {
		close(g.here)
		<-g.open
	})
	return g.next.Do(r)
}

// snapshot reads one; it is empty where there is none.
func (w *world) snapshot(t testing.TB, key keys.Usage) *table.Usage {
	t.Helper()
	out, err := w.Direct.GetItem(t.Context(), table.ReadInput(w.Table, key.Key()))
	require.NoError(t, err)
	if len(out.Item) == 0 {
		return &table.Usage{Key: key}
	}
	u, err := table.DecodeUsage(out.Item)
	require.NoError(t, err)
	return u
}

// snapshots are all there are in the table.
func (w *world) snapshots(t testing.TB) []*table.Usage {
	t.Helper()
	var all []*table.Usage
	pages := dynamodb.NewScanPaginator(w.Direct, &dynamodb.ScanInput{TableName: &w.Table})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, item := range page.Items {
			key, err := table.ItemKey(item)
			require.NoError(t, err)
			if _, ok := key.(keys.Usage); !ok {
				continue
			}
			u, err := table.DecodeUsage(item)
			require.NoError(t, err)
			all = append(all, u)
		}
	}
	return all
}
