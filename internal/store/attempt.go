package store

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// AttemptTimeout returns a configuration whose clients end every attempt of a request
// after a timeout, and repeat it as their retryer says. Without it, an attempt that the
// store does not answer takes all of the context's time. Use it for reads: a write that
// is repeated after a lost reply may be applied twice.
func AttemptTimeout(cfg aws.Config, timeout time.Duration) aws.Config {
	cfg = cfg.Copy()
	cfg.HTTPClient = attempts{cfg.HTTPClient, timeout}
	return cfg
}

type attempts struct {
	next    aws.HTTPClient
	timeout time.Duration
}

// Do sends the request. The timeout includes the body of the reply.
func (c attempts) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), c.timeout)
	resp, err := c.next.Do(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = attemptBody{resp.Body, cancel}
	return resp, nil
}

// attemptBody ends an attempt when its reply is read.
type attemptBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close closes the body.
func (b attemptBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
