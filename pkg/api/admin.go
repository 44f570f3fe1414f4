package api

// LimitsTarget names one config level: the system, a resource, an entity (for
// all resources without limits of their own), or an entity and a resource.
type LimitsTarget struct {
	System   bool   `json:"system,omitempty"`
	Entity   string `json:"entity,omitempty" rule:"entity"`
	Resource string `json:"resource,omitempty" rule:"resource"`
}

// LimitsLevel is a config level and what is stored there. On the wire the
// target's fields stand beside the others.
type LimitsLevel struct {
	LimitsTarget
	Limits        []Limit `json:"limits"`
	OnUnavailable Policy  `json:"on_unavailable,omitempty"`
	// Manifest names the manifest that set the limits; empty where they were set
	// by hand.
	Manifest string `json:"manifest,omitempty"`
	// AuditRetentionDays is how long audit events are kept, where it is stored;
	// the system level alone has it.
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
	// Manifest names the manifest that sets the limits, and manages the level
	// from then on; empty: nobody does.
	Manifest string `json:"manifest,omitempty" rule:"manifest"`
	// IfVersion refuses the change with the code conflict unless the level has
	// this version, 0 for one that is not stored; nil: whatever it has.
	IfVersion *int64 `json:"if_version,omitempty" rule:"level_version"`
}

// LimitsGetRequest asks for one level. The reply is a [LimitsLevel], or the
// code not_found.
type LimitsGetRequest struct{ LimitsTarget }

// LimitsDeleteRequest takes all limits from a level, so that the next one
// holds. A level without any gives the code not_found.
type LimitsDeleteRequest struct {
	LimitsTarget
	// IfVersion is as in LimitsSetRequest.
	IfVersion *int64 `json:"if_version,omitempty" rule:"level_version"`
}

// LimitsDeleteReply confirms a deletion.
type LimitsDeleteReply struct {
	Deleted bool `json:"deleted"`
}

// LimitsListRequest asks for levels that have limits, a page at a time: with
// System, the system's; with an Entity, that entity's; with a Resource, the
// resource's and those of entities for it; with both, that one; else all.
type LimitsListRequest struct {
	LimitsTarget
	// Cursor is that of the page before; empty for the first page.
	Cursor string `json:"cursor,omitempty"`
	// Limit bounds the entries of the page, up to MaxPage; 0 is DefaultPage.
	Limit int64 `json:"limit,omitempty" rule:"page"`
}

// LimitsListReply is one page. The last one has no cursor; others may hold
// fewer entries than asked for, or none.
type LimitsListReply struct {
	Levels []LimitsLevel `json:"levels"`
	Cursor string        `json:"cursor,omitempty"`
}

// LimitsResolveRequest asks which limits hold for an entity and a resource.
type LimitsResolveRequest struct {
	Entity   string `json:"entity" rule:"entity,required"`
	Resource string `json:"resource" rule:"resource,required"`
}

// LimitsResolveReply says which level wins and why.
type LimitsResolveReply struct {
	// Winner is the level whose limits hold, all of them and no others.
	Winner LimitsTarget `json:"winner"`
	Limits []Limit      `json:"limits"`
	// OnUnavailable is the policy that holds, from whichever level.
	OnUnavailable Policy `json:"on_unavailable"`
	// Levels are the levels that exist, the winner first.
	Levels []LimitsLevel `json:"levels"`
}

// check fails unless the request names a level and limits.
func (q *LimitsSetRequest) check() error {
	if err := q.LimitsTarget.Check(); err != nil {
		return err
	}
	if q.Limits == nil {
		return missing("limits")
	}
	return nil
}

// check fails if the target is there and does not name a level.
func (q *LimitsListRequest) check() error {
	if q.LimitsTarget == (LimitsTarget{}) {
		return nil
	}
	return q.LimitsTarget.Check()
}

// DecodeConfigChange reads the payload of a broadcast on ConfigSubject.
func DecodeConfigChange(payload []byte) (LimitsTarget, error) {
	return DecodeRequest[LimitsTarget](payload)
}
