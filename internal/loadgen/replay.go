package loadgen

import (
	"context"
	"errors"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// Replay plays an LLM trace. Each row is a request: it reserves 1 of the limit rpm
// and, of the limit tpm, its prompt and an estimate of its answer; when the answer
// would be complete, it adjusts the reservation to the actual number of tokens.
type Replay struct {
	Target
	Trace []Row // row i is a request of entity i modulo their number
	// Estimate is the number of tokens that a request reserves for its answer.
	Estimate int64
	// Speed is the factor by which the replay is faster than the trace; 0: as fast as
	// InFlight permits, and answers take no time.
	Speed float64
	// TokensPerSecond is the speed of generating answers, before Speed applies.
	TokensPerSecond float64
	// InFlight is the maximum number of concurrent requests, including their
	// generation.
	InFlight int
}

// The limits that a replay spends from.
const (
	LimitRequests = "rpm"
	LimitTokens   = "tpm"
)

// Run plays the trace until its end or the end of ctx, and reports.
func (p *Replay) Run(ctx context.Context) (Report, error) {
	switch {
	case len(p.Trace) == 0:
		return Report{}, errors.New("the trace has no requests")
	case p.Estimate < 0 || p.Speed < 0 || p.TokensPerSecond <= 0 || p.InFlight < 1:
		return Report{}, errors.New("estimate and speed cannot be negative, and generation and requests in flight must be above 0")
	}
	return p.measure(ctx, true, p.play)
}

// play starts every row at its time and waits for all that it started.
func (p *Replay) play(ctx context.Context, r *run) error {
	s := newSlots(p.InFlight)
	defer s.running.Wait()
	for i, row := range p.Trace {
		due := p.scaled(row.At)
		if sleep(ctx, due-r.elapsed()) != nil {
			return nil
		}
		if p.Speed == 0 {
			due = 0
		}
		if s.start(ctx, func(late bool) { p.one(ctx, r, i%len(p.Entities), row, due, late && p.Speed > 0) }) != nil {
			return nil
		}
	}
	return nil
}

// scaled is a time of the trace in time of the run.
func (p *Replay) scaled(d time.Duration) time.Duration {
	if p.Speed == 0 {
		return 0
	}
	return time.Duration(float64(d) / p.Speed)
}

// one plays a single row. If interrupted, it cuts the generation short and settles.
func (p *Replay) one(ctx context.Context, r *run, entity int, row Row, due time.Duration, late bool) {
	defer r.finished()
	reserved := row.Context + p.Estimate
	lease := r.acquire(entity, due, late,
		api.Amounts{{Name: LimitRequests, Tokens: 1}, {Name: LimitTokens, Tokens: reserved}},
		tidegate.Consume{LimitRequests: 1, LimitTokens: reserved})
	if lease == nil {
		return
	}
	generation := time.Duration(float64(row.Generated) / p.TokensPerSecond * float64(time.Second))
	_ = sleep(ctx, p.scaled(generation)) // interrupted or not, the reservation is settled
	s := settlement{reserved: reserved, cost: row.Context + row.Generated}
	delta := s.cost - s.reserved
	if delta == 0 {
		r.journal.settledExactly(s)
		return
	}
	q := request{entity: entity, sent: r.elapsed(), amounts: api.Amounts{{Name: LimitTokens, Tokens: delta}}}
	err := lease.Adjust(r.calls, tidegate.Deltas{LimitTokens: delta})
	q.received = r.elapsed()
	r.journal.adjustedTo(q, s, err)
}
