package bench

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// exactly waits as the fault layer does, but to a tenth of a millisecond. A timer of
// Go's fires up to a millisecond late in a process that has little else to do, because
// the runtime waits for the network in whole milliseconds; the kernel's own timer is
// waited for as the network is.
func exactly(ctx context.Context, d time.Duration) (err error) {
	if d <= 0 {
		return ctx.Err()
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	timer := os.NewFile(uintptr(fd), "timer")
	defer func() { err = errors.Join(err, timer.Close()) }()
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}, nil); err != nil {
		return os.NewSyscallError("timerfd_settime", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = timer.SetReadDeadline(time.Now()) }) // it fails on a timer that has fired
	defer stop()
	var expirations [8]byte
	if _, err := timer.Read(expirations[:]); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return nil
}
