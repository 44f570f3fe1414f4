package bench

import (
	"context"
	"os"
	"testing"

	"github.com/tidegate/tidegate/internal/daemon"
)

// TestMain collects garbage as the tidegate command does.
func TestMain(m *testing.M) {
	ctx, stop := context.WithCancel(context.Background())
	go daemon.PaceGC(ctx, os.Getenv("GOGC"))
	code := m.Run()
	stop()
	os.Exit(code)
}
