package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

type entityFixture struct {
	*tabletest.Bench
	t     testing.TB
	store *config.EntityStore
	other *config.EntityStore // past all faults: another node
	log   *audit.Log          // of the other
}

func newEntityFixture(t testing.TB) *entityFixture {
	t.Helper()
	b := tabletest.New(t)
	log := audit.NewLog(b.Direct, b.Table, b.Now)
	return &entityFixture{
		Bench: b, t: t, log: log,
		store: config.NewEntityStore(b.DB, b.Table, audit.NewLog(b.DB, b.Table, b.Now)),
		other: config.NewEntityStore(b.Direct, b.Table, log),
	}
}

// create makes an entity as another node would; its parent may be empty.
func (f *entityFixture) create(id, parent string) {
	f.t.Helper()
	_, err := f.other.Create(f.t.Context(), ns, by(), api.EntityCreateRequest{ID: id, Parent: parent})
	require.NoError(f.t, err)
}

// under is the request that gives an entity another parent.
func under(id, parent string) api.EntityUpdateRequest {
	return api.EntityUpdateRequest{ID: id, Parent: &parent}
}

// item is an entity's item; nil where there is none.
func (f *entityFixture) item(id string) *table.Entity {
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
func (f *entityFixture) events() []api.AuditEvent {
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
func (f *entityFixture) children(id string, n int64) []string {
	f.t.Helper()
	req := api.EntityChildrenRequest{ID: id}
	return f.pages(n, func(page api.EntityListRequest) (api.EntityListReply, error) {
		req.EntityListRequest = page
		return f.store.Children(f.t.Context(), ns, req)
	})
}

func (f *entityFixture) pages(n int64, read func(api.EntityListRequest) (api.EntityListReply, error)) []string {
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
