package embednats_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats"
)

const anyPort = "127.0.0.1:0"

func start(t *testing.T, o embednats.Options) *embednats.Server {
	t.Helper()
	if o.Listen == "" {
		o.Listen = anyPort
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s, err := embednats.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Shutdown)
	return s
}

func connect(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, options...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func addressOf(s *embednats.Server) string { return strings.TrimPrefix(s.URL(), "nats://") }

func TestClientsMeet(t *testing.T) {
	s := start(t, embednats.Options{})
	require.NoError(t, s.Check(t.Context()))
	outside := connect(t, s.URL())
	inside := connect(t, "nats://nowhere.invalid:1", s.InProcess())
	require.Equal(t, outside.ConnectedServerId(), inside.ConnectedServerId())
	require.Equal(t, "tidegate", outside.ConnectedServerName())

	sub, err := outside.SubscribeSync("greeting")
	require.NoError(t, err)
	require.NoError(t, outside.Flush()) // the server knows the subscription
	require.NoError(t, inside.Publish("greeting", []byte("hello")))
	msg, err := sub.NextMsg(10 * time.Second)
	require.NoError(t, err)
	require.Equal(t, "hello", string(msg.Data))
}

// TestASecondLifeKeepsTheData stops a server and starts one on its directory.
func TestASecondLifeKeepsTheData(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embednats.Options{Dir: dir})
	js, err := jetstream.New(connect(t, first.URL()))
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept.>"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "kept.one", []byte("still here"))
	require.NoError(t, err)
	first.Shutdown()
	first.Shutdown() // more than one does no harm
	require.ErrorContains(t, first.Check(t.Context()), "does not run")

	second := start(t, embednats.Options{Dir: dir, Listen: addressOf(first)})
	js, err = jetstream.New(connect(t, second.URL()))
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "KEPT")
	require.NoError(t, err)
	msg, err := stream.GetLastMsgForSubject(t.Context(), "kept.one")
	require.NoError(t, err)
	require.Equal(t, "still here", string(msg.Data))
}

func TestATakenPortSaysWhatToDo(t *testing.T) {
	first, dir := start(t, embednats.Options{}), t.TempDir()
	o := embednats.Options{Dir: dir, Listen: addressOf(first), Log: slog.New(slog.DiscardHandler)}
	_, err := embednats.Start(t.Context(), o)
	var taken *embednats.ListenError
	require.ErrorAs(t, err, &taken)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, addressOf(first))
	require.ErrorContains(t, err, "--nats-listen")

	start(t, embednats.Options{Dir: dir}) // the failed one gave the directory free
}

func TestADirectoryHasOneServer(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embednats.Options{Dir: dir})
	_, err := embednats.Start(t.Context(), embednats.Options{Dir: dir, Listen: anyPort, Log: slog.New(slog.DiscardHandler)})
	var used *embednats.InUseError
	require.ErrorAs(t, err, &used)
	require.Equal(t, embednats.InUseError{Dir: dir, PID: strconv.Itoa(os.Getpid())}, *used)
	require.ErrorContains(t, err, "--dir")
	require.NoError(t, first.Check(t.Context()), "the first is left alone")

	first.Shutdown()
	start(t, embednats.Options{Dir: dir})
}

func TestBadOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	occupied := t.TempDir() // what JetStream wants to be a directory is a file
	require.NoError(t, os.WriteFile(filepath.Join(occupied, "jetstream"), nil, 0o600))
	locked := t.TempDir() // the lock cannot be opened for writing
	require.NoError(t, os.Mkdir(filepath.Join(locked, "LOCK"), 0o700))
	var listen *embednats.ListenError
	var dir *embednats.DirError
	for name, c := range map[string]struct {
		o    embednats.Options
		as   any
		says string
	}{
		"no directory":             {embednats.Options{Listen: anyPort}, &dir, "--dir"},
		"a file for a directory":   {embednats.Options{Listen: anyPort, Dir: file}, &dir, file},
		"below a file":             {embednats.Options{Listen: anyPort, Dir: filepath.Join(file, "x")}, &dir, "--dir"},
		"no lock to be had":        {embednats.Options{Listen: anyPort, Dir: locked}, &dir, "--dir"},
		"a file where a store is":  {embednats.Options{Listen: anyPort, Dir: occupied}, &dir, occupied},
		"no port":                  {embednats.Options{Listen: "127.0.0.1", Dir: t.TempDir()}, &listen, "--nats-listen"},
		"a port that is no number": {embednats.Options{Listen: "127.0.0.1:nats", Dir: t.TempDir()}, &listen, `"nats" is no port`},
		"a port too high":          {embednats.Options{Listen: "127.0.0.1:65536", Dir: t.TempDir()}, &listen, `"65536" is no port`},
		"a port below zero":        {embednats.Options{Listen: "127.0.0.1:-1", Dir: t.TempDir()}, &listen, `"-1" is no port`},
		"another's address":        {embednats.Options{Listen: "192.0.2.1:0", Dir: t.TempDir()}, &listen, "of this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Log = slog.New(slog.DiscardHandler)
			_, err := embednats.Start(t.Context(), c.o)
			require.ErrorContains(t, err, c.says)
			require.ErrorAs(t, err, c.as)
		})
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	_, err := embednats.Start(ctx, embednats.Options{Dir: dir, Listen: anyPort, Log: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, err, context.Canceled)
	start(t, embednats.Options{Dir: dir}) // nothing of it is left
}

// TestSignalsAreTheProcesss would end the test binary if the server listened to
// signals itself.
func TestSignalsAreTheProcesss(t *testing.T) {
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGTERM)
	defer signal.Stop(received)
	s := start(t, embednats.Options{})
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	<-received
	nc := connect(t, s.URL())
	require.NoError(t, nc.Flush())
	require.NoError(t, s.Check(t.Context()))
}

func TestPayloadsAreLimited(t *testing.T) {
	s := start(t, embednats.Options{MaxPayload: 1 << 10})
	nc := connect(t, s.URL())
	require.EqualValues(t, 1<<10, nc.MaxPayload())
	require.ErrorIs(t, nc.Publish("x", make([]byte, 1<<10+1)), nats.ErrMaxPayload)
}

// TestItIsQuiet looks at what is logged above debug level between start and
// stop, and that below there is something.
func TestItIsQuiet(t *testing.T) {
	for level, quiet := range map[slog.Level]bool{slog.LevelInfo: true, slog.LevelDebug: false} {
		var log bytes.Buffer
		s := start(t, embednats.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
		connect(t, s.URL()).Close()
		s.Shutdown()
		require.Equal(t, quiet, log.Len() == 0, log.String())
	}
}

// TestIPv6 skips nothing: a machine without it must say so as for any address.
func TestIPv6(t *testing.T) {
	var dialer net.ListenConfig
	l, err := dialer.Listen(t.Context(), "tcp", "[::1]:0")
	if err != nil {
		_, err = embednats.Start(t.Context(), embednats.Options{Dir: t.TempDir(), Listen: "[::1]:0", Log: slog.New(slog.DiscardHandler)})
		var listen *embednats.ListenError
		require.ErrorAs(t, err, &listen)
		return
	}
	require.NoError(t, l.Close())
	s := start(t, embednats.Options{Listen: "[::1]:0"})
	require.NoError(t, connect(t, s.URL()).Flush())
}
