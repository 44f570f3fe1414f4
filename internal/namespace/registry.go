package namespace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// ensureAttempts is how often Ensure looks again after a failed write. Each time
// somebody else made the namespace, or the write can be repeated.
const ensureAttempts = 5

// Registry reads and makes namespaces. It is safe for concurrent use, by any
// number of nodes.
type Registry struct {
	client *dynamodb.Client
	table  string
	random io.Reader // makes ids; safe for concurrent use
}

// NewRegistry returns the registry of a table.
func NewRegistry(client *dynamodb.Client, tableName string) *Registry {
	return &Registry{client: client, table: tableName, random: rand.Reader}
}

// Lookup gives the id of a namespace, by one consistent read. It fails with an
// *api.Error of the code unknown_namespace where there is none, and of the code
// invalid_namespace, without a read, for what cannot be a name. Every other
// error means that it is not known.
func (r *Registry) Lookup(ctx context.Context, name string) (string, error) {
	if err := api.CheckNamespace(name); err != nil {
		return "", err
	}
	out, err := r.client.GetItem(ctx, table.ReadInput(r.table, keys.NamespaceName{Name: name}.Key()))
	if err != nil {
		return "", fmt.Errorf("look up namespace %s: %w", name, err)
	}
	if len(out.Item) == 0 {
		return "", api.Errorf(api.CodeUnknownNamespace, "", "there is no namespace %q", name)
	}
	n, err := table.DecodeNamespace(out.Item)
	if err != nil {
		return "", fmt.Errorf("look up namespace %s: %w", name, err)
	}
	return n.ID, nil
}

// Ensure gives the id of a namespace and makes the namespace where there is
// none. It may be called at every start, by several nodes at once: all get the
// same id. After an error it may be called again.
func (r *Registry) Ensure(ctx context.Context, name string) (string, error) {
	var failure error
	for n := range ensureAttempts {
		id, err := r.Lookup(ctx, name)
		if !isUnknown(err) {
			return id, err
		}
		id, err = r.create(ctx, name)
		if err == nil {
			return id, nil
		}
		// Whatever failed (the name was taken meanwhile, the id is, the answer was
		// lost), looking again tells: the transaction was applied as a whole or not
		// at all, and a second one fails where the first was.
		failure = err
		if err := table.Pause(ctx, n); err != nil {
			return "", errors.Join(failure, err)
		}
	}
	return "", failure
}

func (r *Registry) create(ctx context.Context, name string) (string, error) {
	id, err := keys.NewNamespaceID(r.random)
	if err != nil {
		return "", err
	}
	in := table.CreateNamespaceInput(r.table, table.Namespace{Name: name, ID: id})
	if _, err := r.client.TransactWriteItems(ctx, in); err != nil {
		return "", fmt.Errorf("make namespace %s: %w", name, err)
	}
	return id, nil
}

func isUnknown(err error) bool {
	var refusal *api.Error
	return errors.As(err, &refusal) && refusal.Code == api.CodeUnknownNamespace
}
