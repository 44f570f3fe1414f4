package tidegate

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/api"
)

// Operator manages namespaces and lease signing keys, which belong to no
// tenant. Its requests need permissions of their own, and its connection the
// inbox prefix of [OperatorInboxPrefix] where permissions are set; all may fail
// with an *Error or *UnavailableError. Every change may be asked for again.
type Operator struct{ c *Client }

// OperatorInboxPrefix is the option with which operators' credentials must
// connect: their permissions let them receive replies only under this prefix.
func OperatorInboxPrefix() nats.Option { return InboxPrefix(api.OperatorNamespace) }

// Operator is the client's access to what belongs to no tenant, whatever its
// own namespace.
func (c *Client) Operator() Operator {
	o := *c
	o.namespace = api.OperatorNamespace
	return Operator{&o}
}

// CreateNamespace makes a namespace. One that is there is an *Error with the code
// already_exists, a deleted one that is not yet purged one with the code conflict.
func (o Operator) CreateNamespace(ctx context.Context, name string) (api.Namespace, error) {
	return ask[api.Namespace](ctx, o.c, api.VerbNamespaceCreate, api.NamespaceRequest{Name: name})
}

// GetNamespace describes a namespace, also a deleted one.
func (o Operator) GetNamespace(ctx context.Context, name string) (api.Namespace, error) {
	return ask[api.Namespace](ctx, o.c, api.VerbNamespaceGet, api.NamespaceRequest{Name: name})
}

// ListNamespaces reads one page of all namespaces, by name. The reply's cursor
// asks for the next page; it is empty on the last.
func (o Operator) ListNamespaces(ctx context.Context, q api.NamespaceListRequest) (api.NamespaceListReply, error) {
	return ask[api.NamespaceListReply](ctx, o.c, api.VerbNamespaceList, q)
}

// DeleteNamespace refuses all requests in a namespace from now on. What it holds
// stays, for RecoverNamespace.
func (o Operator) DeleteNamespace(ctx context.Context, name string) (api.Namespace, error) {
	return ask[api.Namespace](ctx, o.c, api.VerbNamespaceDelete, api.NamespaceRequest{Name: name})
}

// RecoverNamespace brings a deleted namespace back with all it holds, unless its
// purge has begun.
func (o Operator) RecoverNamespace(ctx context.Context, name string) (api.Namespace, error) {
	return ask[api.Namespace](ctx, o.c, api.VerbNamespaceRecover, api.NamespaceRequest{Name: name})
}

// PurgeNamespace does one step of removing all that a deleted namespace holds,
// for good. Call it until its reply is done; then the name is free.
func (o Operator) PurgeNamespace(ctx context.Context, name string) (api.NamespacePurgeReply, error) {
	return ask[api.NamespacePurgeReply](ctx, o.c, api.VerbNamespacePurge, api.NamespaceRequest{Name: name})
}

// ListLeaseKeys describes all lease signing keys, the oldest first.
func (o Operator) ListLeaseKeys(ctx context.Context) ([]api.LeaseKey, error) {
	reply, err := ask[api.LeaseKeyListReply](ctx, o.c, api.VerbKeyList, struct{}{})
	return reply.Keys, err
}

// RotateLeaseKey makes the key that signs leases next, once all nodes know it.
// If one waits already, that one is returned. Leases of older keys stay good.
func (o Operator) RotateLeaseKey(ctx context.Context) (api.LeaseKey, error) {
	return ask[api.LeaseKey](ctx, o.c, api.VerbKeyRotate, struct{}{})
}
