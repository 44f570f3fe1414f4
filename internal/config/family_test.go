package config_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// model is who stands above whom, kept the simple way.
type model map[string]string // parent by id; those that are there

// levelsAbove counts no further than to one too many.
func (m model) levelsAbove(id string) int {
	n := 0
	for p, ok := m[id]; ok && p != "" && n < api.MaxLevels; p, ok = m[p] {
		n++
	}
	return n
}

// good reports whether there is no cycle and no fifth level.
func (m model) good() bool {
	for id := range m {
		if m.levelsAbove(id) >= api.MaxLevels {
			return false // a cycle has levels without end
		}
	}
	return true
}

func (m model) with(id, parent string) model {
	next := model{}
	for k, v := range m {
		next[k] = v
	}
	next[id] = parent
	return next
}

// below counts by level, as items do.
func (m model) below(id string) (n [api.MaxLevels - 1]int64) {
	for other := range m {
		p := other
		for distance := range api.MaxLevels {
			if p = m[p]; p == "" {
				break
			}
			if p == id {
				n[distance]++
				break
			}
		}
	}
	return n
}

// Any sequence of changes leaves what a model says, and each is refused where
// the model says that it must be.
func TestFamiliesFollowTheModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := newEntityFixture(t)
		ids := []string{"a", "b", "c", "d", "e", "f"}
		there := model{}
		for range rapid.IntRange(1, 20).Draw(r, "changes") {
			id := rapid.SampledFrom(ids).Draw(r, "id")
			parent := rapid.SampledFrom(append(ids, "")).Draw(r, "parent")
			_, known := there[id]
			_, hasParent := there[parent]
			next := there.with(id, parent)
			movable := parent == "" || parent != id && hasParent && next.good()
			var err error
			var want bool
			switch rapid.SampledFrom([]string{"create", "move", "delete", "orphan"}).Draw(r, "change") {
			case "create":
				want = !known && movable
				_, err = f.store.Create(t.Context(), ns, by(), api.EntityCreateRequest{ID: id, Parent: parent})
			case "move":
				want = known && (movable || there[id] == parent) // an orphan may keep its parent
				_, err = f.store.Update(t.Context(), ns, by(), under(id, parent))
			case "delete":
				want = known && there.below(id)[0] == 0
				next = there.with(id, "")
				delete(next, id)
				err = f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: id})
			case "orphan":
				want = known
				next = there.with(id, "")
				delete(next, id)
				err = f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: id, Orphan: true})
			}
			if !want {
				var refusal *api.Error
				require.ErrorAs(r, err, &refusal, "%s under %s in %v: %v", id, parent, there, err)
				continue
			}
			require.NoError(r, err)
			there = next
		}
		for _, id := range ids {
			parent, known := there[id]
			e := f.item(id)
			if e == nil {
				require.False(r, known)
				require.Zero(r, there.below(id)[0])
				continue
			}
			require.Equal(r, known, e.Version > 0)
			require.Equal(r, parent, e.Parent)
			require.Equal(r, there.below(id), e.Below, "%s in %v", id, there)
			require.Len(r, f.children(id, 0), int(e.Below[0]))
		}
	})
}

// fill stores entities without their changes; every third is a child of acme.
func (f *entityFixture) fill(n int) {
	f.t.Helper()
	var batch []types.WriteRequest
	for i := range n {
		e := &table.Entity{Key: keys.Entity{Namespace: ns, ID: fmt.Sprintf("e%05d", i)}, Version: 1}
		if i%3 == 0 {
			e.Parent = "acme"
		}
		batch = append(batch, types.WriteRequest{PutRequest: &types.PutRequest{Item: table.EncodeEntity(e)}})
		if len(batch) == 25 || i == n-1 {
			_, err := f.Direct.BatchWriteItem(f.t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{f.Table: batch}})
			require.NoError(f.t, err)
			batch = nil
		}
	}
}

func TestListsPageThroughTenThousandEntities(t *testing.T) {
	const all = 10_000
	f := newEntityFixture(t)
	f.fill(all)
	var everybody, children []string
	for i := range all {
		everybody = append(everybody, fmt.Sprintf("e%05d", i))
		if i%3 == 0 {
			children = append(children, everybody[i])
		}
	}
	list := func(req api.EntityListRequest) (api.EntityListReply, error) {
		return f.store.List(t.Context(), ns, req)
	}
	require.ElementsMatch(t, everybody, f.pages(api.MaxPage, list))
	require.Equal(t, children, f.children("acme", 0), "in order")
	require.Equal(t, children, f.children("acme", 7))
	require.Empty(t, f.children("e00000", 0))
	require.Empty(t, f.children("acm", 0))
	reply, err := f.store.Children(t.Context(), otherNs, api.EntityChildrenRequest{ID: "acme"})
	require.NoError(t, err)
	require.Empty(t, reply.Entities, "another namespace has its own")
}

// A cursor leads to no other namespace.
func TestForeignCursorsAreRefused(t *testing.T) {
	f := newEntityFixture(t)
	f.fill(9)
	reply, err := f.store.Children(t.Context(), ns, api.EntityChildrenRequest{ID: "acme", EntityListRequest: api.EntityListRequest{Limit: 1}})
	require.NoError(t, err)
	require.NotEmpty(t, reply.Cursor)
	_, err = f.store.List(t.Context(), otherNs, api.EntityListRequest{Cursor: reply.Cursor})
	require.Equal(t, "cursor", requireCode(t, api.CodeInvalidCursor, err).Field)
}

// A child that has left by the time it is read is not shown; stubs never are.
func TestListsShowWhatIsThere(t *testing.T) {
	f := newEntityFixture(t)
	f.create("acme", "")
	f.create("alice", "acme")
	f.create("bob", "acme")
	f.Before("BatchGetItem", func() { f.update(under("alice", "")) })
	require.Equal(t, []string{"bob"}, f.children("acme", 0))
	require.NoError(t, f.other.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "acme", Orphan: true}))
	list := func(req api.EntityListRequest) (api.EntityListReply, error) {
		return f.store.List(t.Context(), ns, req)
	}
	require.ElementsMatch(t, []string{"alice", "bob"}, f.pages(0, list))
}

func TestDamageIsTold(t *testing.T) {
	f := newEntityFixture(t)
	f.create("acme", "")
	item := table.KeyItem(keys.Entity{Namespace: ns, ID: "acme"}.Key())
	item["version"] = text("one")
	_, err := f.Direct.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &f.Table, Item: item})
	require.NoError(t, err)
	_, err = f.store.Get(t.Context(), ns, "acme")
	require.ErrorIs(t, err, table.ErrDamaged)
	_, err = f.store.Create(t.Context(), ns, by(), api.EntityCreateRequest{ID: "alice", Parent: "acme"})
	require.ErrorIs(t, err, table.ErrDamaged)
}
