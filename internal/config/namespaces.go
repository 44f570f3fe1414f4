package config

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/listing"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// ensureAttempts is how often Ensure looks again after a failed write. Each time
// somebody else made the namespace, or the write can be repeated.
const ensureAttempts = 5

// namespaceBytes is how large an entry of a list is at most, but for its texts.
const namespaceBytes = 160

// Namespaces reads namespaces, and makes those that exist from the start. It is
// safe for concurrent use, by any number of nodes.
//
// Its errors that are an *api.Error are the caller's and final; every other one
// says that the store did not do its part.
type Namespaces struct {
	backend
	random io.Reader // makes ids; safe for concurrent use
}

// NewNamespaces returns the registry of a table.
func NewNamespaces(client *dynamodb.Client, tableName string) *Namespaces {
	return &Namespaces{backend: backend{client, tableName}, random: rand.Reader}
}

// Lookup gives the id of a namespace, by one consistent read. It fails with an
// *api.Error of the code unknown_namespace where there is none or it is deleted,
// and of the code invalid_namespace, without a read, for what cannot be a name.
// Every other error means that it is not known.
func (r *Namespaces) Lookup(ctx context.Context, name string) (string, error) {
	n, err := r.find(ctx, name)
	switch {
	case err != nil:
		return "", err
	case n.Deleted():
		return "", namespaceDeleted(&n)
	}
	return n.ID, nil
}

// Get describes a namespace, also one that is deleted; it fails as Lookup does.
func (r *Namespaces) Get(ctx context.Context, name string) (api.Namespace, error) {
	n, err := r.find(ctx, name)
	if err != nil {
		return api.Namespace{}, err
	}
	return wireNamespace(&n), nil
}

// find is a consistent read of the forward entry.
func (r *Namespaces) find(ctx context.Context, name string) (table.Namespace, error) {
	if err := api.CheckNamespace(name); err != nil {
		return table.Namespace{}, err
	}
	item, err := r.read(ctx, keys.NamespaceName{Name: name})
	if err != nil {
		return table.Namespace{}, fmt.Errorf("look up namespace %s: %w", name, err)
	}
	if len(item) == 0 {
		return table.Namespace{}, unknownNamespace(name)
	}
	n, err := table.DecodeNamespace(item)
	if err != nil {
		return table.Namespace{}, fmt.Errorf("look up namespace %s: %w", name, err)
	}
	return n, nil
}

// List returns one page of all namespaces, deleted ones too, by name.
func (r *Namespaces) List(ctx context.Context, req api.NamespaceListRequest) (api.NamespaceListReply, error) {
	namespaces, cursor, err := page(ctx, r.backend, []listing.Step{{Query: keys.Namespaces()}},
		listing.Request{Cursor: req.Cursor, Limit: req.Limit},
		func(item table.Item) (api.Namespace, int, error) {
			n, err := table.DecodeNamespace(item)
			if err != nil {
				return api.Namespace{}, 0, err
			}
			return wireNamespace(&n), namespaceBytes + len(n.Name) + len(n.DeletedBy), nil
		})
	if err != nil {
		return api.NamespaceListReply{}, fmt.Errorf("list namespaces: %w", err)
	}
	return api.NamespaceListReply{Namespaces: namespaces, Cursor: cursor}, nil
}

// Ensure gives the id of a namespace and makes the namespace where there is
// none. It may be called at every start, by several nodes at once: all get the
// same id. After an error it may be called again.
func (r *Namespaces) Ensure(ctx context.Context, name string) (string, error) {
	var failure error
	for n := range ensureAttempts {
		known, err := r.find(ctx, name)
		switch {
		case err == nil && known.Deleted():
			return "", namespaceDeleted(&known)
		case !isUnknownNamespace(err):
			return known.ID, err
		}
		made, err := r.draw(name)
		if err != nil {
			return "", err
		}
		_, err = r.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: table.CreateNamespaceItems(r.table, made)})
		if err == nil {
			return made.ID, nil
		}
		// Whatever failed (the name was taken meanwhile, the id is, the answer was
		// lost), looking again tells: the transaction was applied as a whole or not
		// at all, and a second one fails where the first was.
		failure = fmt.Errorf("make namespace %s: %w", name, err)
		if err := table.Pause(ctx, n); err != nil {
			return "", errors.Join(failure, err)
		}
	}
	return "", failure
}

// draw is a new namespace with an id of its own.
func (r *Namespaces) draw(name string) (table.Namespace, error) {
	id, err := keys.NewNamespaceID(r.random)
	return table.Namespace{Name: name, ID: id}, err
}

func isUnknownNamespace(err error) bool {
	var refusal *api.Error
	return errors.As(err, &refusal) && refusal.Code == api.CodeUnknownNamespace
}

func unknownNamespace(name string) *api.Error {
	return api.Errorf(api.CodeUnknownNamespace, "", "there is no namespace %q", name)
}

// gone is what requests in a deleted namespace are told.
func namespaceDeleted(n *table.Namespace) *api.Error {
	if n.PurgeMs != 0 {
		return api.Errorf(api.CodeUnknownNamespace, "", "the namespace %q is deleted and being purged", n.Name)
	}
	return api.Errorf(api.CodeUnknownNamespace, "",
		"the namespace %q is deleted; an operator can recover it, with all it holds: tidegate namespace recover %s", n.Name, n.Name)
}

// described is an entry as operators see it.
func wireNamespace(n *table.Namespace) api.Namespace {
	state := api.NamespaceActive
	switch {
	case n.PurgeMs != 0:
		state = api.NamespacePurging
	case n.Deleted():
		state = api.NamespaceDeleted
	}
	return api.Namespace{
		Name: n.Name, ID: n.ID, State: state, CreatedMs: n.CreatedMs, DeletedMs: n.DeletedMs, DeletedBy: n.DeletedBy,
	}
}
