package journal

import (
	"errors"
	"syscall"
)

// failure is why no record is settled.
type failure struct {
	err   error
	final bool
}

// finalError is a failure that cannot be tried again, whatever its cause: what a
// disk holds after a failed fsync is not known until it is read again, and a
// second fsync of the same file may succeed for data that is gone.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// isFinal reports whether an error is the journal's end. A write that found no
// room is not: it has changed nothing but the file's end, which void takes back.
func isFinal(err error) bool {
	var final finalError
	return errors.As(err, &final) ||
		!errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) && !errors.Is(err, syscall.EFBIG)
}

// Err returns why no record is settled: want of space, which Retry may end, or a
// failure that is final, a failed write or fsync or Close. After a final one the
// way on is to open the directory again.
func (j *Journal) Err() error {
	if f := j.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Failed is closed when the disk has failed for good.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Retry writes the records that found no room, where there are any, and returns
// Err. Nothing else ends that failure.
func (j *Journal) Retry() error {
	<-j.turn
	defer func() { j.turn <- struct{}{} }()
	if f := j.failure.Load(); f != nil && !f.final {
		j.tryWrite(j.options.Sync == Always)
	}
	return j.Err()
}

// fail keeps the records of a group that was not written, unless err is final, and
// tells all who wait. The caller holds mu.
func (j *Journal) fail(err error, g *group) {
	close(g.done)
	if isFinal(err) {
		j.options.Log.Error("the disk failed: nothing is served until the store is opened again", "error", err)
		j.end(err)
		close(j.failed)
		return
	}
	if j.failure.Load() == nil {
		j.options.Log.Error("the disk has no room: nothing is served until it has", "error", err)
	}
	j.failure.Store(&failure{err: err})
	behind := j.gathering
	close(behind.done)
	j.gathering = newGroup(nil)
	j.gathering.frame = append(g.frame, behind.frame[headerSize:]...)
	j.gathering.count = g.count + behind.count
	j.gathering.last = max(g.last, behind.last)
}

// end makes err the journal's end, unless it has one. The caller holds mu.
func (j *Journal) end(err error) {
	if f := j.failure.Load(); f == nil || !f.final {
		j.failure.Store(&failure{err: err, final: true})
		close(j.gathering.done) // nobody will write it
	}
}

// recovered ends a failure for want of space. The caller holds mu.
func (j *Journal) recovered() {
	if j.failure.Swap(nil) != nil {
		j.options.Log.Info("the disk has room again: all that was not written is, and requests are served")
	}
}

// void takes back what a failed write has left behind the last whole frame and
// returns the write's error.
func (j *Journal) void(err error) error {
	if failed := j.file.Truncate(j.size); failed != nil {
		return finalError{errors.Join(err, failed)}
	}
	return err
}
