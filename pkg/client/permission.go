package tidegate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/api"
)

// firstLook is the time that the first reply to a verb may take before the client looks
// whether the server refused the request; each later look waits twice as long.
const firstLook = 10 * time.Millisecond

// watched sends a message with a verb that was never answered, and fails with the code
// forbidden when the server refuses it: NATS drops a request without permission, and
// reports it on the connection alone.
func (c *Client) watched(ctx context.Context, msg *nats.Msg, wait time.Duration) (*nats.Msg, error) {
	watch, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	within, cancel := context.WithTimeout(watch, wait)
	defer cancel()
	before := c.nc.LastError()
	go func() {
		for pause := firstLook; ; pause *= 2 {
			select {
			case <-within.Done():
				return
			case <-time.After(pause):
			}
			// The server answers a ping after it has reported what it refused before.
			if c.nc.FlushWithContext(within) != nil {
				return
			}
			if err := c.refusal(msg.Subject, before); err != nil {
				refuse(err)
				return
			}
		}
	}()
	reply, err := c.nc.RequestMsgWithContext(within, msg)
	var refused *api.Error
	switch {
	case err == nil:
	case errors.As(context.Cause(watch), &refused):
		return nil, refused
	case ctx.Done() == nil && errors.Is(err, context.DeadlineExceeded):
		return nil, nats.ErrTimeout
	}
	return reply, err //nolint:wrapcheck // once does
}

// refusal returns the server's refusal of a request, or of the subject of all replies. The
// error that was there before the request does not concern this request's subject.
func (c *Client) refusal(subject string, before error) error {
	err := c.nc.LastError()
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	inbox := cmp.Or(c.nc.Opts.InboxPrefix, strings.TrimSuffix(nats.InboxPrefix, "."))
	switch text := err.Error(); {
	case err != before && strings.Contains(text, fmt.Sprintf("Publish to %q", subject)): //nolint:errorlint // the same value or a new one
		return api.Errorf(api.CodeForbidden, "", "NATS does not let %s publish to %q, so nothing was done: connect with credentials that may", c.user(), subject)
	case strings.Contains(text, `Subscription to "`+inbox+"."):
		return api.Errorf(api.CodeForbidden, "",
			"NATS does not let %s receive replies under %q, so whether the request was done is unknown: connect with the inbox prefix of these credentials", c.user(), inbox)
	}
	return nil
}

// user names the connection's user as far as the client may know it: a token and the
// content of a credentials file are secrets.
func (c *Client) user() string {
	if name := c.nc.Opts.User; name != "" {
		return fmt.Sprintf("the user %q", name)
	}
	if server, err := url.Parse(c.nc.ConnectedUrl()); err == nil && server.User != nil {
		if _, password := server.User.Password(); password {
			return fmt.Sprintf("the user %q", server.User.Username())
		}
	}
	return "this connection's user"
}
