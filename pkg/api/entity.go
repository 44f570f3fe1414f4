package api

import "unicode/utf8"

// Bounds of entities.
const (
	// MaxLevels is the maximum length of a chain of entities from child to topmost
	// ancestor, both included.
	MaxLevels = 4
	// MaxMetadata is the maximum number of entries of an entity's metadata.
	MaxMetadata = 16

	maxName          = 128 // bytes, of an entity's name
	maxMetadataKey   = 64
	maxMetadataValue = 256 // bytes
)

// Entity describes a rate-limited caller, such as an API key. An entity that was
// never created can spend as well: it has no parent and no metadata.
type Entity struct {
	ID string `json:"entity"`
	// Name is a display name.
	Name string `json:"name,omitempty"`
	// Parent is the id of the parent entity; empty if there is no parent.
	Parent string `json:"parent,omitempty"`
	// Cascade makes every spend of the entity a spend of its parent, too.
	Cascade bool `json:"cascade,omitempty"`
	// Metadata is free for use by callers; Tidegate does not interpret it.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Version counts the changes, from 1.
	Version int64 `json:"version"`
}

// EntityCreateRequest creates an entity. If it exists, the error is already_exists.
// The reply is an [Entity].
type EntityCreateRequest struct {
	ID       string            `json:"entity" rule:"entity,required"`
	Name     string            `json:"name,omitempty"`
	Parent   string            `json:"parent,omitempty" rule:"entity"`
	Cascade  bool              `json:"cascade,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// EntityUpdateRequest changes the fields that it contains and keeps the rest. The
// reply is an [Entity].
type EntityUpdateRequest struct {
	ID   string  `json:"entity" rule:"entity,required"`
	Name *string `json:"name,omitempty"`
	// Parent, if nil, stays as it is; an empty Parent removes the parent and the
	// cascade.
	Parent  *string `json:"parent,omitempty"`
	Cascade *bool   `json:"cascade,omitempty"`
	// Metadata replaces all entries; nil keeps them, an empty map removes them.
	Metadata map[string]string `json:"metadata,omitzero"`
	// Version, unless 0, makes the change conditional: if the entity has another
	// version, the error is conflict.
	Version int64 `json:"version,omitempty" rule:"version"`
}

// EntityGetRequest reads an entity. The reply is an [Entity], or the error
// not_found.
type EntityGetRequest struct {
	ID string `json:"entity" rule:"entity,required"`
}

// EntityDeleteRequest deletes an entity's name, metadata and parent. Its limits and
// balances stay and continue to apply, as for an entity that was never created.
type EntityDeleteRequest struct {
	ID string `json:"entity" rule:"entity,required"`
	// Orphan deletes an entity even if it has children, which keep it as their
	// parent. Without Orphan, children cause the error has_children.
	Orphan bool `json:"orphan,omitempty"`
}

// EntityDeleteReply confirms a deletion.
type EntityDeleteReply struct {
	Deleted bool `json:"deleted"`
}

// EntityChildrenRequest lists the entities with ID as their parent, a page at a
// time. The reply is an [EntityListReply].
type EntityChildrenRequest struct {
	ID string `json:"entity" rule:"entity,required"`
	EntityListRequest
}

// EntityListRequest lists all entities, a page at a time.
type EntityListRequest struct {
	// Cursor is from the preceding page; empty for the first page.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of entries of the page, up to MaxPage; 0 is DefaultPage.
	Limit int64 `json:"limit,omitempty" rule:"page"`
}

// EntityListReply holds a page of entities. The last page has no cursor; earlier pages
// may hold fewer entries than requested, even zero.
type EntityListReply struct {
	Entities []Entity `json:"entities"`
	Cursor   string   `json:"cursor,omitempty"`
}

// Check fails unless the request is complete and within bounds.
func (q *EntityCreateRequest) Check() error {
	if err := checkFamily(q.ID, q.Parent); err != nil {
		return err
	}
	if q.Cascade && q.Parent == "" {
		return Errorf(CodeMissingField, "parent", "cascade needs a parent to spend from")
	}
	if err := checkName(q.Name); err != nil {
		return err
	}
	return checkMetadata(q.Metadata)
}

// Check fails unless the request names an entity and a change within bounds.
func (q *EntityUpdateRequest) Check() error {
	parent := ""
	if q.Parent != nil {
		parent = *q.Parent
	}
	if err := checkFamily(q.ID, parent); err != nil {
		return err
	}
	switch {
	case q.Name == nil && q.Parent == nil && q.Cascade == nil && q.Metadata == nil:
		return Errorf(CodeMissingField, "", "name what to change: name, parent, cascade or metadata")
	case q.Parent != nil && parent == "" && q.Cascade != nil && *q.Cascade:
		return Errorf(CodeMissingField, "parent", "cascade needs a parent to spend from")
	case q.Version < 0:
		return Errorf(CodeInvalidVersion, "version", "%d must be a whole number above 0", q.Version)
	case q.Name != nil:
		if err := checkName(*q.Name); err != nil {
			return err
		}
	}
	return checkMetadata(q.Metadata)
}

func checkFamily(id, parent string) error {
	if err := CheckEntity(id); err != nil {
		return within("entity", err)
	}
	if parent == "" {
		return nil
	}
	if err := CheckEntity(parent); err != nil {
		return within("parent", err)
	}
	if parent == id {
		return Errorf(CodeInvalidParent, "parent", "an entity cannot be its own parent")
	}
	return nil
}

// checkName fails with invalid_name unless the name is printable and not too
// long. An empty name is valid.
func checkName(name string) error {
	if len(name) > maxName || !printable(name) {
		return Errorf(CodeInvalidName, "name", "%s: a name has at most %d bytes of UTF-8, and no control characters", shown(name), maxName)
	}
	return nil
}

func checkMetadata(m map[string]string) error {
	if len(m) > MaxMetadata {
		return Errorf(CodeInvalidMetadata, "metadata", "it has %d entries; at most %d are allowed", len(m), MaxMetadata)
	}
	for key, value := range m {
		if err := checkEntry(key, value); err != nil {
			return within("metadata", err)
		}
	}
	return nil
}

func checkEntry(key, value string) error {
	allowed := func(c byte) bool {
		return alphanumeric(c) || c == '_' || c == '.' || c == ':' || c == '/' || c == '-'
	}
	if !fits(key, maxMetadataKey, allowed) {
		return Errorf(CodeInvalidMetadata, "", "%s: a key has at most %d letters, digits and _ . : / -", shown(key), maxMetadataKey)
	}
	if len(value) > maxMetadataValue || !printable(value) {
		return Errorf(CodeInvalidMetadata, key, "%s: a value has at most %d bytes of UTF-8, and no control characters", shown(value), maxMetadataValue)
	}
	return nil
}

// printable reports whether s is UTF-8 without control characters.
func printable(s string) bool {
	for _, c := range s {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return false
		}
	}
	return utf8.ValidString(s)
}
