package e2e_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/test/ledger"
)

// enter takes down what the engine commits.
func (w *world) enter(c engine.Commit) {
	for i := range c.Changes {
		change := &c.Changes[i]
		w.ledger.Add(ledger.Change{At: change.At, PK: change.Keys()["PK"].Text(), Old: numbers(change.Old), New: numbers(change.New)})
	}
}

// numbers are an item's whole numbers by attribute; nil where there is no item.
func numbers(item attr.Item) map[string]int64 {
	if item == nil {
		return nil
	}
	all := map[string]int64{}
	for name, v := range item {
		if v.Kind() != attr.KindN {
			continue
		}
		n, err := strconv.ParseInt(v.Number().String(), 10, 64)
		if err != nil {
			panic(err) // a bucket's numbers are whole
		}
		all[name] = n
	}
	return all
}

// snapshots are all that the table has.
func (w *world) snapshots(t *testing.T) map[keys.Usage]ledger.Total {
	t.Helper()
	all, err := ledger.Snapshots(t.Context(), w.db, w.table)
	require.NoError(t, err)
	return all
}
