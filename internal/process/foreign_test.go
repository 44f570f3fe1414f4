package process_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/aws/smithy-go/logging"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/process"
)

// Lines of libraries have a constant message, so that they are sampled by cause.
func TestLibrariesLogThroughSlog(t *testing.T) {
	var written bytes.Buffer
	log := slog.New(slog.NewTextHandler(&written, nil))
	says := func(want string) {
		t.Helper()
		require.Regexp(t, want, written.String())
		written.Reset()
	}
	slog.NewLogLogger(process.Lines(log, "the HTTP server says"), slog.LevelWarn).Printf("TLS handshake error from %s", "10.0.0.1:99")
	says(`level=WARN msg="the HTTP server says" line="TLS handshake error from 10\.0\.0\.1:99"\n$`)

	slog.New(process.Lines(log, "it says")).With("a", 1).WithGroup("g").Info("that", "b", 2)
	says(`level=INFO msg="it says" a=1 g\.line=that g\.b=2\n$`)

	sdk := process.AWSLog(log)
	sdk.Logf(logging.Warn, "no checksum of %q", "object")
	says(`level=WARN msg="the AWS SDK says" line="no checksum of \\"object\\""\n$`)
	sdk.Logf(logging.Debug, "a request")
	says(`^$`)
}
