package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

type entityCreateCmd struct {
	clientFlags
	Parent  string   `name:"parent" placeholder:"ID" help:"Parent entity, which must exist."`
	Cascade bool     `name:"cascade" help:"Cascade: its acquires also spend from its parent."`
	Name    string   `name:"name" placeholder:"NAME" help:"Display name."`
	Meta    []string `name:"meta" sep:"none" placeholder:"KEY=VALUE" help:"Metadata; repeatable."`
	Entity  string   `arg:"" help:"Id of the entity: an API key, a user, an organisation."`
}

// Run creates and prints the entity.
func (c entityCreateCmd) Run(ctx context.Context, o output) error {
	meta, err := parseMeta(c.Meta)
	if err != nil {
		return usageError{err}
	}
	q := api.EntityCreateRequest{ID: c.Entity, Name: c.Name, Parent: c.Parent, Cascade: c.Cascade, Metadata: meta}
	if err := q.Check(); err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		e, err := client.Admin().CreateEntity(ctx, q)
		if err != nil {
			return err
		}
		return o.entity(e)
	})
}

// parseMeta parses KEY=VALUE entries; it returns nil for an empty list.
func parseMeta(texts []string) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil //nolint:nilnil // no entries are no error
	}
	meta := make(map[string]string, len(texts))
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("--meta %q: write an entry as key=value, such as team=search", text)
		}
		if _, twice := meta[key]; twice {
			return nil, fmt.Errorf("--meta %s is given twice", key)
		}
		meta[key] = value
	}
	return meta, nil
}

type entityGetCmd struct {
	clientFlags
	Entity string `arg:"" help:"Id of the entity."`
}

// Run prints an entity.
func (c entityGetCmd) Run(ctx context.Context, o output) error {
	if err := api.CheckEntity(c.Entity); err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		e, err := client.Admin().GetEntity(ctx, c.Entity)
		if err != nil {
			return err
		}
		return o.entity(e)
	})
}

type entityUpdateCmd struct {
	clientFlags
	Parent    *string  `name:"parent" placeholder:"ID" help:"Parent entity."`
	NoParent  bool     `name:"no-parent" help:"Remove the parent, and the cascade with it."`
	Cascade   *bool    `name:"cascade" negatable:"" help:"Cascade: whether its acquires also spend from its parent."`
	Name      *string  `name:"name" placeholder:"NAME" help:"Display name."`
	Meta      []string `name:"meta" sep:"none" placeholder:"KEY=VALUE" help:"Replace all metadata; repeatable."`
	NoMeta    bool     `name:"no-meta" help:"Remove all metadata."`
	IfVersion int64    `name:"if-version" placeholder:"N" help:"Change it only if it has this version."`
	Entity    string   `arg:"" help:"Id of the entity."`
}

// Run changes and prints the entity.
func (c entityUpdateCmd) Run(ctx context.Context, o output) error {
	q, err := c.request()
	if err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		e, err := client.Admin().UpdateEntity(ctx, q)
		if err != nil {
			return err
		}
		return o.entity(e)
	})
}

func (c entityUpdateCmd) request() (q api.EntityUpdateRequest, err error) {
	if c.NoParent && c.Parent != nil || c.NoMeta && len(c.Meta) > 0 {
		return q, errors.New("--no-parent and --parent, --no-meta and --meta contradict each other")
	}
	q = api.EntityUpdateRequest{ID: c.Entity, Parent: c.Parent, Cascade: c.Cascade, Name: c.Name, Version: c.IfVersion}
	if c.NoParent {
		q.Parent = new(string)
	}
	if q.Metadata, err = parseMeta(c.Meta); err != nil {
		return q, err
	}
	if c.NoMeta {
		q.Metadata = map[string]string{}
	}
	return q, q.Check()
}

type entityDeleteCmd struct {
	clientFlags
	Orphan bool   `name:"orphan" help:"Delete it even if it has children; they keep it as their parent."`
	Entity string `arg:"" help:"Id of the entity."`
}

// Run deletes an entity.
func (c entityDeleteCmd) Run(ctx context.Context, o output) error {
	if err := api.CheckEntity(c.Entity); err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		if err := client.Admin().DeleteEntity(ctx, api.EntityDeleteRequest{ID: c.Entity, Orphan: c.Orphan}); err != nil {
			return err
		}
		return o.write(api.EntityDeleteReply{Deleted: true}, func(p *page) {
			p.line("%s is no entity any more; its limits and balances stay", c.Entity)
		})
	})
}

type entityChildrenCmd struct {
	clientFlags
	Entity string `arg:"" help:"The parent's id."`
}

// Run prints all pages as a single list.
func (c entityChildrenCmd) Run(ctx context.Context, o output) error {
	if err := api.CheckEntity(c.Entity); err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		return o.entities(c.Entity+" has no children", func(q api.EntityListRequest) (api.EntityListReply, error) {
			return client.Admin().ListChildren(ctx, api.EntityChildrenRequest{ID: c.Entity, EntityListRequest: q})
		})
	})
}

type entityListCmd struct{ clientFlags }

// Run prints all pages as a single list.
func (c entityListCmd) Run(ctx context.Context, o output) error {
	return c.client(func(client *tidegate.Client) error {
		return o.entities("nobody created an entity; that is not needed to spend", func(q api.EntityListRequest) (api.EntityListReply, error) {
			return client.Admin().ListEntities(ctx, q)
		})
	})
}

// entities reads all pages and prints them as a single list, or reports that it is empty.
func (o output) entities(none string, read func(api.EntityListRequest) (api.EntityListReply, error)) error {
	all := api.EntityListReply{Entities: []api.Entity{}}
	for query := (api.EntityListRequest{Limit: api.MaxPage}); ; {
		part, err := read(query)
		if err != nil {
			return err
		}
		all.Entities = append(all.Entities, part.Entities...)
		if query.Cursor = part.Cursor; query.Cursor == "" {
			break
		}
	}
	slices.SortFunc(all.Entities, func(a, b api.Entity) int { return cmp.Compare(a.ID, b.ID) })
	return o.write(all, func(p *page) {
		if len(all.Entities) == 0 {
			p.line("%s", none)
			return
		}
		printEntities(p, all.Entities)
	})
}

func (o output) entity(e api.Entity) error {
	return o.write(e, func(p *page) { printEntities(p, []api.Entity{e}) })
}

// printEntities adds a table of entities.
func printEntities(p *page, entities []api.Entity) {
	rows := [][]string{{"ENTITY", "PARENT", "CASCADE", "VERSION", "NAME", "METADATA"}}
	for _, e := range entities {
		cascade := "no"
		if e.Cascade {
			cascade = "yes"
		}
		meta := make([]string, 0, len(e.Metadata))
		for _, key := range slices.Sorted(maps.Keys(e.Metadata)) {
			meta = append(meta, key+"="+quoted(e.Metadata[key]))
		}
		rows = append(rows, []string{e.ID, orDash(e.Parent), cascade, number(e.Version), orDash(e.Name), orDash(strings.Join(meta, " "))})
	}
	p.table(rows)
}
