package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	dirMode  = 0o750
	lockMode = 0o640
)

// lockDir makes the data directory, if need be, and takes it for this process
// until unlock or the process's end.
func lockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, advise(fmt.Errorf("make the data directory %s: %w", dir, err), "Give a directory that can be written with --dir.")
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, lockMode)
	if err != nil {
		return nil, advise(fmt.Errorf("write to the data directory %s: %w", dir, err), "Give a directory that can be written with --dir.")
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, advise(fmt.Errorf("the data directory %s is in use", dir), "Another `tidegate up` runs on it: stop that, or give another directory with --dir.")
		}
		return nil, fmt.Errorf("lock the data directory %s: %w", dir, err)
	}
	return func() { _ = file.Close() }, nil
}
