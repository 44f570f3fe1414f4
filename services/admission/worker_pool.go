package admission

import (
	"sync"

	"github.com/sourcegraph/conc"
)

// maxIdle is how many workers wait for work at most. Each keeps a stack of about
// 32 KB until the garbage collector finds it unused.
const maxIdle = 512

// workerPool runs work on goroutines that it keeps for later work. A goroutine begins with
// a small stack. To grow it to the size that a call of the AWS SDK needs takes longer than
// the rest of a node's work for an acquire.
//
// Work that panics ends its worker, and Wait panics in its stead.
type workerPool struct {
	work    sync.WaitGroup // given and not yet done
	workers conc.WaitGroup

	mu   sync.Mutex
	idle []chan func() // guarded by mu: workers that wait, the last to have worked at the end
	over bool          // guarded by mu: no worker waits any more
}

// Go runs f in the background and never blocks. Work may give more work; other callers
// may not once Wait was called.
func (c *workerPool) Go(f func()) {
	c.work.Add(1)
	if w := c.takeIdle(); w != nil {
		w <- f
		return
	}
	w := make(chan func(), 1)
	w <- f
	c.workers.Go(func() { c.run(w) })
}

// Hold makes Wait wait for work that is given later.
func (c *workerPool) Hold() { c.work.Add(1) }

// Release ends a Hold. The work, if any, was given before.
func (c *workerPool) Release() { c.work.Done() }

func (c *workerPool) takeIdle() chan func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.idle) - 1
	if last < 0 {
		return nil
	}
	w := c.idle[last]
	c.idle = c.idle[:last]
	return w
}

func (c *workerPool) run(w chan func()) {
	for f := range w {
		c.do(f)
		if !c.wait(w) {
			return
		}
	}
}

func (c *workerPool) do(f func()) {
	defer c.work.Done()
	f()
}

// wait takes a worker among the idle ones, if there is use for it.
func (c *workerPool) wait(w chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || len(c.idle) >= maxIdle {
		return false
	}
	c.idle = append(c.idle, w)
	return true
}

// Wait returns when all work is done and all workers are gone.
func (c *workerPool) Wait() {
	c.work.Wait()
	c.mu.Lock()
	c.over = true
	for _, w := range c.idle {
		close(w)
	}
	c.idle = nil
	c.mu.Unlock()
	c.workers.Wait()
}
