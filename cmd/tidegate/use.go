package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

type acquireCmd struct {
	clientFlags
	OnUnavailable api.Policy `name:"on-unavailable" placeholder:"POLICY" help:"Unavailable policy of this acquire: block (fail closed) or allow (fail open). Default: the stored policy."`
	Limits        []string   `name:"limit" placeholder:"LIMIT" help:"Limits that replace the stored limits for this acquire, with a bucket of their own: rpm=10/min. Needs a separate permission."`

	Entity   string   `arg:"" help:"Entity: an API key, a user."`
	Resource string   `arg:"" help:"Resource: a model, an endpoint."`
	Consume  []string `arg:"" help:"Whole tokens to spend of each limit: rpm=1 tpm=500."`
}

func (acquireCmd) Help() string {
	return `Exit code 0: admitted, prints the lease; 3: denied, prints the time to retry after.`
}

// Run acquires and prints the lease, or the denial.
func (c acquireCmd) Run(ctx context.Context, o output) error {
	consume, err := spending(c.Entity, c.Resource, c.Consume)
	if err != nil {
		return usageError{err}
	}
	if err := c.OnUnavailable.Check(); err != nil {
		return usageError{fmt.Errorf("--on-unavailable: %w", err)}
	}
	brought, err := parseLimits(c.Limits)
	if err != nil {
		return usageError{fmt.Errorf("--limit: %w", err)}
	}
	return c.client(func(client *tidegate.Client) error {
		lease, err := client.Acquire(ctx, c.Entity, c.Resource, tokensOf(consume),
			tidegate.OnUnavailable(c.OnUnavailable), tidegate.OverrideLimits(brought...))
		var denied *tidegate.DeniedError
		switch {
		case errors.As(err, &denied):
			if err := o.denial(denied); err != nil {
				return err
			}
			return errDenied
		case err != nil && len(brought) > 0:
			return err // stored limits have no part in it
		case err != nil:
			return c.adviseLimits(o, err, c.Entity, c.Resource, consume)
		}
		reply := api.AcquireReply{Allowed: true, Lease: lease.Token(), Degraded: lease.Degraded(), Limits: lease.Limits()}
		return o.admission(reply)
	})
}

// spending parses the amounts to spend, and checks names before any request is sent.
func spending(entity, resource string, texts []string) (api.Amounts, error) {
	if err := api.CheckEntity(entity); err != nil {
		return nil, err
	}
	if err := api.CheckResource(resource); err != nil {
		return nil, err
	}
	return api.ParseAmounts(texts, 0)
}

func tokensOf(amounts api.Amounts) map[string]int64 {
	tokens := make(map[string]int64, len(amounts))
	for _, a := range amounts {
		tokens[a.Name] = a.Tokens
	}
	return tokens
}

// adviseLimits adds to an error about missing limits how to see or set them.
func (f clientFlags) adviseLimits(o output, err error, entity, resource string, consume api.Amounts) error {
	var refused *api.Error
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Code {
	case api.CodeNoLimits:
		words := []string{"limits", "set", "--resource", resource}
		for _, a := range consume {
			words = append(words, api.FormatLimit(exampleLimit(a)))
		}
		if len(consume) > 0 {
			return advise(err, "To set what this asks for:\n  %s", f.command(o.self, words...))
		}
		words = append(words, api.FormatLimit(exampleLimit(api.Amount{Name: "rpm", Tokens: 1})))
		return advise(err, "To set one:\n  %s", f.command(o.self, words...))
	case api.CodeUnknownLimit:
		return advise(err, "The limits that hold:\n  %s", f.command(o.self, "limits", "resolve", entity, resource))
	}
	return err
}

// exampleLimit is a limit under which the amount is nothing special.
func exampleLimit(a api.Amount) api.Limit {
	const times, least, perMinute = 20, 100, 60
	amount := min(max(times*a.Tokens, least), api.MaxRate*perMinute)
	return api.Limit{Name: a.Name, RefillAmount: amount, RefillPeriodSeconds: perMinute, Capacity: max(amount, a.Tokens)}
}

type adjustCmd struct {
	clientFlags
	Lease  string   `arg:"" help:"The lease, as acquire printed it."`
	Deltas []string `arg:"" help:"Whole tokens to spend in addition (+) or to give back (-): tpm=+1500 tpm=-200."`
}

// Run adjusts and prints the lease that takes the place of the old.
func (c adjustCmd) Run(ctx context.Context, o output) error {
	deltas, err := api.ParseAmounts(c.Deltas, -api.MaxAmount)
	if err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		lease := client.Lease(c.Lease)
		if err := lease.Adjust(ctx, tokensOf(deltas)); err != nil {
			return err
		}
		reply := api.AdjustReply{Lease: lease.Token(), Limits: lease.Limits()}
		return o.write(reply, func(p *page) {
			p.limits(reply.Limits, false)
			p.line("\nlease %s", reply.Lease)
		})
	})
}

type releaseCmd struct {
	clientFlags
	Lease string `arg:"" help:"The lease, as acquire or adjust printed it."`
}

// Run releases.
func (c releaseCmd) Run(ctx context.Context, o output) error {
	return c.client(func(client *tidegate.Client) error {
		if err := client.Lease(c.Lease).Release(ctx); err != nil {
			return err
		}
		return o.write(api.ReleaseReply{Released: true}, func(p *page) { p.line("released") })
	})
}

type statusCmd struct {
	clientFlags
	Entity   string   `arg:"" help:"Entity: an API key, a user."`
	Resource string   `arg:"" optional:"" help:"Resource: a model, an endpoint. Default: all that the entity has used."`
	Consume  []string `arg:"" optional:"" help:"Also check whether an acquire of these amounts would be admitted now: rpm=1 tpm=500."`
}

func (statusCmd) Help() string {
	return `Exit code 3: an acquire of the amounts would be denied now.`
}

// Run prints balances, and if amounts are given whether an acquire would be admitted.
func (c statusCmd) Run(ctx context.Context, o output) error {
	if err := c.check(); err != nil {
		return usageError{err}
	}
	consume, err := api.ParseAmounts(c.Consume, 0)
	if err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		reply, err := client.Status(ctx, c.Entity, c.Resource, tokensOf(consume))
		if err != nil {
			return c.adviseLimits(o, err, c.Entity, c.Resource, consume)
		}
		err = o.write(reply, func(p *page) { printStatus(p, c.Entity, reply) })
		if err == nil && reply.Allowed != nil && !*reply.Allowed {
			return errDenied
		}
		return err
	})
}

func (c statusCmd) check() error {
	if err := api.CheckEntity(c.Entity); err != nil || c.Resource == "" {
		return err
	}
	return api.CheckResource(c.Resource)
}
