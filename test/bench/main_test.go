package bench

import (
	"context"
	"os"
	"testing"

	"github.com/tidegate/tidegate/internal/process"
)

// TestMain collects garbage as the tidegate command does. Started by a benchmark, it
// is the services' process.
func TestMain(m *testing.M) {
	ctx, stop := context.WithCancel(context.Background())
	go process.PaceGC(ctx, os.Getenv("GOGC"))
	code := 0
	if work, ok := os.LookupEnv(apartEnv); ok {
		serve(work)
	} else {
		code = m.Run()
	}
	stop()
	os.Exit(code)
}
