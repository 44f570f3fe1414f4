package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// monitorFlags say where NATS servers tell about themselves.
type monitorFlags struct {
	NATSMonitor string `name:"nats-monitor" variable:"" placeholder:"URL" help:"Monitoring address of the NATS server (comma-separated list for several), such as http://127.0.0.1:8222, to check that it syncs messages to disk before it acknowledges them."`
}

const (
	monitorTimeout = 5 * time.Second
	monitorBytes   = 1 << 20 // of an answer; it is far shorter
)

// durability reports how a NATS server syncs the data it acknowledges.
type durability struct {
	Server  string `json:"server"` // its monitoring address
	Sync    string `json:"sync"`   // always, or at which intervals; empty where it is not known
	Durable bool   `json:"durable"`
	Fix     string `json:"fix,omitempty"`
}

// servers returns the addresses.
func (f monitorFlags) servers() (all []string) {
	for server := range strings.SplitSeq(f.NATSMonitor, ",") {
		if server = strings.TrimSpace(server); server != "" {
			all = append(all, server)
		}
	}
	return all
}

// durabilities asks all servers. A server that does not answer counts as not durable.
func (f monitorFlags) durabilities(ctx context.Context) []durability {
	found := make([]durability, 0, len(f.servers()))
	for _, server := range f.servers() {
		found = append(found, durabilityOf(ctx, server))
	}
	return found
}

// warn logs, at the start of a service, each setting of NATS that the service's
// guarantees need and that is missing.
func (f monitorFlags) warn(ctx context.Context, log *slog.Logger) {
	for _, d := range f.durabilities(ctx) {
		if !d.Durable {
			log.WarnContext(ctx, "NATS may forget what it has acknowledged when its machines lose power: settlements could be given back twice, and usage be lost",
				"server", d.Server, "sync_interval", d.Sync, "fix", d.Fix)
		}
	}
}

func durabilityOf(ctx context.Context, server string) durability {
	d := durability{Server: server}
	told, err := askMonitor(ctx, server)
	switch {
	case err != nil:
		d.Fix = fmt.Sprintf("it cannot be asked (%v): give the address of its http_port", err)
	case told.Disabled:
		d.Fix = "JetStream is off: turn it on"
	case told.Config.SyncAlways:
		d.Sync, d.Durable = "always", true
	default:
		d.Sync = told.Config.SyncInterval.String()
		d.Fix = "set `sync_interval: always` in its jetstream block"
	}
	return d
}

// jetStream is the part of a server's monitoring page that concerns JetStream.
type jetStream struct {
	Disabled bool `json:"disabled"`
	Config   struct {
		SyncAlways   bool          `json:"sync_always"`
		SyncInterval time.Duration `json:"sync_interval"`
	} `json:"config"`
}

func askMonitor(ctx context.Context, server string) (*jetStream, error) {
	at, err := url.JoinPath(server, "jsz")
	if err != nil {
		return nil, err
	}
	call, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(call, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }() // it was read
	if reply.StatusCode != http.StatusOK {
		return nil, errors.New(reply.Status)
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, monitorBytes))
	if err != nil {
		return nil, err
	}
	told := new(jetStream)
	if err := json.Unmarshal(body, told); err != nil {
		return nil, fmt.Errorf("not an answer of a NATS server: %w", err)
	}
	return told, nil
}
