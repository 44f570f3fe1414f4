package loadgen

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadTraceOfAzure(t *testing.T) {
	file, err := os.Open("testdata/azure_conv_300.csv")
	require.NoError(t, err)
	defer file.Close()
	rows, err := ReadTrace(file, 0)
	require.NoError(t, err)
	require.Len(t, rows, 300)
	require.Equal(t, Row{At: 0, Context: 374, Generated: 44}, rows[0])
	require.Equal(t, Row{At: 4314579 * time.Microsecond, Context: 396, Generated: 109}, rows[1])
	require.Equal(t, Row{At: 84029102 * time.Microsecond, Context: 212, Generated: 183}, rows[299], "the last row has no line ending")
}

func TestReadTraceStopsAtTheLimit(t *testing.T) {
	rows, err := ReadTrace(strings.NewReader(traceHeader+"\n2023-11-16 18:15:46.6805900,1,2\nnot looked at"), 1)
	require.NoError(t, err)
	require.Equal(t, []Row{{Context: 1, Generated: 2}}, rows)
}

func TestReadTraceIsStrict(t *testing.T) {
	const row = "2023-11-16 18:15:46.6805900,374,44\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {"", "the trace is empty"},
		"no rows":            {traceHeader + "\n", "no requests"},
		"another header":     {"time,in,out\n" + row, "line 1"},
		"too few fields":     {traceHeader + "\n" + row + "2023-11-16 18:15:46.6805900,374\n", "line 3: "},
		"too many fields":    {traceHeader + "\n" + strings.TrimSpace(row) + ",1\n", "line 2: "},
		"empty line":         {traceHeader + "\n" + row + "\n" + row, "line 3: "},
		"other time":         {traceHeader + "\n2023-11-16T18:15:46Z,374,44\n", "line 2: "},
		"coarser time":       {traceHeader + "\n2023-11-16 18:15:46.680590,374,44\n", "line 2: "},
		"time goes back":     {traceHeader + "\n" + row + "2023-11-16 18:15:46.6805899,374,44\n", "line 3: "},
		"negative tokens":    {traceHeader + "\n2023-11-16 18:15:46.6805900,-1,44\n", "ContextTokens"},
		"fractional tokens":  {traceHeader + "\n2023-11-16 18:15:46.6805900,1,4.5\n", "GeneratedTokens"},
		"absurdly many":      {traceHeader + "\n2023-11-16 18:15:46.6805900,2147483647,44\n", "ContextTokens"},
		"a line without end": {traceHeader + "\n" + strings.Repeat("9", 100_000), "line 2: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadTrace(strings.NewReader(c.text), 0)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add(traceHeader + "\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109")
	f.Add(traceHeader + "\n2023-11-16 18:15:46.6805900,,44\n")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := ReadTrace(strings.NewReader(text), 0)
		require.Equal(t, err == nil, len(rows) > 0)
		last := time.Duration(0)
		for _, row := range rows {
			require.GreaterOrEqual(t, row.At, last)
			require.GreaterOrEqual(t, row.Context, int64(0))
			require.GreaterOrEqual(t, row.Generated, int64(0))
			last = row.At
		}
	})
}
