package roster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tidegate/tidegate/pkg/api"
)

const (
	// patience bounds how long a status may take to find out.
	patience = time.Second
	// unversioned is the version of a process that has none: NATS wants a semantic
	// one.
	unversioned = "0.0.0"
)

// Entry is a process on the list.
type Entry struct {
	Service     string // such as api.ServiceRelay
	Version     string // semantic; 0.0.0 where empty
	Description string
	// Status finds out what there is to say now. It is called by one goroutine at a
	// time for each kind of question.
	Status func(context.Context) api.ServiceStatus
	Log    *slog.Logger
}

// Join puts a process on the list, until leave is called or the connection ends.
func Join(nc *nats.Conn, e Entry) (leave func(), err error) {
	service, err := micro.AddService(nc, micro.Config{
		Name: api.ServicePrefix + e.Service, Version: cmp.Or(e.Version, unversioned), Description: e.Description,
		StatsHandler: func(*micro.Endpoint) any { return e.status() },
		ErrorHandler: func(_ micro.Service, err *micro.NATSError) {
			e.Log.Error("NATS reports an error", "subject", err.Subject, "error", err.Description)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("join the list of services: %w", err)
	}
	answer := micro.HandlerFunc(func(r micro.Request) { _ = r.RespondJSON(e.status()) }) // whoever asked may be gone
	if err := service.AddEndpoint("status", answer, micro.WithEndpointSubject(api.StatusSubject(e.Service)), micro.WithEndpointQueueGroupDisabled()); err != nil {
		_ = service.Stop()
		return nil, fmt.Errorf("join the list of services: %w", err)
	}
	return func() {
		if err := service.Stop(); err != nil && !nc.IsClosed() {
			e.Log.Warn("the process stays on the list of services until its connection ends", "error", err)
		}
	}, nil
}

func (e Entry) status() api.ServiceStatus {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return e.Status(ctx)
}
