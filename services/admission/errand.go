package admission

import "sync"

// errand is an operation for one bucket shard, one of several that belong together.
type errand struct {
	to *committer
	operation
}

// together hands all operations over and waits until each is answered, at the latest
// when its time is up.
func together(errands []errand, whose asker) []result {
	results := make([]result, len(errands))
	var waiting sync.WaitGroup
	waiting.Add(len(errands))
	for i := range errands {
		q := &call{operation: errands[i].operation, asker: whose, finish: func(r result) {
			results[i] = r
			waiting.Done()
		}}
		if !errands[i].to.enqueue(q) {
			q.answer(result{err: errQueueFull})
		}
	}
	waiting.Wait()
	return results
}
