package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

type healthCmd struct {
	URL string `arg:"" optional:"" default:"http://127.0.0.1:9464/readyz" placeholder:"URL" help:"URL to ask; default: http://127.0.0.1:9464/readyz."`
}

const (
	healthTimeout = 3 * time.Second
	healthPage    = 64 << 10 // of an answer, in bytes, at most
)

func (healthCmd) Help() string {
	return `For health checks of containers without a shell. Exit code 0: the answer was 200; 1: it was not.`
}

// Run asks once.
func (c healthCmd) Run(ctx context.Context, o output) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, http.NoBody)
	if err != nil || request.URL.Host == "" {
		return usageError{fmt.Errorf("%q is not a URL such as http://127.0.0.1:9464/readyz", c.URL)}
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return advise(fmt.Errorf("no answer from %s: %w", request.URL.Redacted(), err), "Does the service run, with that address as its --admin-listen?")
	}
	answer, err := io.ReadAll(io.LimitReader(reply.Body, healthPage))
	if err := errors.Join(err, reply.Body.Close()); err != nil {
		return fmt.Errorf("read the answer of %s: %w", request.URL.Redacted(), err)
	}
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("not healthy, %s:\n%s", reply.Status, answer)
	}
	return o.write(map[string]any{"healthy": true}, func(p *page) { p.line("%s", strings.TrimSpace(string(answer))) })
}
