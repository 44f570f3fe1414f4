package api

import "math"

// DecodeAuditList reads the request of VerbAuditList. An absent limit becomes
// DefaultPage.
func DecodeAuditList(payload []byte) (AuditListRequest, error) {
	q := AuditListRequest{Limit: DefaultPage}
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "action":
			var s string
			s, err = r.checked(func(s string) error { return AuditAction(s).Check() })
			q.Action = AuditAction(s)
		case "from_ms", "to_ms":
			return r.stretch(name, &q.FromMs, &q.ToMs)
		case "cursor", "limit":
			return r.page(name, &q.Cursor, &q.Limit)
		default:
			return r.target(&q.LimitsTarget, name, "system, entity, resource, action, from_ms, to_ms, cursor, limit")
		}
		return err
	})
	return finish(q, err, q.Check)
}

// DecodeAuditVerify reads the request of VerbAuditVerify.
func DecodeAuditVerify(payload []byte) (AuditVerifyRequest, error) {
	var q AuditVerifyRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "from_ms", "to_ms":
			return r.stretch(name, &q.FromMs, &q.ToMs)
		case "cursor":
			q.Cursor, err = r.str()
		default:
			return unknown("from_ms, to_ms, cursor")
		}
		return err
	})
	return finish(q, err, func() error { return checkTimes(q.FromMs, q.ToMs) })
}

// stretch reads one end of a stretch of time.
func (r *reader) stretch(name string, fromMs, toMs *int64) error {
	ms, err := r.integer(CodeInvalidTime, 1, math.MaxInt64)
	if name == "from_ms" {
		*fromMs = ms
	} else {
		*toMs = ms
	}
	return err
}

// checkTimes fails unless times are in order; 0 is no bound.
func checkTimes(fromMs, toMs int64) error {
	switch {
	case fromMs < 0:
		return Errorf(CodeInvalidTime, "from_ms", "%d is before 1970", fromMs)
	case toMs < 0 || toMs != 0 && toMs < fromMs:
		return Errorf(CodeInvalidTime, "to_ms", "%d is before from_ms, %d", toMs, fromMs)
	}
	return nil
}

// Check fails unless the request names at most one target and times in order.
func (q *AuditListRequest) Check() error {
	if q.LimitsTarget != (LimitsTarget{}) {
		if err := q.LimitsTarget.Check(); err != nil {
			return err
		}
	}
	if q.Entity != "" && q.Resource != "" {
		return Errorf(CodeUnknownField, "resource", "the events of an entity are listed for all its resources: leave the resource out")
	}
	if err := checkTimes(q.FromMs, q.ToMs); err != nil {
		return err
	}
	if q.Action != "" {
		if err := q.Action.Check(); err != nil {
			return within("action", err)
		}
	}
	return nil
}

// DecodeAuditShow reads the request of VerbAuditShow.
func DecodeAuditShow(payload []byte) (AuditShowRequest, error) {
	var q AuditShowRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		if name != "id" {
			return unknown("id")
		}
		q.ID, err = r.str()
		return err
	})
	return finish(q, err, required("id", q.ID))
}
