package config_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/pkg/api"
)

func TestAnEntitysLife(t *testing.T) {
	f := newEntityFixture(t)
	f.create("acme", "")
	_, err := f.store.Get(t.Context(), ns, "alice")
	requireCode(t, api.CodeNotFound, err)

	request := api.EntityCreateRequest{ID: "alice", Name: "Alice", Parent: "acme", Cascade: true, Metadata: map[string]string{"team": "search"}}
	made, err := f.store.Create(t.Context(), ns, by(), request)
	require.NoError(t, err)
	want := api.Entity{ID: "alice", Name: "Alice", Parent: "acme", Cascade: true, Metadata: map[string]string{"team": "search"}, Version: 1}
	require.Equal(t, want, made)
	_, err = f.store.Create(t.Context(), ns, by(), request)
	require.Equal(t, "entity", requireCode(t, api.CodeAlreadyExists, err).Field)

	name, no := "Al", false
	want.Name, want.Version = name, 2
	changed, err := f.store.Update(t.Context(), ns, by(), api.EntityUpdateRequest{ID: "alice", Name: &name, Version: 1})
	require.NoError(t, err)
	require.Equal(t, want, changed, "what is not named stays")
	_, err = f.store.Update(t.Context(), ns, by(), api.EntityUpdateRequest{ID: "alice", Name: &name, Version: 1})
	require.Equal(t, "version", requireCode(t, api.CodeConflict, err).Field)

	want.Cascade, want.Metadata, want.Version = false, nil, 3
	_, err = f.store.Update(t.Context(), ns, by(), api.EntityUpdateRequest{ID: "alice", Cascade: &no, Metadata: map[string]string{}})
	require.NoError(t, err)
	got, err := f.store.Get(t.Context(), ns, "alice")
	require.NoError(t, err)
	require.Equal(t, want, got)

	requireCode(t, api.CodeHasChildren, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "acme"}))
	require.NoError(t, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "alice"}))
	require.Nil(t, f.item("alice"))
	requireCode(t, api.CodeNotFound, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "alice"}))
	require.NoError(t, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "acme"}))
	require.Nil(t, f.item("acme"))

	var told []string
	for _, e := range f.events() {
		told = append(told, string(e.Action)+" "+e.Target)
		require.Equal(t, e.Action == api.AuditEntityCreate, e.Before == nil)
		require.Equal(t, e.Action == api.AuditEntityDelete, e.After == nil)
	}
	require.Equal(t, []string{
		"entity.create acme", "entity.create alice", "entity.update alice", "entity.update alice",
		"entity.delete alice", "entity.delete acme",
	}, told)
	var after api.Entity
	require.NoError(t, json.Unmarshal(f.events()[3].After, &after))
	require.Equal(t, want, after)
}

func TestTakingTheParentAwayEndsTheCascade(t *testing.T) {
	f := newEntityFixture(t)
	f.create("acme", "")
	_, err := f.store.Create(t.Context(), ns, by(), api.EntityCreateRequest{ID: "alice", Parent: "acme", Cascade: true})
	require.NoError(t, err)
	alone, err := f.store.Update(t.Context(), ns, by(), under("alice", ""))
	require.NoError(t, err)
	require.Equal(t, api.Entity{ID: "alice", Version: 2}, alone)
	require.Empty(t, f.children("acme", 0))
	yes := true
	_, err = f.store.Update(t.Context(), ns, by(), api.EntityUpdateRequest{ID: "alice", Cascade: &yes})
	require.Equal(t, "parent", requireCode(t, api.CodeMissingField, err).Field)
}

func TestFamiliesAreBounded(t *testing.T) {
	f := newEntityFixture(t)
	for _, e := range [][2]string{{"a", ""}, {"b", "a"}, {"c", "b"}, {"d", "c"}, {"x", ""}, {"y", "x"}} {
		f.create(e[0], e[1])
	}
	for name, c := range map[string]struct {
		request api.EntityUpdateRequest
		code    api.Code
	}{
		"itself":                   {under("a", "a"), api.CodeInvalidParent},
		"a child":                  {under("a", "b"), api.CodeInvalidParent},
		"the lowest":               {under("a", "d"), api.CodeInvalidParent},
		"a fifth level":            {under("x", "d"), api.CodeInvalidParent},
		"a fifth level below":      {under("x", "c"), api.CodeInvalidParent},
		"a fifth level from above": {under("a", "x"), api.CodeInvalidParent},
		"nobody":                   {under("a", "nobody"), api.CodeNotFound},
	} {
		_, err := f.store.Update(t.Context(), ns, by(), c.request)
		require.Equal(t, "parent", requireCode(t, c.code, err).Field, name)
	}
	_, err := f.store.Create(t.Context(), ns, by(), api.EntityCreateRequest{ID: "e", Parent: "d"})
	requireCode(t, api.CodeInvalidParent, err)
	_, err = f.store.Create(t.Context(), ns, by(), api.EntityCreateRequest{ID: "e", Parent: "nobody"})
	requireCode(t, api.CodeNotFound, err)
	require.Len(t, f.events(), 6)

	_, err = f.store.Update(t.Context(), ns, by(), under("x", "b"))
	require.NoError(t, err, "four levels are as many as there can be")
	_, err = f.store.Update(t.Context(), ns, by(), under("d", ""))
	require.NoError(t, err)
	require.NoError(t, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "y"}))
	_, err = f.store.Update(t.Context(), ns, by(), under("d", "x"))
	require.NoError(t, err, "what left makes room")
}

// The parent of orphans is not there, and still counts them; it may come back.
func TestOrphans(t *testing.T) {
	f := newEntityFixture(t)
	f.create("top", "")
	f.create("acme", "top")
	f.create("alice", "acme")
	require.NoError(t, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "acme", Orphan: true}))
	_, err := f.store.Get(t.Context(), ns, "acme")
	requireCode(t, api.CodeNotFound, err)
	require.Equal(t, []string{"alice"}, f.children("acme", 0))
	requireCode(t, api.CodeNotFound, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "acme"}))
	_, err = f.store.Update(t.Context(), ns, by(), under("top", "acme"))
	requireCode(t, api.CodeNotFound, err)
	require.NoError(t, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "top"}), "acme is below it no more")

	_, err = f.store.Create(t.Context(), ns, by(), api.EntityCreateRequest{ID: "acme", Parent: "alice"})
	requireCode(t, api.CodeInvalidParent, err)
	f.create("acme", "")
	requireCode(t, api.CodeHasChildren, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "acme"}))

	require.NoError(t, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "acme", Orphan: true}))
	require.NoError(t, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "alice"}))
	require.Nil(t, f.item("acme"), "nothing is left once its last child is gone")
}

func TestBadRequestsAreRefusedBeforeAnyIO(t *testing.T) {
	f := newEntityFixture(t)
	many := map[string]string{}
	for i := range api.MaxMetadata + 1 {
		many[fmt.Sprintf("k%d", i)] = ""
	}
	for name, c := range map[string]struct {
		request api.EntityCreateRequest
		code    api.Code
		field   string
	}{
		"no id":         {api.EntityCreateRequest{}, api.CodeInvalidEntity, "entity"},
		"bad id":        {api.EntityCreateRequest{ID: "a\tb"}, api.CodeInvalidEntity, "entity"},
		"bad parent":    {api.EntityCreateRequest{ID: "a", Parent: "a\tb"}, api.CodeInvalidEntity, "parent"},
		"own parent":    {api.EntityCreateRequest{ID: "a", Parent: "a"}, api.CodeInvalidParent, "parent"},
		"cascade alone": {api.EntityCreateRequest{ID: "a", Cascade: true}, api.CodeMissingField, "parent"},
		"long name":     {api.EntityCreateRequest{ID: "a", Name: strings.Repeat("x", 129)}, api.CodeInvalidName, "name"},
		"bad name":      {api.EntityCreateRequest{ID: "a", Name: "a\nb"}, api.CodeInvalidName, "name"},
		"no UTF-8":      {api.EntityCreateRequest{ID: "a", Name: "\xff"}, api.CodeInvalidName, "name"},
		"many entries":  {api.EntityCreateRequest{ID: "a", Metadata: many}, api.CodeInvalidMetadata, "metadata"},
		"bad key":       {api.EntityCreateRequest{ID: "a", Metadata: map[string]string{"a b": ""}}, api.CodeInvalidMetadata, "metadata"},
		"no key":        {api.EntityCreateRequest{ID: "a", Metadata: map[string]string{"": "x"}}, api.CodeInvalidMetadata, "metadata"},
		"long value":    {api.EntityCreateRequest{ID: "a", Metadata: map[string]string{"k": strings.Repeat("x", 257)}}, api.CodeInvalidMetadata, "metadata.k"},
	} {
		_, err := f.store.Create(t.Context(), ns, by(), c.request)
		require.Equal(t, c.field, requireCode(t, c.code, err).Field, name)
	}
	yes, nobody, bad := true, "", "a\tb"
	for name, c := range map[string]struct {
		request api.EntityUpdateRequest
		code    api.Code
		field   string
	}{
		"nothing":      {api.EntityUpdateRequest{ID: "a"}, api.CodeMissingField, ""},
		"bad parent":   {api.EntityUpdateRequest{ID: "a", Parent: &bad}, api.CodeInvalidEntity, "parent"},
		"contradicted": {api.EntityUpdateRequest{ID: "a", Parent: &nobody, Cascade: &yes}, api.CodeMissingField, "parent"},
		"bad version":  {api.EntityUpdateRequest{ID: "a", Cascade: &yes, Version: -1}, api.CodeInvalidVersion, "version"},
	} {
		_, err := f.store.Update(t.Context(), ns, by(), c.request)
		require.Equal(t, c.field, requireCode(t, c.code, err).Field, name)
	}
	_, err := f.store.Get(t.Context(), ns, "a\tb")
	requireCode(t, api.CodeInvalidEntity, err)
	requireCode(t, api.CodeMissingField, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{}))
	_, err = f.store.Children(t.Context(), ns, api.EntityChildrenRequest{})
	requireCode(t, api.CodeMissingField, err)
	require.Zero(t, f.Calls(""))
}

// Two changes that are each right and together a cycle, or a level too many, are
// not both made, however they meet.
func TestWhatIsMadeAtOnceIsRefusedAsWell(t *testing.T) {
	for name, c := range map[string]struct {
		family    [][2]string
		meanwhile func(f *entityFixture)
		request   api.EntityUpdateRequest
		code      api.Code
	}{
		"a cycle": {
			[][2]string{{"a", ""}, {"b", ""}},
			func(f *entityFixture) { f.update(under("b", "a")) },
			under("a", "b"), api.CodeInvalidParent,
		},
		"a cycle further up": {
			[][2]string{{"a", ""}, {"b", ""}, {"c", "b"}},
			func(f *entityFixture) { f.update(under("b", "a")) },
			under("a", "c"), api.CodeInvalidParent,
		},
		"a level above": {
			[][2]string{{"top", ""}, {"a", ""}, {"b", "a"}, {"x", ""}, {"y", "x"}},
			func(f *entityFixture) { f.update(under("a", "top")) },
			under("x", "b"), api.CodeInvalidParent,
		},
		"a level below": {
			[][2]string{{"a", ""}, {"b", "a"}, {"x", ""}, {"y", "x"}},
			func(f *entityFixture) { f.create("z", "y") },
			under("x", "b"), api.CodeInvalidParent,
		},
		"the parent goes": {
			[][2]string{{"a", ""}, {"b", ""}},
			func(f *entityFixture) {
				require.NoError(f.t, f.other.Delete(f.t.Context(), ns, by(), api.EntityDeleteRequest{ID: "b"}))
			},
			under("a", "b"), api.CodeNotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEntityFixture(t)
			for _, e := range c.family {
				f.create(e[0], e[1])
			}
			f.Before("TransactWriteItems", func() { c.meanwhile(f) })
			_, err := f.store.Update(t.Context(), ns, by(), c.request)
			require.Equal(t, "parent", requireCode(t, c.code, err).Field)
			require.Len(t, f.events(), len(c.family)+1)
		})
	}
	f := newEntityFixture(t)
	f.create("a", "")
	f.Before("TransactWriteItems", func() { f.create("b", "a") })
	requireCode(t, api.CodeHasChildren, f.store.Delete(t.Context(), ns, by(), api.EntityDeleteRequest{ID: "a"}))
	f.Before("TransactWriteItems", func() { f.create("c", "") })
	_, err := f.store.Create(t.Context(), ns, by(), api.EntityCreateRequest{ID: "c"})
	requireCode(t, api.CodeAlreadyExists, err)
}

func (f *entityFixture) update(request api.EntityUpdateRequest) {
	f.t.Helper()
	_, err := f.other.Update(f.t.Context(), ns, by(), request)
	require.NoError(f.t, err)
}

// Every step of a change with ancestors may fail in every way: it is made as a
// whole, once, or not at all.
func TestNoChangeIsHalfMade(t *testing.T) {
	changes := map[string]func(f *entityFixture) error{
		"create": func(f *entityFixture) error {
			_, err := f.store.Create(f.t.Context(), ns, by(), api.EntityCreateRequest{ID: "new", Parent: "c"})
			return err
		},
		"move": func(f *entityFixture) error {
			_, err := f.store.Update(f.t.Context(), ns, by(), under("c", "a2"))
			return err
		},
		"delete": func(f *entityFixture) error {
			return f.store.Delete(f.t.Context(), ns, by(), api.EntityDeleteRequest{ID: "c"})
		},
		"orphan": func(f *entityFixture) error {
			return f.store.Delete(f.t.Context(), ns, by(), api.EntityDeleteRequest{ID: "b", Orphan: true})
		},
	}
	prepare := func(t *testing.T) *entityFixture {
		f := newEntityFixture(t)
		for _, e := range [][2]string{{"a", ""}, {"a2", ""}, {"b", "a"}, {"c", "b"}} {
			f.create(e[0], e[1])
		}
		return f
	}
	family := func(f *entityFixture) (all []string) {
		for _, id := range []string{"a", "a2", "b", "c", "new"} {
			if e := f.item(id); e != nil {
				all = append(all, fmt.Sprint(id, e.Parent, e.Version, e.Below))
			}
		}
		return all
	}
	for name, change := range changes {
		clean := prepare(t)
		before := family(clean)
		require.NoError(t, change(clean))
		after := family(clean)
		for what, failure := range map[string]fault.Fault{
			"failed": fault.InternalError(), "applied": fault.InternalErrorAfter(), "lost": {Kind: fault.ReplyLost},
			"unreachable": {Kind: fault.Unreachable}, "throttled": fault.Throttling(),
		} {
			for _, operation := range []string{"GetItem", "BatchGetItem", "TransactWriteItems"} {
				for nth := range 4 {
					t.Run(fmt.Sprintf("%s: %s %d %s", name, operation, nth, what), func(t *testing.T) {
						f := prepare(t)
						f.Fail(operation, slices.Repeat([]fault.Fault{{}}, nth)...)
						f.Fail(operation, failure)
						made := 5
						if err := change(f); err != nil {
							require.NotErrorIs(t, err, audit.ErrOutcomeUnknown)
							require.Equal(t, before, family(f))
							made = 4
						} else {
							require.Equal(t, after, family(f))
						}
						require.Len(t, f.events(), made)
					})
				}
			}
		}
	}
}

func TestAnOutageLeavesTheOutcomeOfAnEntityUnknown(t *testing.T) {
	f := newEntityFixture(t)
	f.Fail("TransactWriteItems", fault.Fault{Kind: fault.ReplyLost})
	f.Fail("TransactWriteItems", slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, 100)...)
	ctx := f.EndAt(t.Context(), "TransactWriteItems", 3, 0)
	_, err := f.store.Create(ctx, ns, by(), api.EntityCreateRequest{ID: "alice"})
	require.ErrorIs(t, err, audit.ErrOutcomeUnknown)
	require.NotNil(t, f.item("alice"))
}

// Many nodes make children of one parent at once: none is lost, and all are
// counted.
func TestChildrenMadeAtOnceAreAllCounted(t *testing.T) {
	f := newEntityFixture(t)
	f.create("top", "")
	f.create("acme", "top")
	var all sync.WaitGroup
	const children = 32
	for i := range children {
		all.Go(func() {
			store := []interface {
				Create(context.Context, string, api.Principal, api.EntityCreateRequest) (api.Entity, error)
			}{f.store, f.other}[i%2]
			if _, err := store.Create(t.Context(), ns, by(), api.EntityCreateRequest{ID: fmt.Sprintf("key-%d", i), Parent: "acme"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, f.children("acme", 0), children)
	require.Equal(t, [3]int64{children, 0, 0}, f.item("acme").Below)
	require.Equal(t, [3]int64{1, children, 0}, f.item("top").Below)
	require.EqualValues(t, 1, f.item("acme").Version, "to get children is no change of the entity")
	require.Len(t, f.events(), children+2)
}
