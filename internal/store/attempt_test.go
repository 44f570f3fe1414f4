package store_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// hanging answers all but the first requests. The first hangs before its reply, or in
// the middle of it, until its context ends.
type hanging struct {
	midway bool
	calls  int
	last   context.Context //nolint:containedctx // the test asks whether it ended
}

func (h *hanging) Do(req *http.Request) (*http.Response, error) {
	h.last = req.Context()
	reply := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"Item":{}}`))}
	if h.calls++; h.calls > 1 {
		return reply, nil
	}
	if !h.midway {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	reply.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"Item":`), untilOver{req.Context()}))
	return reply, nil
}

type noBackoff struct{}

func (noBackoff) BackoffDelay(int, error) (time.Duration, error) { return 0, nil }

type untilOver struct{ ctx context.Context } //nolint:containedctx // it reads until the context ends

func (u untilOver) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

// A read whose reply does not come, or does not end, is repeated within the time of its
// context. The reply's context ends when it is read, and no earlier.
func TestAReadThatHangsIsRepeated(t *testing.T) {
	for name, midway := range map[string]bool{"no reply": false, "half a reply": true} {
		t.Run(name, func(t *testing.T) {
			h := &hanging{midway: midway}
			cfg := engine.Config(h, "us-east-1")
			cfg.Retryer = func() aws.Retryer {
				return retry.NewStandard(func(o *retry.StandardOptions) { o.Backoff = noBackoff{} })
			}
			db := dynamodb.NewFromConfig(store.AttemptTimeout(cfg, time.Millisecond))
			_, err := db.GetItem(t.Context(), table.ReadInput("t", keys.SystemConfig{Namespace: "AAAAAAAAAAA"}.Key()))
			require.NoError(t, err)
			require.Equal(t, 2, h.calls)
			require.Error(t, h.last.Err(), "a timer is left")
			require.Same(t, h, cfg.HTTPClient, "other clients of the configuration are as they were")
		})
	}
}
