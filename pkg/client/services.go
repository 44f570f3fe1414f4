package tidegate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tidegate/tidegate/pkg/api"
)

// Services lists the running processes of Tidegate, by service and age, with how far each
// is behind. Their number is unknown, so that the list ends once no process has answered
// for the duration quiet, or with the context. Without any process, it is empty.
func (o Operator) Services(ctx context.Context, quiet time.Duration) ([]api.Service, error) {
	subject, err := micro.ControlSubject(micro.StatsVerb, "", "")
	if err != nil {
		return nil, fmt.Errorf("list the services: %w", err)
	}
	inbox := o.c.nc.NewInbox()
	answers, err := o.c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("list the services: %w", err)
	}
	defer func() { _ = answers.Unsubscribe() }() // it fails where the connection has ended
	before := o.c.nc.LastError()
	if err := o.c.nc.PublishRequest(subject, inbox, nil); err != nil {
		return nil, fmt.Errorf("list the services: %w", err)
	}
	all := []api.Service{}
	for {
		wait, cancel := context.WithTimeout(ctx, quiet)
		m, err := answers.NextMsgWithContext(wait)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("list the services: %w", ctx.Err())
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			if refused := o.c.refusal(subject, before); len(all) == 0 && refused != nil {
				return nil, refused
			}
			slices.SortFunc(all, func(a, b api.Service) int {
				return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.StartedMs, b.StartedMs), cmp.Compare(a.ID, b.ID))
			})
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("list the services: %w", err)
		}
		if s, ok := readService(m.Data); ok {
			all = append(all, s)
		}
	}
}

// readService decodes a process's answer; ok is false for a foreign service.
func readService(data []byte) (s api.Service, ok bool) {
	var stats micro.Stats
	if err := json.Unmarshal(data, &stats); err != nil {
		return s, false
	}
	if s.Service, ok = api.ParseServiceName(stats.Name); !ok {
		return s, false
	}
	s.ID, s.Version, s.StartedMs = stats.ID, stats.Version, stats.Started.UnixMilli()
	for _, endpoint := range stats.Endpoints {
		if json.Unmarshal(endpoint.Data, &s.ServiceStatus) == nil {
			return s, true
		}
	}
	s.Warning = "it says nothing of itself"
	return s, true
}
