package tidegate

import (
	"context"
	"sync"

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

// Operator returns the client's access to data outside all namespaces.
func (c *Client) Operator() Operator {
	o := *c
	o.namespace, o.answered = api.OperatorNamespace, new(sync.Map)
	return Operator{&o}
}

// CreateNamespace creates a namespace. If it exists, the error is an *Error with the code
// already_exists; if it is deleted and not yet purged, with the code conflict.
func (o Operator) CreateNamespace(ctx context.Context, name string) (api.Namespace, error) {
	return ask[api.Namespace](ctx, o.c, api.VerbNamespaceCreate, api.NamespaceRequest{Name: name})
}

// GetNamespace describes a namespace, including a deleted namespace.
func (o Operator) GetNamespace(ctx context.Context, name string) (api.Namespace, error) {
	return ask[api.Namespace](ctx, o.c, api.VerbNamespaceGet, api.NamespaceRequest{Name: name})
}

// ListNamespaces reads a page of all namespaces, by name. The reply's cursor requests the
// next page; it is empty on the last.
func (o Operator) ListNamespaces(ctx context.Context, q api.NamespaceListRequest) (api.NamespaceListReply, error) {
	return ask[api.NamespaceListReply](ctx, o.c, api.VerbNamespaceList, q)
}

// DeleteNamespace makes services refuse all requests in a namespace. Its data stays, for
// RecoverNamespace.
func (o Operator) DeleteNamespace(ctx context.Context, name string) (api.Namespace, error) {
	return ask[api.Namespace](ctx, o.c, api.VerbNamespaceDelete, api.NamespaceRequest{Name: name})
}

// RecoverNamespace brings a deleted namespace back with all it holds, unless its
// purge has begun.
func (o Operator) RecoverNamespace(ctx context.Context, name string) (api.Namespace, error) {
	return ask[api.Namespace](ctx, o.c, api.VerbNamespaceRecover, api.NamespaceRequest{Name: name})
}

// PurgeNamespace does a step of removing all data of a deleted namespace permanently.
// Call it until its reply is done; then the name is free.
func (o Operator) PurgeNamespace(ctx context.Context, name string) (api.NamespacePurgeReply, error) {
	return ask[api.NamespacePurgeReply](ctx, o.c, api.VerbNamespacePurge, api.NamespaceRequest{Name: name})
}

// ListLeaseKeys describes all lease signing keys, the oldest first.
func (o Operator) ListLeaseKeys(ctx context.Context) ([]api.LeaseKey, error) {
	reply, err := ask[api.LeaseKeyListReply](ctx, o.c, api.VerbKeyList, struct{}{})
	return reply.Keys, err
}

// RotateLeaseKey creates the key that signs leases next, once all nodes know it. If a key
// is already waiting, it returns that key. Leases of older keys stay valid.
func (o Operator) RotateLeaseKey(ctx context.Context) (api.LeaseKey, error) {
	return ask[api.LeaseKey](ctx, o.c, api.VerbKeyRotate, struct{}{})
}

// RevokeLeaseKey makes all nodes refuse the leases of a key that leaked, within a second
// as a rule and within a minute at the latest. Tokens of its good leases cannot be given
// back any more. If the key signs, the reply's new key signs at once. An unknown key is an
// *Error with the code not_found.
func (o Operator) RevokeLeaseKey(ctx context.Context, id string) (api.LeaseKeyRevokeReply, error) {
	return ask[api.LeaseKeyRevokeReply](ctx, o.c, api.VerbKeyRevoke, api.LeaseKeyRevokeRequest{ID: id})
}
