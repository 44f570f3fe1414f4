package outage_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/internal/outage"
)

// Real servers say which of their errors end by themselves.
func TestNATS(t *testing.T) {
	for name, c := range map[string]struct {
		options *server.Options
		connect []nats.Option
		gone    bool // the server is
		cfg     jetstream.StreamConfig
		want    bool
	}{
		"no server":            {&server.Options{}, nil, true, jetstream.StreamConfig{}, true},
		"a wrong password":     {&server.Options{Username: "a", Password: "b"}, []nats.Option{nats.UserInfo("a", "c")}, false, jetstream.StreamConfig{}, false},
		"no JetStream, or yet": {&server.Options{}, nil, false, jetstream.StreamConfig{}, true},
		"replicas alone":       {&server.Options{JetStream: true}, nil, false, jetstream.StreamConfig{Replicas: 3}, false},
		"a bad setting":        {&server.Options{JetStream: true}, nil, false, jetstream.StreamConfig{Subjects: []string{"a..b"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := natstest.StartWith(t, c.options)
			if c.gone {
				s.Stop()
			}
			err := func() error {
				nc, err := nats.Connect(s.ClientURL(), c.connect...)
				if err != nil {
					return err
				}
				defer nc.Close()
				js, err := jetstream.New(nc)
				require.NoError(t, err)
				cfg := c.cfg
				cfg.Name = "S"
				_, err = js.CreateOrUpdateStream(t.Context(), cfg)
				return err
			}()
			require.Error(t, err)
			require.Equal(t, c.want, outage.Is(fmt.Errorf("make it: %w", err)), err.Error())
		})
	}
}

// JetStream's refusals while a cluster starts, which no test can bring about at will.
func TestJetStreamOfAClusterThatStarts(t *testing.T) {
	for code, c := range map[jetstream.ErrorCode]struct {
		status int
		want   bool
	}{
		10005: {400, true},  // no suitable peers for placement
		10008: {503, true},  // temporarily unavailable
		10009: {500, true},  // not the leader
		10023: {503, true},  // insufficient resources
		10058: {400, true},  // another service makes the stream
		10059: {404, true},  // the stream is made next
		10118: {500, true},  // the stream is offline
		10039: {503, false}, // not enabled for the account
		10074: {500, false}, // replicas without a cluster
		10065: {400, false}, // subjects overlap with another stream
	} {
		require.Equal(t, c.want, outage.Is(fmt.Errorf("x: %w", &jetstream.APIError{Code: c.status, ErrorCode: code})), "%d", code)
	}
}

// The errors of the SDK, of stores that answer so.
func TestStore(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		code   string
		want   bool
	}{
		"down":               {0, "", true},
		"an internal error":  {500, "InternalServerError", true},
		"a gateway's error":  {503, "", true},
		"a throttle":         {400, "ThrottlingException", true},
		"no table":           {400, "ResourceNotFoundException", false},
		"wrong credentials":  {400, "UnrecognizedClientException", false},
		"no permission":      {400, "AccessDeniedException", false},
		"an invalid request": {400, "ValidationException", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				w.WriteHeader(c.status)
				_, _ = fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"x"}`, c.code)
			}))
			defer s.Close()
			if c.status == 0 {
				s.Close()
			}
			client := dynamodb.NewFromConfig(aws.Config{Region: "r", BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")},
				func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
			_, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("t")})
			require.Error(t, err)
			require.Equal(t, c.want, outage.Is(err), err.Error())
		})
	}
}

func TestOtherErrors(t *testing.T) {
	for _, err := range []error{
		&url.Error{Op: "Get", URL: "http://store", Err: os.ErrDeadlineExceeded}, syscall.ETIMEDOUT,
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrReconnectBufExceeded, leader.ErrInterrupted, context.DeadlineExceeded, io.EOF,
		&net.OpError{Op: "dial", Err: errors.New("no route to host")}, &net.DNSError{Err: "no such host", IsNotFound: true},
	} {
		require.True(t, outage.Is(err), err.Error())
	}
	for _, err := range []error{
		&fs.PathError{Op: "open", Path: "a.creds", Err: syscall.ENOENT}, fmt.Errorf("write: %w", syscall.EACCES),
		nil, errors.New("the schema is too new"), nats.ErrAuthorization, nats.ErrConnectionClosed, context.Canceled,
		&net.OpError{Op: "dial", Err: &net.AddrError{Err: "invalid port", Addr: "127.0.0.1:99999"}},
		&net.OpError{Op: "remote error", Err: tls.AlertError(42)},
		x509.UnknownAuthorityError{},
		&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: new(x509.Certificate)}},
	} {
		require.False(t, outage.Is(err), "%v", err)
	}
}

// An outage is waited out; the log says so once for a reason, and says that it is over.
func TestAwaitWaitsForAnOutageToEnd(t *testing.T) {
	var log bytes.Buffer
	count := 0
	require.NoError(t, outage.Await(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), "the feed", func(ctx context.Context) error {
		_, bounded := ctx.Deadline()
		require.True(t, bounded, "a server that hangs must not keep the attempt for ever")
		if count++; count < 4 {
			return nats.ErrNoResponders
		}
		return nil
	}))
	require.Equal(t, 4, count)
	require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
	require.Contains(t, log.String(), "the feed")
	require.Contains(t, log.String(), nats.ErrNoResponders.Error())
	require.Contains(t, log.String(), "the start goes on")
}

func TestAwaitReportsAMistakeAtOnce(t *testing.T) {
	mistake := errors.New("the schema is too new")
	count := 0
	err := outage.Await(t.Context(), slog.New(slog.DiscardHandler), "the table", func(context.Context) error {
		count++
		return mistake
	})
	require.ErrorIs(t, err, mistake)
	require.Equal(t, mistake.Error(), err.Error())
	require.Equal(t, 1, count)
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var attempts atomic.Int64
	ended := make(chan error)
	go func() {
		ended <- outage.Await(ctx, slog.New(slog.DiscardHandler), "NATS", func(ctx context.Context) error {
			attempts.Add(1)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	require.Eventually(t, func() bool { return attempts.Load() == 1 }, time.Minute, time.Millisecond)
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "NATS")
}
