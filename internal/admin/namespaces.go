package admin

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/pkg/api"
)

// changeNamespace is what the verbs that change a namespace do: they tell all
// nodes what was changed, or may have been.
func changeNamespace[R any](a *Admin, do func(context.Context, string, api.Principal) (R, error)) func(context.Context, Namespace, api.NamespaceRequest) (R, error) {
	return func(ctx context.Context, ns Namespace, q api.NamespaceRequest) (R, error) {
		reply, err := do(ctx, q.Name, ns.By)
		if err == nil || errors.Is(err, audit.ErrOutcomeUnknown) {
			a.namespaceChanged(ctx, q.Name)
		}
		return reply, err
	}
}

// namespaceChanged makes all nodes ask the registry about a namespace again.
// That it fails does not undo the change: nodes ask again by age.
func (a *Admin) namespaceChanged(ctx context.Context, name string) {
	data, err := json.Marshal(api.NamespaceChange{Name: name})
	if err == nil {
		err = a.publish(api.ConfigSubject(api.OperatorNamespace), data)
	}
	if err != nil {
		a.log.WarnContext(ctx, "a changed namespace was not broadcast: nodes will notice within a minute", "namespace", name, "error", err)
	}
}

func (a *Admin) namespaceGet(ctx context.Context, _ Namespace, q api.NamespaceRequest) (api.Namespace, error) {
	return a.namespaces.Get(ctx, q.Name)
}

func (a *Admin) namespaceList(ctx context.Context, _ Namespace, q api.NamespaceListRequest) (api.NamespaceListReply, error) {
	return a.namespaces.List(ctx, q)
}
