package entities_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/entities"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	ns      = "AAAAAAAAAAA"
	otherNs = "AAAAAAAAAAE"
)

func by() api.Principal { return api.Principal{User: "ops"} }

type fixture struct {
	*tabletest.Bench
	t     testing.TB
	store *entities.Store
	other *entities.Store // past all faults: another node
	log   *audit.Log      // of the other
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	b := tabletest.New(t)
	log := audit.NewLog(b.Direct, b.Table, b.Now)
	return &fixture{
		Bench: b, t: t, log: log,
		store: entities.NewStore(b.DB, b.Table, audit.NewLog(b.DB, b.Table, b.Now)),
		other: entities.NewStore(b.Direct, b.Table, log),
	}
}

// create makes an entity as another node would; its parent may be empty.
func (f *fixture) create(id, parent string) {
	f.t.Helper()
	_, err := f.other.Create(f.t.Context(), ns, by(), api.EntityCreateRequest{ID: id, Parent: parent})
	require.NoError(f.t, err)
}

// under is the request that gives an entity another parent.
func under(id, parent string) api.EntityUpdateRequest {
	return api.EntityUpdateRequest{ID: id, Parent: &parent}
}

// item is an entity's item; nil where there is none.
func (f *fixture) item(id string) *table.Entity {
	f.t.Helper()
	out, err := f.Direct.GetItem(f.t.Context(), table.ReadInput(f.Table, keys.Entity{Namespace: ns, ID: id}.Key()))
	require.NoError(f.t, err)
	if len(out.Item) == 0 {
		return nil
	}
	e, err := table.DecodeEntity(out.Item)
	require.NoError(f.t, err)
	return e
}

// events are the audit events, the oldest first.
func (f *fixture) events() []api.AuditEvent {
	f.t.Helper()
	var found []api.AuditEvent
	for req := (api.AuditListRequest{Limit: api.MaxPage}); ; {
		reply, err := f.log.List(f.t.Context(), ns, req)
		require.NoError(f.t, err)
		found = append(reply.Events, found...) // a page comes newest first; a test has one page
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			break
		}
	}
	for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
		found[i], found[j] = found[j], found[i]
	}
	for i, e := range found {
		require.EqualValues(f.t, i+1, e.Sequence, "no change without its event, no event without its change")
	}
	return found
}

// children are all children of an entity, n a page at most.
func (f *fixture) children(id string, n int64) []string {
	f.t.Helper()
	req := api.EntityChildrenRequest{ID: id}
	return f.pages(n, func(page api.EntityListRequest) (api.EntityListReply, error) {
		req.EntityListRequest = page
		return f.store.Children(f.t.Context(), ns, req)
	})
}

func (f *fixture) pages(n int64, read func(api.EntityListRequest) (api.EntityListReply, error)) []string {
	f.t.Helper()
	found := []string{}
	for req := (api.EntityListRequest{Limit: n}); ; {
		reply, err := read(req)
		require.NoError(f.t, err)
		require.NotNil(f.t, reply.Entities, "an array on the wire")
		if n > 0 {
			require.LessOrEqual(f.t, len(reply.Entities), int(n))
		}
		for _, e := range reply.Entities {
			found = append(found, e.ID)
		}
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return found
		}
	}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func requireCode(t testing.TB, want api.Code, err error) *api.Error {
	t.Helper()
	var refusal *api.Error
	if !errors.As(err, &refusal) {
		require.Failf(t, "not an api.Error", "want %s, got %v", want, err)
	}
	require.Equal(t, want, refusal.Code, "%v", err)
	return refusal
}
