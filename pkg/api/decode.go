package api

// The decoders of requests. Each is strict and total: it returns a request that is
// valid in itself, or an *Error that names the field and the correction. Checks
// that need a service's data (unknown limits, forged leases) happen later.

// DecodeAcquire reads the request of VerbAcquire, or of VerbAcquireOverride if
// override is set: limits are required with override and refused without.
func DecodeAcquire(payload []byte, override bool) (AcquireRequest, error) {
	var q AcquireRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "entity":
			q.Entity, err = r.checked(CheckEntity)
		case "resource":
			q.Resource, err = r.checked(CheckResource)
		case "consume":
			q.Consume, err = readAmounts(r, 0)
		case "on_unavailable":
			q.OnUnavailable, err = readPolicy(r)
		case "limits":
			if !override {
				return Errorf(CodeUnknownField, "", "only %s takes limits", VerbAcquireOverride)
			}
			q.Limits, err = readLimits(r)
		default:
			return unknown("entity, resource, consume, on_unavailable")
		}
		return err
	})
	switch {
	case err != nil:
	case q.Entity == "":
		err = missing("entity")
	case q.Resource == "":
		err = missing("resource")
	case q.Consume == nil:
		err = missing("consume")
	case override && q.Limits == nil:
		err = missing("limits")
	}
	if err != nil {
		return AcquireRequest{}, err
	}
	return q, nil
}

// DecodeAdjust reads the request of VerbAdjust.
func DecodeAdjust(payload []byte) (AdjustRequest, error) {
	var q AdjustRequest
	hasLease := false
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "lease":
			hasLease = true
			q.Lease, err = r.str()
		case "deltas":
			q.Deltas, err = readAmounts(r, -MaxAmount)
		default:
			return unknown("lease, deltas")
		}
		return err
	})
	switch {
	case err != nil:
	case !hasLease:
		err = missing("lease")
	case q.Deltas == nil:
		err = missing("deltas")
	}
	if err != nil {
		return AdjustRequest{}, err
	}
	return q, nil
}

// DecodeRelease reads the request of VerbRelease.
func DecodeRelease(payload []byte) (ReleaseRequest, error) {
	var q ReleaseRequest
	hasLease := false
	err := decode(payload, func(r *reader, name string) (err error) {
		if name != "lease" {
			return unknown("lease")
		}
		hasLease = true
		q.Lease, err = r.str()
		return err
	})
	if err == nil && !hasLease {
		err = missing("lease")
	}
	if err != nil {
		return ReleaseRequest{}, err
	}
	return q, nil
}

// DecodeStatus reads the request of VerbStatus.
func DecodeStatus(payload []byte) (StatusRequest, error) {
	var q StatusRequest
	err := decode(payload, func(r *reader, name string) (err error) {
		switch name {
		case "entity":
			q.Entity, err = r.checked(CheckEntity)
		case "resource":
			q.Resource, err = r.checked(CheckResource)
		case "consume":
			q.Consume, err = readAmounts(r, 0)
		case "cursor":
			q.Cursor, err = r.str()
		case "limit":
			q.Limit, err = r.integer(CodeInvalidAmount, 1, MaxPage)
		default:
			return unknown("entity, resource, consume, cursor, limit")
		}
		return err
	})
	switch {
	case err != nil:
	case q.Entity == "":
		err = missing("entity")
	case q.Resource != "" && q.Cursor != "":
		err = Errorf(CodeInvalidCursor, "cursor", "the status of a single resource has no pages: leave out the resource or the cursor")
	case q.Resource != "" && q.Limit != 0:
		err = Errorf(CodeInvalidAmount, "limit", "the status of a single resource has no pages: leave out the resource or the limit")
	case q.Consume != nil && q.Resource == "":
		err = Errorf(CodeMissingField, "resource", "consume needs a resource: name it")
	}
	if err != nil {
		return StatusRequest{}, err
	}
	return q, nil
}

// decode reads a payload that must be a single object.
func decode(payload []byte, member func(r *reader, name string) error) error {
	r, err := open(payload)
	if err != nil {
		return err
	}
	if err := r.object(func(name string) error { return member(&r, name) }); err != nil {
		return err
	}
	return r.end()
}

func missing(field string) error {
	return Errorf(CodeMissingField, field, "this field is required")
}

// checked reads a string and checks it.
func (r *reader) checked(check func(string) error) (string, error) {
	s, err := r.str()
	if err == nil {
		err = check(s)
	}
	return s, err
}

func readPolicy(r *reader) (Policy, error) {
	s, err := r.checked(checkPolicy)
	return Policy(s), err
}

func checkPolicy(s string) error {
	if s == "" {
		return Errorf(CodeInvalidPolicy, "", "leave the field out, or name %q or %q", PolicyBlock, PolicyAllow)
	}
	return Policy(s).Check()
}

// readAmounts reads the object of amounts of consume or deltas; it is not empty.
func readAmounts(r *reader, lowest int64) (Amounts, error) {
	amounts := make(Amounts, 0, 4)
	err := r.object(func(name string) error {
		if err := CheckLimitName(name); err != nil {
			return err
		}
		if len(amounts) == MaxLimits {
			return Errorf(CodeTooManyLimits, "", "at most %d limits can be named", MaxLimits)
		}
		tokens, err := r.integer(CodeInvalidAmount, lowest, MaxAmount)
		amounts = append(amounts, Amount{name, tokens})
		return err
	})
	if err == nil && len(amounts) == 0 {
		err = Errorf(CodeEmptyConsume, "", "name at least one limit")
	}
	return amounts, err
}

// readLimits reads the array of limits of a level or an override; it is not empty,
// and its names are unique.
func readLimits(r *reader) ([]Limit, error) {
	limits := make([]Limit, 0, 4)
	err := r.array(func(int) error {
		if len(limits) == MaxLimits {
			return Errorf(CodeTooManyLimits, "", "a bucket has at most %d limits", MaxLimits)
		}
		l, err := readLimit(r)
		if err != nil {
			return err
		}
		for i := range limits {
			if limits[i].Name == l.Name {
				return Errorf(CodeInvalidLimit, "name", "%q is named twice", l.Name)
			}
		}
		limits = append(limits, l)
		return nil
	})
	if err == nil && len(limits) == 0 {
		err = Errorf(CodeMissingField, "", "name at least one limit")
	}
	return limits, err
}

func readLimit(r *reader) (Limit, error) {
	var l Limit
	var named, capacity, amount, period bool
	err := r.object(func(name string) (err error) {
		switch name {
		case "name":
			named = true
			l.Name, err = r.checked(CheckLimitName)
		case "capacity":
			capacity = true
			l.Capacity, err = r.integer(CodeInvalidLimit, 1, MaxAmount)
		case "refill_amount":
			amount = true
			l.RefillAmount, err = r.integer(CodeInvalidLimit, 1, MaxAmount)
		case "refill_period_seconds":
			period = true
			l.RefillPeriodSeconds, err = r.integer(CodeInvalidLimit, 1, MaxPeriodSeconds)
		default:
			return unknown("name, capacity, refill_amount, refill_period_seconds")
		}
		return err
	})
	switch {
	case err != nil:
		return l, err
	case !named:
		return l, missing("name")
	case !capacity:
		return l, missing("capacity")
	case !amount:
		return l, missing("refill_amount")
	case !period:
		return l, missing("refill_period_seconds")
	}
	return l, l.Check()
}
