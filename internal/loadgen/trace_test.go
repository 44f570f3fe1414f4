package loadgen

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadTraceOfAzure(t *testing.T) {
	rows, err := ReadTraceFile("testdata/azure_conv_300.csv", 0)
	require.NoError(t, err)
	require.Len(t, rows, 300)
	require.Equal(t, Row{At: 0, Context: 374, Generated: 44}, rows[0])
	require.Equal(t, Row{At: 4314579 * time.Microsecond, Context: 396, Generated: 109}, rows[1])
	require.Equal(t, Row{At: 84029102 * time.Microsecond, Context: 212, Generated: 183}, rows[299], "the last row has no line ending")
}

// A trace reads the same gzipped, and one that was cut off is no shorter trace.
func TestReadTraceGzipped(t *testing.T) {
	const name = "testdata/azure_conv_300.csv"
	want, err := ReadTraceFile(name, 0)
	require.NoError(t, err)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	rows, err := ReadTrace(bytes.NewReader(gzipped(t, text)), 0)
	require.NoError(t, err)
	require.Equal(t, want, rows)

	zipped := gzipped(t, []byte(traceHeader+"\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109"))
	for size := range zipped {
		_, err := ReadTrace(bytes.NewReader(zipped[:size]), 0)
		require.Error(t, err, size)
	}
	zipped[len(zipped)-8]++ // its checksum
	_, err = ReadTrace(bytes.NewReader(zipped), 0)
	require.ErrorIs(t, err, gzip.ErrChecksum)
}

func gzipped(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	require.NoError(tb, err)
	require.NoError(tb, w.Close())
	return b.Bytes()
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
		"empty, gzipped":     {string(gzipped(t, nil)), "the trace is empty"},
		"no gzip after all":  {gzipMagic + traceHeader + "\n" + row, "unzip the trace"},
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

func TestReadTraceFileNamesIt(t *testing.T) {
	_, err := ReadTraceFile("doc.go", 0)
	require.ErrorContains(t, err, "doc.go: line 1")
	_, err = ReadTraceFile("nowhere.csv", 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "open the trace")
}

func FuzzReadTrace(f *testing.F) {
	f.Add(traceHeader + "\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109")
	f.Add(traceHeader + "\n2023-11-16 18:15:46.6805900,,44\n")
	f.Add(string(gzipped(f, []byte(traceHeader+"\n2023-11-16 18:15:46.6805900,374,44\n"))))
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
