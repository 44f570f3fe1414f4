package admission

import "github.com/tidegate/tidegate/pkg/api"

// spend is an acquire on its way through the router. Its replier gets the outcome once.
type spend struct {
	task
	replier replier
}

// replier answers an acquire. It gets a single call of answer, admit or deny.
type replier interface {
	// prepare is called during each write of a single shard that includes the acquire, with
	// the result that answer gets unless another node writes too.
	prepare(result)
	// answer takes the result of an acquire that was admitted at its only level, or that
	// cannot be decided: then the result has an error.
	answer(result)
	// admit takes the results of all levels of a cascade, the child's first.
	admit(levels []*result)
	// deny takes how all levels stand, and in how many milliseconds the same acquire would
	// pass, or neverMs.
	deny(statuses []api.LimitStatus, waitMs int64)
}

// acquire decides a spend of amounts at a bucket, and, if its entity cascades, at all
// levels. It never blocks.
func (r *router) acquire(s *spend, at *member, amounts api.Amounts, whose asker, to replier) {
	s.set(at, operation{amounts: amounts}, whose, s)
	s.replier = to
	if settings := at.writer.settings.last(); settings != nil && parentOf(at.writer.key.Entity, settings) != "" {
		s.cascade()
		return
	}
	if !s.submit() {
		s.replier.answer(result{shardResult: shardResult{err: errQueueFull}})
	}
}

// prepare implements client.
func (s *spend) prepare(res result) { s.replier.prepare(res) }

// finish implements client. An acquire that turned out to cascade goes on at all levels.
func (s *spend) finish(res result) {
	switch {
	case res.err != nil:
		s.replier.answer(res)
	case res.verdict == verdictMoved:
		s.cascade()
	case res.verdict == verdictDeny:
		statuses, wait, _ := res.verdictOf(s.call.amounts)
		s.replier.deny(statuses, wait)
	default:
		s.replier.answer(res)
	}
}
