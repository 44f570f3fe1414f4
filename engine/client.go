package engine

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// inProcessEndpoint is where the SDK believes an in-process engine to be. The
// name is reserved, so a client that loses its transport reaches nobody.
const inProcessEndpoint = "http://engine.invalid"

// InProcess carries the SDK's requests to an engine in the same process, on
// the caller's goroutine, without sockets. It serves both as the SDK's
// HTTPClient and as an http.RoundTripper. Safe for concurrent use.
type InProcess struct {
	engine *Engine
}

// HTTPClient is the transport to this engine for clients in the same process.
func (e *Engine) HTTPClient() *InProcess { return &InProcess{engine: e} }

// Do is RoundTrip under the name that the SDK calls.
func (p *InProcess) Do(req *http.Request) (*http.Response, error) { return p.RoundTrip(req) }

// RoundTrip answers the request. A request whose context has ended is not
// carried out; one that was begun is carried out to its end and answered.
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

// Config is the SDK configuration that reaches an engine through client:
// Engine.HTTPClient, perhaps with faults before it. It is built by hand because
// config.LoadDefaultConfig refuses a custom client where AWS_CA_BUNDLE is set.
// Requests go unsigned: nothing checks signatures here, and making them is a
// third of the SDK's work. Services made from it need nothing else; the region
// is the engine's.
func Config(client aws.HTTPClient, region string) aws.Config {
	return aws.Config{
		Region:       region,
		Credentials:  aws.AnonymousCredentials{},
		HTTPClient:   client,
		BaseEndpoint: aws.String(inProcessEndpoint),
	}
}
