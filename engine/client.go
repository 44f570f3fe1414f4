package engine

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// inProcessEndpoint is the endpoint that the SDK uses for an in-process engine. The
// name is reserved, so a client without its transport cannot reach any server.
const inProcessEndpoint = "http://engine.invalid"

// InProcess delivers the SDK's requests to an engine in the same process, on the
// caller's goroutine, without sockets. It implements the SDK's HTTPClient and
// http.RoundTripper. It is safe for concurrent use.
type InProcess struct {
	engine *Engine
}

// HTTPClient returns the transport to this engine for clients in the same process.
func (e *Engine) HTTPClient() *InProcess { return &InProcess{engine: e} }

// Do implements the SDK's HTTPClient like RoundTrip.
func (p *InProcess) Do(req *http.Request) (*http.Response, error) { return p.RoundTrip(req) }

// RoundTrip executes the request and returns the reply. It does not start a request
// whose context has ended, and it always completes a request that it has started.
func (p *InProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }() // nothing was buffered that could be lost
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	body, err := readBody(req)
	if err != nil {
		return nil, fmt.Errorf("read the request's body: %w", err)
	}
	r := p.engine.answer(req.Header.Get("X-Amz-Target"), body)
	header := make(http.Header, 8)
	p.engine.header(header, r)
	return &http.Response{
		Status:        strconv.Itoa(r.status) + " " + http.StatusText(r.status),
		StatusCode:    r.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(r.body)),
		ContentLength: int64(len(r.body)),
		Request:       req,
	}, nil
}

// Config returns an SDK configuration whose clients send their requests through
// client: the engine's HTTPClient, or a fault transport in front of it. Config does
// not use config.LoadDefaultConfig, which refuses a custom client if AWS_CA_BUNDLE is
// set. Requests are not signed: the engine does not check signatures, and signing is a
// third of the SDK's work. Region must be the engine's region.
func Config(client aws.HTTPClient, region string) aws.Config {
	return aws.Config{
		Region:       region,
		Credentials:  aws.AnonymousCredentials{},
		HTTPClient:   client,
		BaseEndpoint: aws.String(inProcessEndpoint),
	}
}
