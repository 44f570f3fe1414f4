package tidegate_test

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// complete stands for the call whose cost is known only afterwards.
func complete(context.Context) (tokens int64, err error) { return 730, nil }

func ExampleClient_Do() {
	nc, err := nats.Connect(nats.DefaultURL, tidegate.InboxPrefix("default"))
	if err != nil {
		slog.Error("connect", "error", err)
		return
	}
	defer nc.Close()
	client, err := tidegate.New(nc, tidegate.WithOnUnavailable(tidegate.Allow))
	if err != nil {
		slog.Error("configure", "error", err)
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err = client.Do(ctx, "api-key-123", "gpt-4", tidegate.Consume{"rpm": 1, "tpm": 500},
		func(ctx context.Context, lease *tidegate.Lease) error {
			used, err := complete(ctx)
			if err != nil {
				return err // all is given back
			}
			return lease.Adjust(ctx, tidegate.Deltas{"tpm": used - 500})
		})

	var denied *tidegate.DeniedError
	switch {
	case errors.As(err, &denied) && denied.Never:
		slog.Error("the request is larger than the limit", "error", denied)
	case errors.As(err, &denied):
		slog.Info("try again", "in", denied.Jittered())
	case err != nil:
		slog.Error("complete", "error", err)
	}
}
