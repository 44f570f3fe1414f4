package engine_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/journal"
)

// filling is a disk that takes so many bytes more; below 0: any number.
type filling struct {
	journal.File
	room *atomic.Int64
}

func (f filling) Write(b []byte) (int, error) {
	room := f.room.Load()
	if room < 0 || int64(len(b)) <= room {
		f.room.CompareAndSwap(room, room-min(int64(len(b)), max(room, 0)))
		return f.File.Write(b)
	}
	f.room.Store(0)
	n, err := f.File.Write(b[:room])
	return n, errors.Join(err, syscall.ENOSPC)
}

// metric is the value of a metric without labels.
func metric(t *testing.T, e *engine.Engine, name string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	e.Register(registry)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.Fail(t, "no metric "+name)
	return 0
}

// TestAFullDiskIsWaitedFor fills the disk in the middle of a write. Until there is
// room nothing is served and the engine says why. Then it serves again by itself:
// what was acknowledged is there, and so is the write that was answered with an
// error, once, in the stream as well.
func TestAFullDiskIsWaitedFor(t *testing.T) {
	synctest.Test(t, checkAFullDiskIsWaitedFor)
}

func checkAFullDiskIsWaitedFor(t *testing.T) {
	t.Helper()
	var room atomic.Int64
	room.Store(-1)
	var log strings.Builder
	k := keepingStreams(t, engine.StreamOptions{}, engine.Durability{
		Dir: filepath.Join(t.TempDir(), "store"),
		Log: slog.New(slog.NewTextHandler(&log, nil)), Wrap: func(f journal.File) journal.File { return filling{File: f, room: &room} },
	})
	tab, arn := k.plain(t, "full")
	tab.put(item("a", "1", "v", num(1)))
	require.NoError(t, k.engine.Health())
	call := func(operation, more string) int {
		return rawCall(k.engine, "DynamoDB_20120810."+operation, `{"TableName":"full"`+more+`}`).Code
	}
	add := `,"Key":{"pk":{"S":"a"},"sk":{"S":"1"}},"UpdateExpression":"ADD v :n","ExpressionAttributeValues":{":n":{"N":"1"}}`
	room.Store(40)
	require.Equal(t, http.StatusInternalServerError, call("UpdateItem", add))
	time.Sleep(10 * time.Second) // of the test's own clock: it is tried again
	require.Equal(t, http.StatusInternalServerError, call("UpdateItem", add), "refused before it does anything")
	require.Equal(t, http.StatusInternalServerError, call("Scan", ""), "nobody is shown what was not written")
	require.ErrorContains(t, k.engine.Health(), "has no room")
	require.ErrorContains(t, k.engine.Health(), syscall.ENOSPC.Error())
	require.Zero(t, k.engine.Expire(k.clock.Now()))
	require.InDelta(t, 1, metric(t, k.engine, "tidegate_engine_failed"), 0)
	require.Error(t, k.engine.Snapshot())
	select {
	case <-k.engine.Failed():
		t.Fatal("it is not final")
	default:
	}

	room.Store(-1)
	time.Sleep(2 * time.Second)
	synctest.Wait()
	require.NoError(t, k.engine.Health())
	require.Zero(t, metric(t, k.engine, "tidegate_engine_failed"))
	require.Equal(t, "2", numberOf(tab.get("a", "1")["v"]), "failed, but applied once")
	tab.put(item("a", "1", "v", num(3)))
	want := []string{"INSERT a/1 ->1", "MODIFY a/1 1>2", "MODIFY a/1 2>3"}
	require.Equal(t, want, shorts(k.all(t, arn)))
	require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), "%s", &log)
	k.reopen(t)
	require.Equal(t, want, shorts(k.all(t, arn)))
	require.NoError(t, k.engine.Close())
}

// TestAFailedDiskIsFinal has a disk fail for good.
func TestAFailedDiskIsFinal(t *testing.T) {
	verdict := make(chan error, 1)
	var armed atomic.Bool
	b := durable(t, engine.Durability{Log: slog.New(slog.DiscardHandler), Wrap: func(f journal.File) journal.File {
		return failing{File: f, verdict: verdict, armed: &armed}
	}})
	x := b.table(t)
	armed.Store(true)
	verdict <- syscall.EIO
	w := rawCall(b.engine, "DynamoDB_20120810.PutItem", `{"TableName":"`+*x.name+`","Item":{"pk":{"S":"a"},"sk":{"S":"1"}}}`)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	<-b.engine.Failed()
	require.ErrorContains(t, b.engine.Health(), "the store's disk failed")
	require.ErrorContains(t, b.engine.Health(), syscall.EIO.Error())
	require.InDelta(t, 1, metric(t, b.engine, "tidegate_engine_failed"), 0)
	memory := engine.New(engine.Options{Now: newClock().Now})
	require.NoError(t, memory.Health())
	require.Nil(t, memory.Failed())
	require.Zero(t, metric(t, memory, "tidegate_engine_snapshot_failures_total"))
}

// TestFileSizeLimit has the operating system itself refuse to make files larger, in
// a process of its own.
func TestFileSizeLimit(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-limited.dir", t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "the disk has room again")
}

// beLimited writes to files of limited size until that fails, lifts the limit, and
// looks for all of it.
func beLimited(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	open := func() (*engine.Engine, error) {
		return engine.Open(engine.Options{Now: time.Now}, engine.Durability{Dir: dir})
	}
	embedded, err := open()
	if err != nil {
		return err
	}
	var unlimited syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &unlimited); err != nil {
		return err
	}
	limited := syscall.Rlimit{Cur: 10_000, Max: unlimited.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
		return err
	}
	call := func(operation, body string) bool {
		return rawCall(embedded, "DynamoDB_20120810."+operation, body).Code == http.StatusOK
	}
	if !call("CreateTable", `{"TableName":"limited","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],`+
		`"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}]}`) {
		return errors.New("no table")
	}
	put := func(i int) bool {
		return call("PutItem", fmt.Sprintf(`{"TableName":"limited","Item":{"pk":{"S":"%d"}}}`, i))
	}
	written := 0
	for put(written) {
		written++
	}
	if embedded.Health() == nil || written == 0 || written > 1000 {
		return fmt.Errorf("%d writes, and then it is well: %w", written, embedded.Health())
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &unlimited); err != nil {
		return err
	}
	for embedded.Health() != nil {
		time.Sleep(time.Millisecond)
	}
	if !put(written + 1) {
		return errors.New("it does not write again")
	}
	if err := embedded.Close(); err != nil {
		return err
	}
	if embedded, err = open(); err != nil {
		return err
	}
	if n := embedded.Sequence(); n != uint64(written)+2 {
		return fmt.Errorf("%d changes are there, of %d", n, written+2)
	}
	return embedded.Close()
}
