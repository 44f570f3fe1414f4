package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/keys"
)

func TestChangesAreSummedUpByWindow(t *testing.T) {
	const pk = "AbCdEfGhIjI/BUCKET#key#gpt-4#0"
	at := time.Date(2026, 3, 1, 23, 59, 59, 0, time.UTC)
	var l Ledger
	l.Add(Change{At: at, PK: pk, New: map[string]int64{"an": 2, "b_rpm_tc": 2000, "b_tpm_tc": 700, "b_wcu_tc": 1, "b_rpm_cp": 5000}})
	l.Add(Change{At: at, PK: pk, Old: map[string]int64{"an": 2, "b_rpm_tc": 2000, "b_tpm_tc": 700}, New: map[string]int64{"an": 2, "b_rpm_tc": 2000, "b_tpm_tc": 0}})
	l.Add(Change{At: at.Add(time.Second), PK: "AbCdEfGhIjI/BUCKET#key#gpt-4#1", New: map[string]int64{"an": 1, "b_rpm_tc": 1000}})
	l.Add(Change{At: at, PK: pk, Old: map[string]int64{"an": 2, "b_rpm_tc": 2000}}) // removed
	l.Add(Change{At: at, PK: "AbCdEfGhIjI/ENTITY#key", New: map[string]int64{"b_rpm_tc": 9}})
	l.Add(Change{At: at, PK: pk, Old: map[string]int64{"b_rpm_cp": 1}, New: map[string]int64{"b_rpm_cp": 2}})

	key := func(window, start string) keys.Usage {
		return keys.Usage{Namespace: "AbCdEfGhIjI", Entity: "key", Resource: "gpt-4", Window: window, Start: start}
	}
	require.Equal(t, map[keys.Usage]Total{
		key("hourly", "2026-03-01T23:00:00Z"): {Used: map[string]int64{"rpm": 2000}, Acquires: 2},
		key("daily", "2026-03-01T00:00:00Z"):  {Used: map[string]int64{"rpm": 2000}, Acquires: 2},
		key("hourly", "2026-03-02T00:00:00Z"): {Used: map[string]int64{"rpm": 1000}, Acquires: 1},
		key("daily", "2026-03-02T00:00:00Z"):  {Used: map[string]int64{"rpm": 1000}, Acquires: 1},
	}, l.Totals())
}
