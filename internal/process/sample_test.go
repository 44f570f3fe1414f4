package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/process"
)

// suppressed is what the line about suppressed lines says.
const suppressed = "log lines were suppressed"

// sampled returns a log through a sampler of 3 lines a minute, and a function that takes the
// lines written so far.
func sampled(level slog.Level) (log *slog.Logger, sampler *process.Sampler, take func(*testing.T) []map[string]any) {
	written := new(locked)
	sampler = process.NewSampler(slog.NewJSONHandler(written, &slog.HandlerOptions{Level: level}), 3, time.Minute)
	return slog.New(sampler), sampler, func(t *testing.T) []map[string]any {
		t.Helper()
		var lines []map[string]any
		for _, line := range strings.Split(strings.TrimSpace(written.take()), "\n") {
			if line == "" {
				continue
			}
			entry := map[string]any{}
			require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
			lines = append(lines, entry)
		}
		return lines
	}
}

type locked struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

func TestAFloodIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, take := sampled(slog.LevelInfo)
		for i := range 1000 {
			log.Error("the store failed", "doing", "write", "bucket", i, "error", fmt.Errorf("call %d of \"entity %d\": %w", i, i, context.DeadlineExceeded))
		}
		log.Error("the store failed", "doing", "read", "error", context.DeadlineExceeded)
		require.Len(t, take(t), 3+1, "the first lines, and the only one of another cause")

		time.Sleep(time.Minute)
		synctest.Wait()
		lines := take(t)
		require.Len(t, lines, 1)
		require.Equal(t, suppressed, lines[0]["msg"])
		require.Equal(t, "ERROR", lines[0]["level"])
		require.Equal(t, "the store failed", lines[0]["line"])
		require.Equal(t, "doing=write error=call # of #: context deadline exceeded", lines[0]["cause"])
		require.InDelta(t, 997, lines[0]["suppressed"], 0)
		require.InDelta(t, time.Minute.Nanoseconds(), lines[0]["interval"], 0)

		log.Error("the store failed", "doing", "write", "error", context.DeadlineExceeded)
		require.Len(t, take(t), 1, "the next interval")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, take(t), "nothing more was suppressed")
	})
}

// An interval that Flush has ended does not cut the next one short.
func TestFlushEndsTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, sampler, take := sampled(slog.LevelInfo)
		sampler.Flush()
		require.Empty(t, take(t))
		flood := func() {
			for range 10 {
				log.Warn("again")
			}
		}
		flood()
		time.Sleep(30 * time.Second)
		sampler.Flush()
		require.Len(t, take(t), 3+1)
		flood()
		time.Sleep(45 * time.Second) // past the first interval's end
		synctest.Wait()
		require.Len(t, take(t), 3)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		require.InDelta(t, 7, take(t)[0]["suppressed"], 0)
	})
}

// An error is never hidden by a flood of others, even if callers choose the others' texts.
func TestDistinctCausesAreNeverHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, sampler, take := sampled(slog.LevelInfo)
		for i := range 10_000 {
			log.Error("the store failed", "error", errors.New("chosen "+letters(i)))
		}
		flood := len(take(t))
		require.Less(t, flood, 200)
		for _, line := range []struct {
			level   slog.Level
			message string
			err     error
		}{
			{slog.LevelError, "the store failed", &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no"}},
			{slog.LevelError, "the store failed", &smithy.GenericAPIError{Code: "ThrottlingException", Message: "no"}},
			{slog.LevelError, "the store failed", context.DeadlineExceeded},
			{slog.LevelWarn, "the store failed", errors.New("chosen")},
			{slog.LevelError, "the disk failed", errors.New("chosen")},
		} {
			log.Log(t.Context(), line.level, line.message, "error", line.err)
			require.Len(t, take(t), 1, "%v", line)
		}
		sampler.Flush()
		total := flood
		for _, line := range take(t) {
			n, ok := line["suppressed"].(float64)
			require.True(t, ok)
			total += int(n)
		}
		require.Equal(t, 10_000, total, "each line is written or counted")
	})
}

// letters writes a number in letters, so that it counts as a word.
func letters(n int) string {
	return strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprint(n))
}

// Memory is bounded whatever is logged: messages, too, although they are the program's.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(process.NewSampler(slog.NewTextHandler(new(nothing), nil), 3, time.Minute))
		long := strings.Repeat("x ", 1<<10)
		fill := func(from, to int) uint64 {
			for i := from; i < to; i++ {
				log.Error(letters(i), "error", letters(i)+long)
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		full := fill(0, 5_000)
		require.Less(t, fill(5_000, 15_000), full+1<<20)
		runtime.KeepAlive(log)
	})
}

type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }

func TestSomeLinesAreNeverSuppressed(t *testing.T) {
	log, sampler, take := sampled(slog.LevelDebug)
	for range 10 {
		log.Debug("answered")
		log.ErrorContext(process.Unsampled(t.Context()), "changes were lost")
	}
	sampler.Flush()
	require.Len(t, take(t), 20)

	var all bytes.Buffer
	every := process.NewSampler(slog.NewTextHandler(&all, nil), 0, time.Minute)
	for range 100 {
		slog.New(every).Error("the same")
	}
	require.Equal(t, 100, strings.Count(all.String(), "\n"), "a burst of 0 suppresses nothing")
}

// Attributes and groups of a logger belong to its lines, and what they tell to the cause.
func TestSamplersKeepAttributes(t *testing.T) {
	log, sampler, take := sampled(slog.LevelInfo)
	ids := process.LogRequestIDs(log)
	for range 10 {
		for _, service := range []string{"relay", "sharder"} {
			ids.With("service", service, "lane", 7).WithGroup("g").ErrorContext(process.WithRequestIDs(t.Context(), "r"), "tried again", "n", 1)
		}
	}
	lines := take(t)
	require.Len(t, lines, 3+3)
	require.Equal(t, "relay", lines[0]["service"])
	require.Equal(t, map[string]any{"n": 1.0, "request_id": "r"}, lines[0]["g"])
	sampler.Flush()
	lines = take(t)
	require.Equal(t, "service=relay", lines[0]["cause"])
	require.Equal(t, "service=sharder", lines[1]["cause"])
}

// A faulty error must not end the process that logs it.
func TestAnErrorThatPanicsIsLogged(t *testing.T) {
	log, _, take := sampled(slog.LevelInfo)
	var missing *smithy.OperationError
	for i := range 1000 {
		log.Error("odd", "error", missing, "reason", letters(i))
	}
	require.NotEmpty(t, take(t))
}

// All lines of many goroutines are written or counted.
func TestSamplersServeManyGoroutines(t *testing.T) {
	log, sampler, take := sampled(slog.LevelInfo)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 500 {
				log.Error("the same")
			}
			sampler.Flush()
		})
	}
	running.Wait()
	sampler.Flush()
	total := 0
	for _, line := range take(t) {
		if n, ok := line["suppressed"].(float64); ok {
			total += int(n)
		} else {
			total++
		}
	}
	require.Equal(t, 8*500, total)
}
