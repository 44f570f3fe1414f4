package api

import "math"

// DecodeEntityCreate reads the request of VerbEntityCreate.
func DecodeEntityCreate(payload []byte) (EntityCreateRequest, error) {
	var q EntityCreateRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "entity":
			q.ID, err = r.entity()
		case "name":
			q.Name, err = r.str()
		case "parent":
			q.Parent, err = r.entity()
		case "cascade":
			q.Cascade, err = r.boolean()
		case "metadata":
			q.Metadata, err = r.metadata()
		default:
			return unknown("entity, name, parent, cascade, metadata")
		}
		return err
	})
	return finish(q, err, required("entity", q.ID), q.Check)
}

// DecodeEntityUpdate reads the request of VerbEntityUpdate.
func DecodeEntityUpdate(payload []byte) (EntityUpdateRequest, error) {
	var q EntityUpdateRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "entity":
			q.ID, err = r.entity()
		case "name":
			q.Name, err = pointer(r.str())
		case "parent":
			q.Parent, err = pointer(r.str())
		case "cascade":
			q.Cascade, err = pointer(r.boolean())
		case "metadata":
			q.Metadata, err = r.metadata()
		case "version":
			q.Version, err = r.integer(CodeInvalidVersion, 1, math.MaxInt64)
		default:
			return unknown("entity, name, parent, cascade, metadata, version")
		}
		return err
	})
	return finish(q, err, required("entity", q.ID), q.Check)
}

func pointer[T any](v T, err error) (*T, error) { return &v, err }

// DecodeEntityGet reads the request of VerbEntityGet.
func DecodeEntityGet(payload []byte) (EntityGetRequest, error) {
	var q EntityGetRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		if name != "entity" {
			return unknown("entity")
		}
		q.ID, err = r.entity()
		return err
	})
	return finish(q, err, required("entity", q.ID))
}

// DecodeEntityDelete reads the request of VerbEntityDelete.
func DecodeEntityDelete(payload []byte) (EntityDeleteRequest, error) {
	var q EntityDeleteRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "entity":
			q.ID, err = r.entity()
		case "orphan":
			q.Orphan, err = r.boolean()
		default:
			return unknown("entity, orphan")
		}
		return err
	})
	return finish(q, err, required("entity", q.ID))
}

// DecodeEntityChildren reads the request of VerbEntityChildren. An absent limit
// becomes DefaultPage.
func DecodeEntityChildren(payload []byte) (EntityChildrenRequest, error) {
	q := EntityChildrenRequest{EntityListRequest: EntityListRequest{Limit: DefaultPage}}
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "entity":
			q.ID, err = r.entity()
		case "cursor", "limit":
			return r.page(name, &q.Cursor, &q.Limit)
		default:
			return unknown("entity, cursor, limit")
		}
		return err
	})
	return finish(q, err, required("entity", q.ID))
}

// DecodeEntityList reads the request of VerbEntityList. An absent limit becomes
// DefaultPage.
func DecodeEntityList(payload []byte) (EntityListRequest, error) {
	q := EntityListRequest{Limit: DefaultPage}
	err := decode(payload, func(r *reader, name string) error { return r.pageOnly(name, &q.Cursor, &q.Limit) })
	return finish(q, err)
}

// page reads one field of a page.
func (r *reader) page(name string, cursor *string, limit *int64) (err error) {
	if name == "cursor" {
		*cursor, err = r.str()
		return err
	}
	*limit, err = r.integer(CodeInvalidAmount, 1, MaxPage)
	return err
}

// pageOnly is page where a request has nothing else.
func (r *reader) pageOnly(name string, cursor *string, limit *int64) error {
	if name != "cursor" && name != "limit" {
		return unknown("cursor, limit")
	}
	return r.page(name, cursor, limit)
}

// metadata reads an object of strings; it is not nil.
func (r *reader) metadata() (map[string]string, error) {
	m := make(map[string]string)
	err := r.object(func(key string) error {
		if len(m) == MaxMetadata {
			return Errorf(CodeInvalidMetadata, "", "at most %d entries are allowed", MaxMetadata)
		}
		value, err := r.str()
		m[key] = value
		return err
	})
	return m, err
}
