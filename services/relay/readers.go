package relay

import (
	"context"

	"github.com/sourcegraph/conc"

	"github.com/tidegate/tidegate/internal/leader"
)

// readers starts and stops the relay's readers. It is owned by the watch.
type readers struct {
	relay   *Relay
	running map[source]*running
	all     conc.WaitGroup
}

// running is a reader that was started.
type running struct {
	stop   context.CancelFunc
	reader *reader
	ended  chan struct{}
	done   bool // it came to the shard's end; written before ended is closed
}

// start starts the reader of a stream shard in a term of the feed.
func (s *readers) start(ctx context.Context, at source, term leader.Term, partly bool) {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{stop: cancel, ended: make(chan struct{}), reader: &reader{relay: s.relay, at: at, term: term, partly: partly}}
	s.running[at] = r
	s.all.Go(func() {
		defer func() {
			close(r.ended)
			select {
			case s.relay.ended <- struct{}{}:
			default: // a survey is due in any case
			}
		}()
		defer cancel()
		r.done = r.reader.run(ctx)
	})
}

// ended removes the readers that have ended, and returns them.
func (s *readers) ended() map[source]*running {
	ended := map[source]*running{}
	for at, r := range s.running {
		select {
		case <-r.ended:
			ended[at] = r
			delete(s.running, at)
		default:
		}
	}
	return ended
}

// stopAllBut stops the readers of other stream shards, and readers that read more or
// less of their shard than they should.
func (s *readers) stopAllBut(mine map[source]bool) {
	for at, r := range s.running {
		if partly, ok := mine[at]; !ok || partly != r.reader.partly {
			r.stop()
		}
	}
}

// stop stops all readers and waits for them.
func (s *readers) stop() {
	for _, r := range s.running {
		r.stop()
	}
	s.all.Wait()
}
