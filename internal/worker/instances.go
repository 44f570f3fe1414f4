package worker

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
	// unversioned is the version of a process without a version: NATS requires a semantic
	// version.
	unversioned = "0.0.0"
)

// Instance is a process on the list.
type Instance struct {
	Service     string // such as api.ServiceRelay
	Version     string // semantic; 0.0.0 where empty
	Description string
	// Status computes the present status. It is called by a single goroutine at a
	// time for each kind of question.
	Status func(context.Context) api.ServiceStatus
	Log    *slog.Logger
}

// Join puts a process on the list, until leave is called or the connection ends.
func Join(nc *nats.Conn, i Instance) (leave func(), err error) {
	service, err := micro.AddService(nc, micro.Config{
		Name: api.ServicePrefix + i.Service, Version: cmp.Or(i.Version, unversioned), Description: i.Description,
		StatsHandler: func(*micro.Endpoint) any { return i.status() },
	})
	if err != nil {
		return nil, fmt.Errorf("join the list of services: %w", err)
	}
	answer := micro.HandlerFunc(func(r micro.Request) { _ = r.RespondJSON(i.status()) }) // the caller may be gone
	if err := service.AddEndpoint("status", answer, micro.WithEndpointSubject(api.StatusSubject(i.Service)), micro.WithEndpointQueueGroupDisabled()); err != nil {
		_ = service.Stop()
		return nil, fmt.Errorf("join the list of services: %w", err)
	}
	return func() {
		if err := service.Stop(); err != nil && !nc.IsClosed() {
			i.Log.Warn("the process stays on the list of services until its connection ends", "error", err)
		}
	}, nil
}

func (i Instance) status() api.ServiceStatus {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return i.Status(ctx)
}
