package loadgen

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// journal records every reply of a run. It keeps about 100 bytes for each
// admission and settlement, and nothing for denials but their count.
type journal struct {
	mu      sync.Mutex
	entries [][]Entry // guarded by mu; by entity

	requests, admitted, denied, degraded, late int64            // guarded by mu
	deniedBy, errors                           map[string]int64 // guarded by mu
	acquire                                    *hdrhistogram.Histogram

	adjusted, exact, reserved, settled int64            // guarded by mu
	adjustErrors                       map[string]int64 // guarded by mu
	adjust                             *hdrhistogram.Histogram
}

func newJournal(entities int) *journal {
	return &journal{
		entries:  make([][]Entry, entities),
		deniedBy: map[string]int64{}, errors: map[string]int64{}, adjustErrors: map[string]int64{},
		acquire: newHistogram(), adjust: newHistogram(),
	}
}

// request is an acquire or a settlement, with its times since the start.
type request struct {
	entity              int
	due, sent, received time.Duration // due: when it should have been sent
	amounts             api.Amounts
	late                bool
}

// acquired records the reply to an acquire.
func (j *journal) acquired(r request, lease *tidegate.Lease, err error) {
	var denied *tidegate.DeniedError
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests++
	if r.late {
		j.late++
	}
	observe(j.acquire, r.received-r.due)
	switch {
	case errors.As(err, &denied):
		j.denied++
		for _, l := range denied.Limits {
			if l.Exceeded {
				j.deniedBy[l.Name]++
			}
		}
	case err != nil:
		j.errors[errorCode(err)]++
	case lease.Degraded():
		j.degraded++
	default:
		j.admitted++
		j.entries[r.entity] = append(j.entries[r.entity], Entry{Sent: r.sent, Received: r.received, Admission: true, Amounts: r.amounts})
	}
}

// settlement holds the reservation of an admitted request and its actual cost.
type settlement struct {
	reserved, cost int64 // tokens
}

// settledExactly records a request that needs no settling.
func (j *journal) settledExactly(s settlement) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.exact++
	j.reserved += s.reserved
	j.settled += s.cost
}

// adjustedTo records the reply to an adjustment by r.amounts. If it failed,
// its effect is unknown.
func (j *journal) adjustedTo(r request, s settlement, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reserved += s.reserved
	observe(j.adjust, r.received-r.sent)
	if err != nil {
		j.adjustErrors[errorCode(err)]++
		r.received = Unknown
	} else {
		j.adjusted++
		j.settled += s.cost
	}
	j.entries[r.entity] = append(j.entries[r.entity], Entry{Sent: r.sent, Received: r.received, Amounts: r.amounts})
}

// report returns the recorded results, without cost and check.
func (j *journal) report(took time.Duration, settles bool) Report {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := Report{
		Seconds: took.Seconds(), Entities: len(j.entries),
		Requests: j.requests, Rate: rate(j.requests, took.Seconds()),
		Admitted: j.admitted, Denied: j.denied, DeniedBy: maps.Clone(j.deniedBy),
		Degraded: j.degraded, Errors: maps.Clone(j.errors), Late: j.late,
		Acquire: latenciesOf(j.acquire),
	}
	if settles {
		r.Settlements = &Settlements{
			Adjusted: j.adjusted, Exact: j.exact, Errors: maps.Clone(j.adjustErrors),
			Reserved: j.reserved, Settled: j.settled, Latency: latenciesOf(j.adjust),
		}
	}
	return r
}

// verdict checks every limit of every entity. Before and after are the limits
// as they were read around the run.
func (j *journal) verdict(entities []string, before, after [][]api.Limit, rules Rules) Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	v := Verdict{Violations: []Violation{}}
	for i, entity := range entities {
		if !sameLimits(before[i], after[i]) {
			return Verdict{NotChecked: "the limits of " + entity + " were changed meanwhile", Violations: []Violation{}}
		}
		for _, limit := range before[i] {
			v.Limits++
			if violation, found := CheckLimit(limit, j.entries[i], rules); found {
				violation.Entity = entity
				v.Violations = append(v.Violations, violation)
			}
		}
		for _, e := range j.entries[i] {
			if e.Admission {
				v.Admissions++
			}
		}
	}
	return v
}

// errorCode names an error by the code of the reply, or by the reason that no reply arrived.
func errorCode(err error) string {
	var refused *tidegate.Error
	switch {
	case errors.As(err, &refused):
		return string(refused.Code)
	case errors.Is(err, nats.ErrNoResponders):
		return "no_responders"
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected):
		return "no_connection"
	}
	var down *tidegate.UnavailableError
	if errors.As(err, &down) {
		return "no_reply"
	}
	return "other"
}
