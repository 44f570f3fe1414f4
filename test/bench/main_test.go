package bench

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage as rarely as the tidegate command does.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
