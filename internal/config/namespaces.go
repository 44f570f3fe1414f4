package config

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// ensureAttempts bounds the attempts of Ensure. After a failed write it reads
// again: another node made the namespace, or the write can be repeated.
const ensureAttempts = 5

// namespaceBytes is the largest size of an entry of a list, without its texts.
const namespaceBytes = 160

// Namespaces is the registry: it reads namespaces, and makes the namespaces that
// exist from the start. It is safe for concurrent use by any number of nodes.
//
// An *api.Error is the caller's fault and final; any other error means that the
// store failed.
type Namespaces struct {
	backend
	random io.Reader // makes ids; safe for concurrent use
}

// NewNamespaces returns the registry of a table.
func NewNamespaces(client *dynamodb.Client, tableName string) *Namespaces {
	return &Namespaces{backend: backend{client, tableName}, random: rand.Reader}
}

// Lookup returns the id of a namespace, by a consistent read. It fails with an
// *api.Error: with the code unknown_namespace if the namespace does not exist or is
// deleted, and, without a read, with invalid_namespace if the name is invalid.
// After any other error the id is not known.
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

// Get describes a namespace, also a deleted namespace. It fails as Lookup does.
func (r *Namespaces) Get(ctx context.Context, name string) (api.Namespace, error) {
	n, err := r.find(ctx, name)
	if err != nil {
		return api.Namespace{}, err
	}
	return wireNamespace(&n), nil
}

// find returns the forward entry of a name by a consistent read.
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

// List returns a page of all namespaces by name, deleted namespaces included.
func (r *Namespaces) List(ctx context.Context, req api.NamespaceListRequest) (api.NamespaceListReply, error) {
	namespaces, cursor, err := page(ctx, r.backend, []store.Step{{Query: keys.Namespaces()}},
		store.PageRequest{Cursor: req.Cursor, Limit: req.Limit},
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

// Ensure returns the id of a namespace and makes the namespace if it does not
// exist. Several nodes may call it at every start: all get the same id. After an
// error it may be repeated.
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
		if store.OutcomeOf(err) == store.Rejected {
			return "", fmt.Errorf("make namespace %s: %w", name, err)
		}
		// For any other failure (the name or the id is taken, the reply was lost),
		// reading again tells the outcome: the transaction was applied as a whole
		// or not at all, and a second transaction fails if the first was applied.
		failure = fmt.Errorf("make namespace %s: %w", name, err)
		if err := store.Pause(ctx, n); err != nil {
			return "", errors.Join(failure, err)
		}
	}
	return "", failure
}

// draw returns a new namespace with a random id.
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

// namespaceDeleted returns the error of requests in a deleted namespace.
func namespaceDeleted(n *table.Namespace) *api.Error {
	if n.PurgeMs != 0 {
		return api.Errorf(api.CodeUnknownNamespace, "", "the namespace %q is deleted and being purged", n.Name)
	}
	return api.Errorf(api.CodeUnknownNamespace, "",
		"the namespace %q is deleted; an operator can recover it, with all it holds: tidegate namespace recover %s", n.Name, n.Name)
}

// wireNamespace returns an entry as the wire shows it.
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
