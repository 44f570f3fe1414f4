package embednats

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	lockName = "LOCK"
	dirMode  = 0o700 // of this process alone: JetStream's files hold leases and changes
	lockMode = 0o600
	longPID  = 20 // bytes; enough for any process id
)

// lockDir creates the directory if it is missing, and locks it until the file is
// closed or the process ends in any way. Without the lock, two servers could open
// the same directory and destroy each other's files.
func lockDir(dir string) (*os.File, error) {
	if dir == "" {
		return nil, &DirError{Dir: `""`, Err: errors.New("no directory is named")}
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, &DirError{Dir: dir, Err: err}
	}
	// Earlier releases made directories that the group may read. A file system without
	// modes refuses the change, and has nothing to tighten.
	_ = os.Chmod(dir, dirMode)
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, lockMode)
	if err != nil {
		return nil, &DirError{Dir: dir, Err: err}
	}
	if err := claim(file, dir); err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	return file, nil
}

// claim locks the file and writes this process's ID into it, for the error message
// of later processes.
func claim(file *os.File, dir string) error {
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return &InUseError{Dir: dir, PID: holder(file)}
	case err != nil:
		return &DirError{Dir: dir, Err: err}
	}
	if err := file.Truncate(0); err != nil {
		return &DirError{Dir: dir, Err: err}
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return &DirError{Dir: dir, Err: err}
	}
	return nil
}

// holder reads the ID of the process that has the lock.
func holder(file *os.File) string {
	b, err := io.ReadAll(io.LimitReader(file, longPID))
	if err != nil {
		return "" // it is for a message only
	}
	pid := strings.TrimSpace(string(b))
	if _, err := strconv.Atoi(pid); err != nil {
		return ""
	}
	return pid
}
