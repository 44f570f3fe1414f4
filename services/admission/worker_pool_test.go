package admission

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWorkerPoolKeepsItsWorkersForLaterWork(t *testing.T) {
	var c workerPool
	done := make(chan struct{})
	for range 3 * maxIdle {
		c.Go(func() { done <- struct{}{} })
	}
	for range 3 * maxIdle {
		<-done
	}
	c.work.Wait()
	var inner sync.WaitGroup
	inner.Add(1)
	c.Go(func() { c.Go(inner.Done) }) // work may give work
	inner.Wait()
	c.Wait()
	require.Empty(t, c.idle)
	c.Go(func() {}) // late work is done all the same,
	c.Wait()        // and leaves nobody behind
	require.Empty(t, c.idle)
}

func TestAPanicOfAWorkerPoolComesOutAtItsEnd(t *testing.T) {
	var c workerPool
	c.Go(func() { panic("broken") })
	require.Panics(t, c.Wait)
}
