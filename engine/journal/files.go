package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// dirMode and fileMode are of a service's own: the table holds signing keys.
	dirMode  = 0o700
	fileMode = 0o600

	lockName       = "LOCK"
	logPrefix      = "log-"
	snapshotPrefix = "snapshot-"
	asideSuffix    = ".aside"
)

// name returns the file name of a number, padded so that names sort like numbers.
func name(prefix string, number uint64) string { return fmt.Sprintf("%s%020d", prefix, number) }

func (j *Journal) path(name string) string { return filepath.Join(j.options.Dir, name) }

// lock reserves the directory for this process until unlock or the end of the
// process. used reports whether a process has had it before.
func lock(dir string, sync func(string) error) (used bool, unlock func() error, err error) {
	if err := makeDir(filepath.Clean(dir), sync); err != nil {
		return false, nil, fmt.Errorf("make the directory %s: %w", dir, err)
	}
	// Earlier releases made directories that the group may read. A file system without
	// modes refuses the change, and has nothing to tighten.
	_ = os.Chmod(dir, dirMode)
	path := filepath.Join(dir, lockName)
	_, err = os.Stat(path)
	used = err == nil
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return used, nil, fmt.Errorf("write to the directory %s: %w", dir, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return used, nil, fmt.Errorf("%w: another process has taken %s; stop it, or give another directory", ErrInUse, path)
		}
		return used, nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return used, file.Close, nil
}

// ErrInUse means that another process has the directory open.
var ErrInUse = errors.New("the directory is in use")

// listing holds the numbers of the files in a directory, in ascending order.
type listing struct {
	logs, snapshots []uint64
}

// list reads the directory. It ignores files that are still aside.
func (j *Journal) list() (l listing, err error) {
	entries, err := os.ReadDir(j.options.Dir)
	if err != nil {
		return l, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), asideSuffix) {
			continue
		}
		for prefix, numbers := range map[string]*[]uint64{logPrefix: &l.logs, snapshotPrefix: &l.snapshots} {
			if text, ok := strings.CutPrefix(e.Name(), prefix); ok {
				n, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					return l, fmt.Errorf("%s is no file of this program: move it away", j.path(e.Name()))
				}
				*numbers = append(*numbers, n)
			}
		}
	}
	slices.Sort(l.logs)
	slices.Sort(l.snapshots)
	return l, nil
}

// removeAside removes the unfinished files of a crash. No write may be running.
func (j *Journal) removeAside() error {
	names, err := filepath.Glob(j.path("*" + asideSuffix))
	for _, path := range names {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// aside creates a file under a temporary name; adopt gives it its final name.
func (j *Journal) aside(name string, kind fileKind, number uint64) (File, error) {
	path := j.path(name + asideSuffix)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, err
	}
	f := j.wrap(osFile{file})
	if _, err := f.Write(fileHeader(kind, number, version)); err != nil {
		return nil, errors.Join(err, f.Close(), removeIfThere(path))
	}
	return f, nil
}

// osFile is a file of the operating system.
type osFile struct{ *os.File }

// Truncate cuts the file to a size, where the next Write goes on.
func (f osFile) Truncate(size int64) error {
	if err := f.File.Truncate(size); err != nil {
		return err
	}
	_, err := f.Seek(size, io.SeekStart)
	return err
}

func (j *Journal) wrap(f File) File {
	if j.options.Wrap != nil {
		return j.options.Wrap(f)
	}
	return f
}

// adopt gives a file its final name, durably: from then on the file exists with all
// of its content, even after a crash.
func (j *Journal) adopt(f interface{ Sync() error }, name string) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(j.path(name+asideSuffix), j.path(name)); err != nil {
		return err
	}
	if err := j.options.SyncDir(j.options.Dir); err != nil {
		return finalError{err} // it may be there or not after a crash, and asking again does not tell
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDir makes a directory and its parents durably: they survive a crash.
func makeDir(dir string, sync func(string) error) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is no directory", dir)
	case err == nil || !errors.Is(err, os.ErrNotExist):
		return err
	}
	above := filepath.Dir(dir)
	if err := makeDir(above, sync); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return sync(above)
}

// create makes the log that begins with the record first. The caller owns the turn
// or is the only user.
func (j *Journal) create(first uint64) (File, error) {
	own := name(logPrefix, first)
	f, err := j.aside(own, kindLog, first)
	if err != nil {
		return nil, err
	}
	if err := j.adopt(f, own); err != nil {
		return nil, errors.Join(err, f.Close(), removeIfThere(j.path(own+asideSuffix)))
	}
	return f, nil
}

// appendTo makes f, the log that begins with the record first, the last log.
func (j *Journal) appendTo(f File, first uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.logs); n > 0 && j.logs[n-1].first == first {
		j.logs = j.logs[:n-1] // an empty log of an older format, which f has replaced
	}
	j.logs = append(j.logs, log{first: first})
	j.file, j.size = f, headerSize
}

// begin starts a log where no other log has to be ended.
func (j *Journal) begin(first uint64) error {
	f, err := j.create(first)
	if err == nil {
		j.appendTo(f, first)
	}
	return err
}

// roll ends the log, synced, and begins the next log. So a log that has a successor
// has no torn tail, and a log with an end mark has a successor. If roll fails
// because the disk is full, the only change is that the successor may exist, empty.
func (j *Journal) roll(first uint64) error {
	old := j.file
	if err := old.Sync(); err != nil {
		return finalError{err}
	}
	j.synced = first - 1
	next, err := j.create(first)
	if err != nil {
		return err
	}
	mark := newFrame(nil)
	seal(mark, endMagic, first, j.synced)
	if _, err := old.Write(mark); err != nil {
		return errors.Join(j.void(err), next.Close())
	}
	// No record of the next log is acknowledged before this sync. So Open notices if
	// a log with acknowledged records is lost.
	if err := errors.Join(old.Sync(), j.reach.file.Sync(), old.Close()); err != nil {
		return finalError{errors.Join(err, next.Close())}
	}
	j.appendTo(next, first)
	return nil
}
