package control

import (
	"time"

	"github.com/tidegate/tidegate/internal/table"
)

const (
	// KeyRefreshEvery is the interval at which nodes reread the keys.
	KeyRefreshEvery = time.Minute
	// signAfter is the time from a lease key's creation until nodes sign with it. By
	// then every node has read it and can check its leases.
	signAfter = 2 * KeyRefreshEvery
	// issueGrace is how long after a key's retirement it may still have signed leases: of a
	// node that has not read the next key yet, or whose clock is behind.
	issueGrace = 2 * KeyRefreshEvery
)

// KeyUse says when a lease key signs, and which leases it verifies. Times are Unix
// milliseconds.
type KeyUse struct {
	table.SigningKey

	// SignsFromMs is the time from which the key signs, until a newer key does.
	SignsFromMs int64
	// LastLeaseMs is the latest issue time of a lease that the key verifies; 0 is no bound,
	// because no newer key signs.
	LastLeaseMs int64
}

// UseKeys returns the uses of all keys, in the order of stored: the oldest first.
func UseKeys(stored []table.SigningKey) []KeyUse {
	uses := make([]KeyUse, len(stored))
	retiredMs := int64(0) // when the keys before i stop signing; 0: never
	for i := len(stored) - 1; i >= 0; i-- {
		k := stored[i]
		uses[i] = KeyUse{SigningKey: k, SignsFromMs: k.CreatedMs}
		if i > 0 && !k.AtOnce {
			uses[i].SignsFromMs += signAfter.Milliseconds()
		}
		if retiredMs != 0 {
			uses[i].LastLeaseMs = retiredMs + issueGrace.Milliseconds()
		}
		neverSigned := k.Revoked() && k.RevokedMs <= uses[i].SignsFromMs
		if !neverSigned && (retiredMs == 0 || uses[i].SignsFromMs < retiredMs) {
			retiredMs = uses[i].SignsFromMs
		}
	}
	return uses
}

// SigningKey returns the index of the key that signs leases at a moment: the newest key that
// is not revoked and that all nodes know by now. It is -1 if all keys are revoked.
func SigningKey(uses []KeyUse, nowMs int64) int {
	oldest := -1
	for i := len(uses) - 1; i >= 0; i-- {
		if uses[i].Revoked() {
			continue
		}
		if i == 0 || uses[i].AtOnce || uses[i].SignsFromMs <= nowMs {
			return i
		}
		oldest = i
	}
	return oldest
}
