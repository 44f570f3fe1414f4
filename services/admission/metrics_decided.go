package admission

import "github.com/tidegate/tidegate/pkg/api"

// Kinds of operations on buckets.
const (
	kindAcquire = "acquire"
	kindSettle  = "settle"
	kindRefund  = "take_back"
)

// decision is how an operation was decided, as metrics tell it.
type decision struct{ form, kind string }

// kind names an operation; a peek is not decided.
func (o operation) kind() string {
	switch {
	case o.refund && o.settled == 0:
		return kindRefund
	case o.settle:
		return kindSettle
	}
	return kindAcquire
}

// committed counts the operations of an applied write.
func (m *metrics) committed(form string, calls []*call) {
	m.batch.Observe(float64(len(calls)))
	acquires := 0
	for _, q := range calls {
		if q.refund {
			m.decided[decision{form, kindRefund}].Add(float64(q.undone))
			m.decided[decision{form, kindSettle}].Add(float64(q.settled))
			continue
		}
		if kind := q.kind(); kind != kindAcquire {
			m.decided[decision{form, kind}].Inc()
			continue
		}
		acquires++
	}
	m.decided[decision{form, kindAcquire}].Add(float64(acquires))
}

// Reasons of denials, and the levels of the limits that were short.
const (
	reasonShort = "short"
	reasonDebt  = "debt"
	reasonNever = "never"

	levelOwn      = "own"
	levelAncestor = "ancestor"
)

// denial is the reason of a denial, as metrics tell it.
type denial struct{ reason, level string }

// denied counts an acquire of an entity that was denied, by the worst of its reasons.
func (m *metrics) denied(entity string, reply *api.AcquireReply) {
	d := denial{reasonShort, levelAncestor}
	for i := range reply.Limits {
		l := &reply.Limits[i]
		if !l.Exceeded {
			continue
		}
		if l.Entity == entity {
			d.level = levelOwn
		}
		if l.Available < 0 {
			d.reason = reasonDebt
		}
	}
	if reply.Never {
		d.reason = reasonNever
	}
	m.denials[d].Inc()
}
