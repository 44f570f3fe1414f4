package api

// PolicyUnset removes a level's on_unavailable, so that the next level's policy
// applies. It is valid only in a [PolicySetRequest].
const PolicyUnset Policy = "unset"

// MaxAuditRetentionDays is the longest retention of audit events: ten years of
// 365 days.
const MaxAuditRetentionDays = 3650

// PolicySetRequest changes the policies of a config level. Absent fields keep their
// values; the level's limits stay as they are. The reply is a [PolicyLevel].
type PolicySetRequest struct {
	LimitsTarget
	// OnUnavailable is PolicyBlock, PolicyAllow or PolicyUnset.
	OnUnavailable Policy `json:"on_unavailable,omitempty" rule:"policy_or_unset"`
	// AuditRetentionDays is the retention of the namespace's audit events, from 1 to
	// MaxAuditRetentionDays days; 0 restores the default. Only the system level
	// accepts it.
	AuditRetentionDays *int64 `json:"audit_retention_days,omitempty" rule:"days"`
}

// PolicyGetRequest reads the policies of a level. The reply is a [PolicyLevel], or
// the error not_found.
type PolicyGetRequest struct{ LimitsTarget }

// PolicyLevel holds a config level and its stored policies.
type PolicyLevel struct {
	LimitsTarget
	OnUnavailable      Policy `json:"on_unavailable,omitempty"`
	AuditRetentionDays int64  `json:"audit_retention_days,omitempty"`
	// Version counts the changes of the level, including changes of its limits,
	// from 1; 0 means that the level no longer stores anything.
	Version int64 `json:"config_version"`
}

// Check fails unless the request names a level, something to change, and values
// that may be stored there.
func (q PolicySetRequest) Check() error {
	if err := q.LimitsTarget.Check(); err != nil {
		return err
	}
	if q.OnUnavailable != PolicyUnset {
		if err := q.OnUnavailable.Check(); err != nil {
			return Errorf(CodeInvalidPolicy, "on_unavailable", "%s: write %q, %q or %q",
				shown(string(q.OnUnavailable)), PolicyBlock, PolicyAllow, PolicyUnset)
		}
	}
	days := q.AuditRetentionDays
	switch {
	case days == nil && q.OnUnavailable == "":
		return Errorf(CodeMissingField, "", "name what to change: on_unavailable, or audit_retention_days of the system level")
	case days == nil:
		return nil
	case !q.System:
		return Errorf(CodeUnknownField, "audit_retention_days", "the system level alone says how long audit events are kept")
	case *days < 0 || *days > MaxAuditRetentionDays:
		return Errorf(CodeInvalidPolicy, "audit_retention_days", "%d must be from 1 to %d days, or 0 for the default", *days, MaxAuditRetentionDays)
	}
	return nil
}

func checkPolicyOrUnset(s string) error {
	if s == "" {
		return Errorf(CodeInvalidPolicy, "", "leave the field out, or name %q, %q or %q", PolicyBlock, PolicyAllow, PolicyUnset)
	}
	return nil // PolicySetRequest.Check tells the others
}
