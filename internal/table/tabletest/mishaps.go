package tabletest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidegate/tidegate/engine/fault"
)

// Mishaps returns a function for fault.Transport.Match that fails a third of the
// writes, at random, with faults of all kinds; some faults occur only after the write
// was made.
func Mishaps(random *rand.Rand) func(operation string, body []byte) fault.Fault {
	var mu sync.Mutex
	late := errors.New("the connection was lost")
	return func(string, []byte) fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch random.IntN(24) {
		case 0:
			return fault.Throttling()
		case 1:
			return fault.InternalError()
		case 2:
			return fault.InternalErrorAfter()
		case 3, 4:
			return fault.Fault{Kind: fault.ReplyLost}
		case 5:
			return fault.Fault{Kind: fault.ReplyHangs}
		case 6, 7: // it arrives when its sender believes it lost, and others have written
			return fault.Fault{Kind: fault.Late, Delay: time.Duration(random.IntN(50)) * time.Millisecond, Err: late}
		}
		return fault.Fault{}
	}
}
