package embednats

import (
	"errors"
	"fmt"
	"syscall"
)

// ListenError means that the server cannot listen on the address.
type ListenError struct {
	Listen string // as asked for
	Err    error
}

// Error returns the problem and its remedy.
func (e *ListenError) Error() string {
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf("NATS cannot listen on %s: something else does, maybe another `tidegate up`; stop it, or give another address with --nats-listen (port 0 takes a free one)", e.Listen)
	}
	return fmt.Sprintf("NATS cannot listen on %q: %v; give an address of this machine with --nats-listen, such as %s", e.Listen, e.Err, DefaultListen)
}

// Unwrap returns the cause.
func (e *ListenError) Unwrap() error { return e.Err }

// InUseError means that another server uses the directory, in this process or in
// another.
type InUseError struct {
	Dir string
	PID string // of the process that uses it; empty if unknown
}

// Error returns the problem and its remedy.
func (e *InUseError) Error() string {
	holder := "another process"
	if e.PID != "" {
		holder = "process " + e.PID
	}
	return fmt.Sprintf("the directory %s is in use by %s; stop that, or give another directory with --dir", e.Dir, holder)
}

// DirError means that the directory cannot be created or written.
type DirError struct {
	Dir string
	Err error
}

// Error returns the problem and its remedy.
func (e *DirError) Error() string {
	return fmt.Sprintf("the directory %s cannot be used: %v; give one that can be written with --dir", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *DirError) Unwrap() error { return e.Err }
