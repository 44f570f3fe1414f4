package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

const (
	// connections bounds the idle connections that stay open: a loaded node has that
	// many writes under way. The SDK keeps ten per host and closes the rest.
	connections = 512
	dialTimeout = 2 * time.Second
	idleTimeout = 90 * time.Second
)

// NewHTTPClient returns the SDK's own client, configured for many requests at once.
// It serves DynamoDB, its streams and S3. Wrap it in OwnBody after
// the configuration is loaded:
//
//	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithHTTPClient(store.NewHTTPClient()))
//	cfg.HTTPClient = store.OwnBody(cfg.HTTPClient)
func NewHTTPClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns = connections
			t.MaxIdleConnsPerHost = connections
			t.IdleConnTimeout = idleTimeout
		}).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout })
}

// OwnBody returns a client that sends requests through next with bodies of its own,
// copied to memory. Put it around the client after the configuration is loaded:
// loading expects the SDK's own client.
//
// The SDK (smithy-go 1.28) closes the body of a request as soon as it has the header
// of the reply. net/http may still be reading that body to find its end. It then
// reads from a closed body, takes the request for incomplete and breaks the
// connection, so that the rest of the reply is lost. On loopback, 3 to 5 of 100
// replies above 4 KB were lost this way, each after its write had been applied.
func OwnBody(next aws.HTTPClient) aws.HTTPClient { return ownBody{next} }

type ownBody struct{ next aws.HTTPClient }

// Do sends the request.
func (c ownBody) Do(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return c.next.Do(req)
	}
	body, err := readBody(req)
	if err := errors.Join(err, req.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the request's body: %w", err)
	}
	own := *req
	own.Body = io.NopCloser(bytes.NewReader(body))
	own.ContentLength = int64(len(body))
	return c.next.Do(&own)
}

func readBody(req *http.Request) ([]byte, error) {
	if req.ContentLength < 0 {
		return io.ReadAll(req.Body)
	}
	body := make([]byte, req.ContentLength)
	_, err := io.ReadFull(req.Body, body)
	return body, err
}
