package api

// DecodeNamespaceRequest reads the request of a verb that is about one
// namespace.
func DecodeNamespaceRequest(payload []byte) (NamespaceRequest, error) {
	name, err := decodeNamespaceName(payload)
	return NamespaceRequest{name}, err
}

// DecodeNamespaceChange reads the payload of a broadcast on the config subject
// of OperatorNamespace.
func DecodeNamespaceChange(payload []byte) (NamespaceChange, error) {
	name, err := decodeNamespaceName(payload)
	return NamespaceChange{name}, err
}

func decodeNamespaceName(payload []byte) (string, error) {
	name := ""
	err := decode(payload, func(r *reader, field string) (err error) {
		if field != "name" {
			return unknown("name")
		}
		name, err = r.checked(CheckNamespace)
		return err
	})
	return finish(name, err, required("name", name))
}

// DecodeNamespaceList reads the request of VerbNamespaceList. An absent limit
// becomes DefaultPage.
func DecodeNamespaceList(payload []byte) (NamespaceListRequest, error) {
	q := NamespaceListRequest{Limit: DefaultPage}
	err := decode(payload, func(r *reader, name string) error { return r.pageOnly(name, &q.Cursor, &q.Limit) })
	return finish(q, err)
}

// DecodeEmpty reads the request of a verb that takes nothing: an object without
// fields.
func DecodeEmpty(payload []byte) (struct{}, error) {
	return struct{}{}, decode(payload, func(*reader, string) error {
		return Errorf(CodeUnknownField, "", "this verb takes no fields")
	})
}

// DecodePolicySet reads the request of VerbPolicySet.
func DecodePolicySet(payload []byte) (PolicySetRequest, error) {
	var q PolicySetRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "on_unavailable":
			var text string
			text, err = r.str()
			if q.OnUnavailable = Policy(text); err == nil && text == "" {
				err = Errorf(CodeInvalidPolicy, "", "leave the field out, or name %q, %q or %q", PolicyBlock, PolicyAllow, PolicyUnset)
			}
		case "audit_retention_days":
			var days int64
			days, err = r.integer(CodeInvalidPolicy, 0, MaxAuditRetentionDays)
			q.AuditRetentionDays = &days
		default:
			return r.target(&q.LimitsTarget, name, "system, entity, resource, on_unavailable, audit_retention_days")
		}
		return err
	})
	return finish(q, err, q.Check)
}

// DecodePolicyGet reads the request of VerbPolicyGet.
func DecodePolicyGet(payload []byte) (PolicyGetRequest, error) {
	t, err := decodeTarget(payload)
	return PolicyGetRequest{t}, err
}
