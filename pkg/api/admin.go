package api

// LimitsTarget names a config level: the system, a resource, an entity (its
// default for every resource), or an entity and a resource.
type LimitsTarget struct {
	System   bool   `json:"system,omitempty"`
	Entity   string `json:"entity,omitempty" rule:"entity"`
	Resource string `json:"resource,omitempty" rule:"resource"`
}

// LimitsLevel holds a config level and its stored settings. The JSON object
// contains the target's fields directly, not nested.
type LimitsLevel struct {
	LimitsTarget
	Limits        []Limit `json:"limits"`
	OnUnavailable Policy  `json:"on_unavailable,omitempty"`
	// Manifest names the manifest that manages the level; empty if the limits were
	// set by hand.
	Manifest string `json:"manifest,omitempty"`
	// AuditRetentionDays is the retention of audit events in days; 0 if it is not
	// stored. Only the system level has it.
	AuditRetentionDays int64 `json:"audit_retention_days,omitempty"`
	// Version counts the changes of the level, from 1.
	Version int64 `json:"config_version"`
}

// LimitsSetRequest replaces all limits of a level. An empty OnUnavailable
// leaves the level's policy as it is. The reply is a [LimitsLevel].
type LimitsSetRequest struct {
	LimitsTarget
	Limits        []Limit `json:"limits"`
	OnUnavailable Policy  `json:"on_unavailable,omitempty" rule:"policy"`
	// Manifest names the manifest that sets the limits and manages the level from
	// then on. If empty, no manifest manages the level.
	Manifest string `json:"manifest,omitempty" rule:"manifest"`
	// IfVersion makes the change conditional: it fails with the code conflict
	// unless the level has this version (0: the level is not stored). If nil, the
	// change is unconditional.
	IfVersion *int64 `json:"if_version,omitempty" rule:"level_version"`
}

// LimitsGetRequest reads a config level. The reply is a [LimitsLevel], or the
// error not_found.
type LimitsGetRequest struct{ LimitsTarget }

// LimitsDeleteRequest deletes all limits of a level; the next level in precedence
// then applies. If the level has no limits, the error is not_found.
type LimitsDeleteRequest struct {
	LimitsTarget
	// IfVersion is as in LimitsSetRequest.
	IfVersion *int64 `json:"if_version,omitempty" rule:"level_version"`
}

// LimitsDeleteReply confirms a deletion.
type LimitsDeleteReply struct {
	Deleted bool `json:"deleted"`
}

// LimitsListRequest lists the levels that have limits, a page at a time. System
// selects the system level. Entity alone selects all levels of that entity, and
// Resource alone the resource's level and all entity levels for that resource.
// Entity and Resource together select a single level. An empty target selects
// all levels.
type LimitsListRequest struct {
	LimitsTarget
	// Cursor is from the preceding page; empty for the first page.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of entries of the page, up to MaxPage; 0 is DefaultPage.
	Limit int64 `json:"limit,omitempty" rule:"page"`
}

// LimitsListReply holds a page of levels. The last page has no cursor; earlier
// pages may hold fewer entries than requested, even zero.
type LimitsListReply struct {
	Levels []LimitsLevel `json:"levels"`
	Cursor string        `json:"cursor,omitempty"`
}

// LimitsResolveRequest asks which limits apply to an entity and a resource.
type LimitsResolveRequest struct {
	Entity   string `json:"entity" rule:"entity,required"`
	Resource string `json:"resource" rule:"resource,required"`
}

// LimitsResolveReply returns the limits that apply, the winning level, and all existing
// levels for comparison.
type LimitsResolveReply struct {
	// Winner is the level that supplies all limits; levels are never merged.
	Winner LimitsTarget `json:"winner"`
	Limits []Limit      `json:"limits"`
	// OnUnavailable is the policy that applies; it may come from another level than
	// the limits.
	OnUnavailable Policy `json:"on_unavailable"`
	// Levels lists the existing levels, the winner first.
	Levels []LimitsLevel `json:"levels"`
}

// check fails unless the request names a level and limits.
func (q *LimitsSetRequest) check() error {
	if err := q.Check(); err != nil {
		return err
	}
	if q.Limits == nil {
		return missing("limits")
	}
	return nil
}

// check fails if the target is not empty and does not name a level.
func (q *LimitsListRequest) check() error {
	if q.LimitsTarget == (LimitsTarget{}) {
		return nil
	}
	return q.Check()
}

// DecodeConfigChange reads the payload of a broadcast on ConfigSubject.
func DecodeConfigChange(payload []byte) (LimitsTarget, error) {
	return DecodeRequest[LimitsTarget](payload)
}
