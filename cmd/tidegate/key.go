package main

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

type keyListCmd struct{ natsFlags }

// Run prints all keys.
func (c keyListCmd) Run(ctx context.Context, o output) error {
	return c.operator(func(operator tidegate.Operator) error {
		all, err := operator.ListLeaseKeys(ctx)
		if err != nil {
			return err
		}
		return o.write(api.LeaseKeyListReply{Keys: all}, func(p *page) { printKeys(p, all) })
	})
}

type keyRotateCmd struct{ natsFlags }

// Run creates the next key, unless a created key is still waiting to be used.
func (c keyRotateCmd) Run(ctx context.Context, o output) error {
	return c.operator(func(operator tidegate.Operator) error {
		next, err := operator.RotateLeaseKey(ctx)
		if err != nil {
			return err
		}
		return o.write(next, func(p *page) { printKeys(p, []api.LeaseKey{next}) })
	})
}

type keyRevokeCmd struct {
	Key string `arg:"" placeholder:"KEY" help:"Key to revoke, as in tidegate key list."`
	natsFlags
}

func (keyRevokeCmd) Help() string {
	return `For a key that leaked. Nodes refuse its leases within a second, or within a minute if they miss the message: tokens of these leases cannot be given back. If the key signs, a new key signs at once. Write -- before a key that begins with a hyphen.`
}

// Run revokes a key.
func (c keyRevokeCmd) Run(ctx context.Context, o output) error {
	return c.operator(func(operator tidegate.Operator) error {
		reply, err := operator.RevokeLeaseKey(ctx, c.Key)
		if err != nil {
			return err
		}
		return o.write(reply, func(p *page) { printKeys(p, []api.LeaseKey{reply.Revoked, reply.Signing}) })
	})
}

// printKeys adds a table of keys.
func printKeys(p *page, all []api.LeaseKey) {
	rows := [][]string{{"KEY", "STATE", "CREATED", "SIGNS FROM"}}
	for _, k := range all {
		rows = append(rows, []string{k.ID, string(k.State), moment(k.CreatedMs), moment(k.SignsFromMs)})
	}
	p.table(rows)
}
