package store

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Contact measures for how long the store has not answered. It is safe for concurrent
// use.
type Contact struct {
	mono  func() time.Duration
	since atomic.Int64 // when the first call without a reply began; 0: the last calls got replies
}

// NewContact returns a Contact that has seen no call. mono never returns 0.
func NewContact(mono func() time.Duration) *Contact { return &Contact{mono: mono} }

// Silence returns for how long calls have waited, or failed, without any reply in
// between; 0 without such a call.
func (c *Contact) Silence(now time.Duration) time.Duration {
	if since := c.since.Load(); since > 0 {
		return max(0, now-time.Duration(since))
	}
	return 0
}

// Watch returns an HTTP client whose calls through next are measured. A status of 500 or
// above is no reply: the store could not serve the call.
func (c *Contact) Watch(next aws.HTTPClient) aws.HTTPClient {
	return contactClient{contact: c, next: next}
}

type contactClient struct {
	contact *Contact
	next    aws.HTTPClient
}

// Do implements aws.HTTPClient.
func (w contactClient) Do(req *http.Request) (*http.Response, error) {
	w.contact.since.CompareAndSwap(0, int64(w.contact.mono()))
	resp, err := w.next.Do(req)
	if err == nil && resp.StatusCode < http.StatusInternalServerError {
		w.contact.since.Store(0)
	}
	return resp, err
}
