package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() { os.Exit(start()) }

// gcPercent is GOGC where the environment does not set it. The heap of a service
// is small and its goroutines are many, so that most of the work of a
// collection is their stacks: fewer collections gave a third more acquires per
// second on two cores.
const gcPercent = 400

// start ends with the first signal in order, with the second at once.
func start() int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], process{
		getenv: os.Getenv,
		self:   invocation(os.Args[0]),
		stdout: os.Stdout,
		stderr: os.Stderr,
	})
}
