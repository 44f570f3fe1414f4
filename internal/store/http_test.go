package store_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/store"
)

// late is a client that answers at once and keeps the request's body.
type late struct{ body io.ReadCloser }

func (l *late) Do(req *http.Request) (*http.Response, error) {
	l.body = req.Body
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// closing is a body as the SDK's: once it is closed, nothing is in it.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Read(b []byte) (int, error) {
	if c.closed {
		return 0, io.EOF
	}
	return c.Reader.Read(b)
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestTheBodyOutlivesTheSDKs(t *testing.T) {
	for name, length := range map[string]int64{"of known length": 7, "of unknown length": -1} {
		t.Run(name, func(t *testing.T) {
			sent := &closing{Reader: strings.NewReader("content")}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://store.invalid", sent)
			require.NoError(t, err)
			req.ContentLength = length
			l := new(late)
			resp, err := store.OwnBody(l).Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.NoError(t, sent.Close(), "as the SDK does now")
			b, err := io.ReadAll(l.body)
			require.NoError(t, err)
			require.Equal(t, "content", string(b))
		})
	}
}

func TestABodyThatIsCutShort(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://store.invalid", strings.NewReader("content"))
	require.NoError(t, err)
	req.ContentLength = 8
	_, err = store.OwnBody(new(late)).Do(req) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestNoBody(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://store.invalid", http.NoBody)
	require.NoError(t, err)
	l := new(late)
	resp, err := store.OwnBody(l).Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.NoBody, l.body)
}

// watched is a body that tells when it is closed.
type watched struct {
	io.ReadCloser
	closed chan struct{}
	once   *sync.Once
}

func (w watched) WriteTo(to io.Writer) (int64, error) { return w.ReadCloser.(io.WriterTo).WriteTo(to) }

func (w watched) Close() error {
	defer w.once.Do(func() { close(w.closed) })
	return w.ReadCloser.Close()
}

// hurried is an HTTP client of the SDK's whose connections come back from writing a
// request only when the body that the SDK gave it was closed: as late as a busy
// machine may let them.
type hurried struct {
	next   aws.HTTPClient
	length int64
	closed chan struct{}
}

// Do sends one request at a time.
func (h *hurried) Do(req *http.Request) (*http.Response, error) {
	h.closed, h.length = make(chan struct{}), req.ContentLength
	req.Body = watched{ReadCloser: req.Body, closed: h.closed, once: new(sync.Once)}
	return h.next.Do(req)
}

type lingering struct {
	net.Conn
	h    *hurried
	left int64 // bytes of the request
}

func (c *lingering) Write(b []byte) (int, error) {
	if c.left == 0 {
		const end = "\r\n\r\n" // of the header
		c.left = int64(bytes.Index(b, []byte(end))+len(end)) + c.h.length
	}
	n, err := c.Conn.Write(b)
	if c.left -= int64(n); c.left == 0 {
		<-c.h.closed
	}
	return n, err
}

// TestLargeReplies sends requests above 4 KB, whose replies are as large, over
// loopback and without the SDK's retries.
func TestLargeReplies(t *testing.T) {
	const requests = 100
	embedded := engine.New(engine.Options{Now: time.Now})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		embedded.ServeHTTP(flushing{w}, r)
	}))
	t.Cleanup(server.Close)
	h := &hurried{}
	h.next = store.OwnBody(store.NewHTTPClient().WithTransportOptions(func(transport *http.Transport) {
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return &lingering{Conn: conn, h: h}, err
		}
	}))
	db := dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		HTTPClient: h, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	})
	name := aws.String("large")
	_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: name, BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("k"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("k"), AttributeType: types.ScalarAttributeTypeS}},
	})
	require.NoError(t, err)
	for i := range requests {
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: name, ReturnValues: types.ReturnValueAllOld, Item: map[string]types.AttributeValue{
			"k": text("a"), "large": text(strings.Repeat("x", 200<<10)),
		}})
		require.NoError(t, err, "request %d", i)
	}
}

// flushing sends a reply's header before its body.
type flushing struct{ http.ResponseWriter }

func (f flushing) WriteHeader(code int) {
	f.ResponseWriter.WriteHeader(code)
	_ = http.NewResponseController(f.ResponseWriter).Flush() // the client notices
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
