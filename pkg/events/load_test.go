package events_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

func sampleLoad() *events.LoadReport {
	shard := keys.Bucket{Namespace: ns, Entity: "alice", Resource: "gpt-4", Shard: 1}
	zero := shard
	zero.Shard = 0
	return &events.LoadReport{Node: "Zm9vYmFy", FromMs: 1763712000000, ToMs: 1763712001000, Loads: []events.Load{
		{Key: zero, Requests: 900, Denied: 12, Costs: map[string]int64{"rpm": 1, "tpm": 3000}},
		{Key: shard, FailedUnits: 310},
	}}
}

func TestLoadReportsAreGolden(t *testing.T) {
	data, err := events.EncodeLoad(sampleLoad())
	require.NoError(t, err)
	file := filepath.Join("testdata", "load.json")
	if *update {
		require.NoError(t, os.WriteFile(file, append(data, '\n'), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSuffix(string(want), "\n"), string(data))
	back, err := events.DecodeLoad(want)
	require.NoError(t, err)
	require.Equal(t, sampleLoad(), back)
}

func TestLoadReportsThatNoNodeSendsAreRefused(t *testing.T) {
	good, err := events.EncodeLoad(sampleLoad())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		old, with string
		want      error
	}{
		"no JSON":         {`}]}`, `}]`, events.ErrMalformed},
		"no version":      {`"v":1`, `"v":0`, events.ErrMalformed},
		"a newer version": {`"v":1`, `"v":2`, events.ErrUnknownVersion},
		"no bucket":       {`/BUCKET#`, `/ENTITY#`, events.ErrMalformed},
		"no shard":        {`#gpt-4#1`, `#gpt-4`, events.ErrMalformed},
		"backwards":       {`"to_ms":1763712001000`, `"to_ms":1763711001000`, events.ErrMalformed},
		"less than none":  {`"requests":900`, `"requests":-900`, events.ErrMalformed},
		"a negative cost": {`"rpm":1`, `"rpm":-1`, events.ErrMalformed},
	} {
		require.Contains(t, string(good), c.old, name)
		_, err := events.DecodeLoad([]byte(strings.Replace(string(good), c.old, c.with, 1)))
		require.ErrorIs(t, err, c.want, name)
	}
	_, err = events.DecodeLoad([]byte(strings.Replace(string(good), `"v":1`, `"v":1,"hue":"blue"`, 1)))
	require.NoError(t, err, "unknown fields are ignored")

	long := sampleLoad()
	for len(long.Loads) <= events.MaxLoads {
		long.Loads = append(long.Loads, long.Loads[0])
	}
	_, err = events.EncodeLoad(long)
	require.ErrorIs(t, err, events.ErrMalformed)
	_, err = events.EncodeLoad(&events.LoadReport{Loads: []events.Load{{}}})
	require.ErrorIs(t, err, events.ErrMalformed)
}
