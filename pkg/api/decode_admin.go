package api

import "math"

// DecodeLimitsSet reads the request of VerbLimitsSet.
func DecodeLimitsSet(payload []byte) (LimitsSetRequest, error) {
	var q LimitsSetRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "limits":
			q.Limits, err = r.limits()
		case "on_unavailable":
			q.OnUnavailable, err = r.policy()
		case "manifest":
			q.Manifest, err = r.checked(CheckManifest)
		case "if_version":
			q.IfVersion, err = r.version()
		default:
			return r.target(&q.LimitsTarget, name, "system, entity, resource, limits, on_unavailable, manifest, if_version")
		}
		return err
	})
	return finish(q, err, q.Check, func() error {
		if q.Limits == nil {
			return missing("limits")
		}
		return nil
	})
}

// DecodeLimitsGet reads the request of VerbLimitsGet.
func DecodeLimitsGet(payload []byte) (LimitsGetRequest, error) {
	t, err := decodeTarget(payload)
	return LimitsGetRequest{t}, err
}

// DecodeLimitsDelete reads the request of VerbLimitsDelete.
func DecodeLimitsDelete(payload []byte) (LimitsDeleteRequest, error) {
	var q LimitsDeleteRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		if name == "if_version" {
			q.IfVersion, err = r.version()
			return err
		}
		return r.target(&q.LimitsTarget, name, "system, entity, resource, if_version")
	})
	return finish(q, err, q.Check)
}

// DecodeConfigChange reads the payload of a broadcast on ConfigSubject.
func DecodeConfigChange(payload []byte) (LimitsTarget, error) { return decodeTarget(payload) }

func decodeTarget(payload []byte) (LimitsTarget, error) {
	var t LimitsTarget
	err := decode(payload, func(r *reader, name string) error {
		return r.target(&t, name, "system, entity, resource")
	})
	return finish(t, err, t.Check)
}

// DecodeLimitsList reads the request of VerbLimitsList. An absent limit becomes
// DefaultPage.
func DecodeLimitsList(payload []byte) (LimitsListRequest, error) {
	q := LimitsListRequest{Limit: DefaultPage}
	err := decode(payload, func(r *reader, name string) error {
		switch name {
		case "cursor", "limit":
			return r.page(name, &q.Cursor, &q.Limit)
		default:
			return r.target(&q.LimitsTarget, name, "system, entity, resource, cursor, limit")
		}
	})
	return finish(q, err, func() error {
		if q.LimitsTarget == (LimitsTarget{}) {
			return nil
		}
		return q.Check()
	})
}

// DecodeLimitsResolve reads the request of VerbLimitsResolve.
func DecodeLimitsResolve(payload []byte) (LimitsResolveRequest, error) {
	var q LimitsResolveRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "entity":
			q.Entity, err = r.entity()
		case "resource":
			q.Resource, err = r.resource()
		default:
			return unknown("entity, resource")
		}
		return err
	})
	return finish(q, err, required("entity", q.Entity), required("resource", q.Resource))
}

// DecodeCapacity reads the request of VerbCapacity. An absent limit becomes
// DefaultPage.
func DecodeCapacity(payload []byte) (CapacityRequest, error) {
	q := CapacityRequest{Limit: DefaultPage}
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "resource":
			q.Resource, err = r.resource()
		case "cursor", "limit":
			return r.page(name, &q.Cursor, &q.Limit)
		default:
			return unknown("resource, cursor, limit")
		}
		return err
	})
	return finish(q, err, required("resource", q.Resource))
}

// version reads a version of a level, 0 for none.
func (r *reader) version() (*int64, error) {
	n, err := r.integer(CodeInvalidAmount, 0, math.MaxInt64)
	return &n, err
}

// target reads one field of a target, or refuses a name that is none of known.
func (r *reader) target(t *LimitsTarget, name, known string) (err error) {
	switch name {
	case "system":
		t.System, err = r.boolean()
	case "entity":
		t.Entity, err = r.entity()
	case "resource":
		t.Resource, err = r.resource()
	default:
		return unknown(known)
	}
	return err
}
