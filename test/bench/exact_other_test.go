//go:build !linux

package bench

import (
	"context"
	"time"
)

// exactly is the fault layer's own wait where there is no timer to read from.
var exactly func(context.Context, time.Duration) error
