package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// natsFlags say which NATS server to use.
type natsFlags struct {
	NATS  string `name:"nats" variable:"" default:"${nats}" placeholder:"URL" help:"NATS server, or a comma-separated list; default: ${nats}."`
	Creds string `name:"creds" variable:"" placeholder:"FILE" help:"NATS credentials file."`
	natsTLSFlags
}

// clientFlags say whom to ask, and for whom.
type clientFlags struct {
	natsFlags
	Namespace string `name:"namespace" variable:"" default:"${namespace}" placeholder:"NAME" help:"Namespace; default: ${namespace}."`
}

const (
	defaultNATSListen = "127.0.0.1:4222"
	defaultNATS       = "nats://" + defaultNATSListen

	connectTimeout = 2 * time.Second
)

// where returns the server's URL for display, without credentials.
func (f natsFlags) where() string {
	servers := strings.Split(f.NATS, ",")
	for i, server := range servers {
		u, err := url.Parse(strings.TrimSpace(server))
		switch {
		case err == nil && u.Host != "" && u.User != nil:
			if _, secret := u.User.Password(); !secret {
				u.User = url.User("xxxxx") // a lone name is a token
			}
			servers[i] = u.Redacted()
		case strings.Contains(server, "@"): // no URL, and maybe a secret all the same
			servers[i] = "xxxxx" + server[strings.LastIndex(server, "@"):]
		}
	}
	return strings.Join(servers, ",")
}

// dial connects to the NATS server under a name that its operators see.
func (f natsFlags) dial(name string, options ...nats.Option) (*nats.Conn, error) {
	secure, err := f.options()
	if err != nil {
		return nil, err
	}
	options = append(append([]nats.Option{nats.Name(name), nats.Timeout(connectTimeout)}, secure...), options...)
	if f.Creds != "" {
		options = append(options, nats.UserCredentials(f.Creds))
	}
	nc, err := nats.Connect(f.NATS, options...)
	if err == nil {
		return nc, nil
	}
	err = fmt.Errorf("connect to NATS at %s: %w", f.where(), err)
	if advice := f.adviceOn(err); advice != "" {
		return nil, advise(err, "%s", advice)
	}
	var network *net.OpError
	switch {
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), errors.As(err, &network):
		return nil, advise(err, "No NATS server answers there. Start one with `tidegate up`, or point --nats at yours.")
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, fs.ErrNotExist):
		return nil, advise(err, "Point --creds at a credentials file that this server knows.")
	}
	return nil, err
}

// dialService connects a service by its name, with an inbox of its own. The connection
// outlives every NATS outage; the log reports each, and the errors of all subscriptions.
func (f natsFlags) dialService(ctx context.Context, name string, log *slog.Logger, via ...nats.Option) (*nats.Conn, error) {
	return f.dial("tidegate "+name, append([]nats.Option{
		nats.MaxReconnects(-1),
		tidegate.InboxPrefix(name),
		// A message from before an interruption must not reach the server after it: NATS may
		// have forgotten the state that the message relied on.
		nats.ReconnectBufSize(-1),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.InfoContext(ctx, "connected to NATS again", "server", nc.ConnectedUrlRedacted())
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.WarnContext(ctx, "lost the connection to NATS: trying again until it is back", "error", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.ErrorContext(ctx, "NATS reports an error", "subject", subject, "error", err)
		}),
	}, via...)...)
}

// client calls do with a client and adds advice to its error.
func (f clientFlags) client(do func(*tidegate.Client) error) error {
	if err := api.CheckNamespace(f.Namespace); err != nil {
		return usageError{fmt.Errorf("--namespace: %w", err)}
	}
	return f.connected(f.inbox(), func(c *tidegate.Client) error { return f.explain(do(c)) },
		tidegate.WithNamespace(f.Namespace))
}

// inbox returns the option for the reply subjects that the user's permissions allow: those of
// the user in the server's URL, or else of the tenant's services.
func (f clientFlags) inbox() nats.Option {
	for server := range strings.SplitSeq(f.NATS, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil {
			continue
		}
		// A lone name is a token, and a user with a dot is none of deploy/nats.
		if _, named := u.User.Password(); named && api.CheckNamespace(u.User.Username()) == nil {
			return tidegate.InboxPrefix(u.User.Username())
		}
	}
	return tidegate.InboxPrefix(f.Namespace)
}

// stepTimeout bounds a single operator request: a step of a purge removes many items.
const stepTimeout = 20 * time.Second

// operator calls do with access to the data outside all tenants, and adds advice to
// its error.
func (f natsFlags) operator(do func(tidegate.Operator) error) error {
	return f.connected(tidegate.OperatorInboxPrefix(), func(c *tidegate.Client) error {
		err := do(c.Operator())
		var refused *api.Error
		if errors.As(err, &refused) && refused.Code == api.CodeUnknownNamespace {
			return advise(err, "List them with `tidegate namespace list`.")
		}
		return f.explain(err)
	}, tidegate.WithTimeout(stepTimeout))
}

// connected calls do with a client on a connection of its own.
func (f natsFlags) connected(inbox nats.Option, do func(*tidegate.Client) error, options ...tidegate.Option) error {
	nc, err := f.dial("tidegate command line", inbox)
	if err != nil {
		return err
	}
	defer nc.Close()
	client, err := tidegate.New(nc, options...)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return do(client)
}

// explain adds advice to an error of a request, if there is a known remedy.
func (f natsFlags) explain(err error) error {
	var refused *api.Error
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return advise(fmt.Errorf("no Tidegate service answers on the NATS server at %s (%w)", f.where(), err),
			"Start `tidegate admission` there, or everything in one process with `tidegate up`.")
	case errors.Is(err, nats.ErrTimeout):
		return advise(err, "The service took too long; whether it did what was asked is unknown. See its log.")
	case errors.As(err, &refused):
		switch refused.Code {
		case api.CodeUnknownNamespace:
			return advise(err, "Point --namespace at one that exists; %q always does.", api.DefaultNamespace)
		case api.CodeUnavailable:
			return advise(err, "Nothing is known to be spent. See the log of `tidegate admission`, or try again.")
		}
	}
	return err
}

// advisedError is an error together with its remedy.
type advisedError struct {
	err    error
	advice string
}

func (e advisedError) Error() string { return e.err.Error() + "\n" + e.advice }
func (e advisedError) Unwrap() error { return e.err }

func advise(err error, format string, args ...any) error {
	return advisedError{err: err, advice: fmt.Sprintf(format, args...)}
}

// command is a command line to paste that asks the same server.
func (f clientFlags) command(self string, words ...string) string {
	line := make([]string, 0, len(words)+3)
	line = append(line, quoted(self))
	for _, word := range words {
		line = append(line, quoted(word))
	}
	if f.NATS != defaultNATS {
		line = append(line, "--nats", quoted(f.where()))
	}
	if f.Creds != "" {
		line = append(line, "--creds", quoted(f.Creds))
	}
	line = append(line, f.words()...)
	if f.Namespace != api.DefaultNamespace {
		line = append(line, "--namespace", quoted(f.Namespace))
	}
	return strings.Join(line, " ")
}
