package journal

import (
	"errors"
	"syscall"
)

// failure is the reason why records do not settle.
type failure struct {
	err   error
	final bool
}

// finalError is a failure that must not be retried, whatever its cause: after a
// failed fsync, the content of the disk is unknown until it is read again, and a
// second fsync of the same file may succeed for lost data.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// isFinal reports whether an error ends the journal. A write that found the disk
// full does not: it has changed only the end of the file, which void restores.
func isFinal(err error) bool {
	var final finalError
	return errors.As(err, &final) ||
		!errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) && !errors.Is(err, syscall.EFBIG)
}

// Err returns the reason why records do not settle: a full disk, which Retry may
// overcome, or a final failure: a failed write or fsync, or Close. After a final
// failure, the directory must be opened again.
func (j *Journal) Err() error {
	if f := j.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Failed returns a channel that is closed when the disk has failed for good.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Retry writes the records that did not fit on the disk, if any, and returns Err.
// A full disk is retried only by Retry.
func (j *Journal) Retry() error {
	<-j.turn
	defer func() { j.turn <- struct{}{} }()
	if f := j.failure.Load(); f != nil && !f.final {
		j.tryWrite(j.options.Sync == Always)
	}
	return j.Err()
}

// fail keeps the records of a group that was not written, unless err is final, and
// wakes all waiting callers. The caller holds mu.
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

// end records err as the final failure, unless the journal already has a final
// failure. The caller holds mu.
func (j *Journal) end(err error) {
	if f := j.failure.Load(); f == nil || !f.final {
		j.failure.Store(&failure{err: err, final: true})
		close(j.gathering.done) // it will not be written
	}
}

// recovered clears a failure caused by a full disk. The caller holds mu.
func (j *Journal) recovered() {
	if j.failure.Swap(nil) != nil {
		j.options.Log.Info("the disk has room again: all that was not written is, and requests are served")
	}
}

// void removes the remains of a failed write behind the last whole frame and
// returns the error of the write.
func (j *Journal) void(err error) error {
	if failed := j.file.Truncate(j.size); failed != nil {
		return finalError{errors.Join(err, failed)}
	}
	return err
}
