package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/tidegate/tidegate/internal/process"
)

func main() { os.Exit(start()) }

// start ends with the first signal in order, with the second at once.
func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	var pace sync.WaitGroup
	running, end := context.WithCancel(context.Background())
	pace.Go(func() { process.PaceGC(running, os.Getenv("GOGC")) })
	defer func() { end(); pace.Wait() }()
	return run(ctx, os.Args[1:], environment{
		getenv:   os.Getenv,
		self:     invocation(os.Args[0]),
		stdin:    os.Stdin,
		terminal: term.IsTerminal(int(os.Stdin.Fd())),
		stdout:   os.Stdout,
		stderr:   os.Stderr,
	})
}
