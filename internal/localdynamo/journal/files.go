package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	dirMode  = 0o750
	fileMode = 0o640

	lockName       = "LOCK"
	logPrefix      = "log-"
	snapshotPrefix = "snapshot-"
	asideSuffix    = ".aside"
)

// name is the file of a number: so padded that names sort as numbers do.
func name(prefix string, number uint64) string { return fmt.Sprintf("%s%020d", prefix, number) }

func (j *Journal) path(name string) string { return filepath.Join(j.options.Dir, name) }

// lock takes the directory for this process until unlock or the process's end.
func lock(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("make the directory %s: %w", dir, err)
	}
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, fmt.Errorf("write to the directory %s: %w", dir, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: another process has taken %s; stop it, or give another directory", ErrInUse, path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file.Close, nil
}

// ErrInUse is the error of Open where another process has the directory open.
var ErrInUse = errors.New("the directory is in use")

// listing is the files of a directory, by number, lowest first.
type listing struct {
	logs, snapshots []uint64
}

// list reads the directory; files aside are left out.
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

// removeAside removes what a crash left unfinished. Nobody may be writing.
func (j *Journal) removeAside() error {
	names, err := filepath.Glob(j.path("*" + asideSuffix))
	for _, path := range names {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// aside makes a file under another name, until adopt gives it its own.
func (j *Journal) aside(name string, kind fileKind, number uint64) (File, error) {
	file, err := os.OpenFile(j.path(name+asideSuffix), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, err
	}
	f := j.wrap(file)
	if _, err := f.Write(fileHeader(kind, number)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (j *Journal) wrap(f File) File {
	if j.options.Wrap != nil {
		return j.options.Wrap(f)
	}
	return f
}

// adopt makes a file that was written aside one of the directory's: from then
// on it is there with all its content, whatever happens.
func (j *Journal) adopt(f File, name string) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(j.path(name+asideSuffix), j.path(name)); err != nil {
		return err
	}
	return syncDir(j.options.Dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// begin starts the log whose first record has that number. The caller has the
// turn, or is alone.
func (j *Journal) begin(first uint64) error {
	f, err := j.aside(name(logPrefix, first), kindLog, first)
	if err != nil {
		return err
	}
	if err := j.adopt(f, name(logPrefix, first)); err != nil {
		return errors.Join(err, f.Close())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.logs = append(j.logs, log{first: first})
	j.file, j.size = f, headerSize
	return nil
}

// roll ends the log, synced, and begins the next: so a log that has a
// successor has no torn tail.
func (j *Journal) roll(first uint64) error {
	old := j.file
	if err := old.Sync(); err != nil {
		return err
	}
	j.synced = first - 1
	if err := j.begin(first); err != nil {
		return err
	}
	return old.Close()
}
