// Package storehttp is how the AWS SDK's requests leave a process: to DynamoDB, its
// streams and S3.
//
//	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(storehttp.NewHTTPClient()))
//	cfg.HTTPClient = storehttp.OwnBody(cfg.HTTPClient) // afterwards: loading wants to see the SDK's own client
//
// The SDK (smithy-go 1.28) closes a request's body as soon as it has the reply's
// header. net/http may still be about to find the end of that body then: it reads a
// closed one, takes the request for cut short and breaks the connection, and the
// rest of the reply is lost. On loopback 3 to 5 of 100 replies above 4 KB failed so,
// each after its write had been applied.
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
	// connections is how many connections stay open when idle: as many as one node
	// has writes under way under load. The SDK keeps ten to a host and closes the rest.
	connections = 512
	dialTimeout = 2 * time.Second
	idleTimeout = 90 * time.Second
)

// NewHTTPClient returns the SDK's own client with room for many requests at once. Put
// OwnBody around it once the configuration is loaded.
func NewHTTPClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns = connections
			t.MaxIdleConnsPerHost = connections
			t.IdleConnTimeout = idleTimeout
		}).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout })
}

// OwnBody returns a client that gives next requests whose bodies nobody else
// closes: copies in memory.
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
