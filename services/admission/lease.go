package admission

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// lease is what an admitted acquire spent where. It travels as a signed token,
// so that any node can settle it and none has to remember it.
type lease struct {
	_         struct{} `cbor:",toarray"`
	ID        []byte   // random, names the lease in claims
	Sequence  uint32   // how often it was adjusted
	Namespace string   // id
	At        bucket.Instant
	Levels    []leaseLevel // cascade levels, the acquiring entity's first
}

// leaseLevel is one bucket shard that was spent from.
type leaseLevel struct {
	_        struct{} `cbor:",toarray"`
	Entity   string
	Resource string
	Shard    int
	Count    int          // the shard's split level
	Held     []heldTokens // one for each limit of the level, those with nothing spent too
}

// heldTokens is what a lease may still give back to one limit.
type heldTokens struct {
	_      struct{} `cbor:",toarray"`
	Limit  string
	Tokens int64
}

const (
	leaseIDBytes = 12
	// tokenVersion is the first byte of a token; other versions are refused.
	tokenVersion = 1
	// signatureBytes of HMAC-SHA256 are kept: 128 bits (RFC 2104 §5 allows
	// truncation to half).
	signatureBytes = 16
)

var errForged = errors.New("the lease is not one of ours, or was altered")

func newLeaseID() []byte {
	id := make([]byte, leaseIDBytes)
	_, _ = rand.Read(id) // never fails: crypto/rand crashes the program instead
	return id
}

// held is what the level may give back of a limit; ok is false for a limit it
// does not know.
func (l *leaseLevel) held(limit string) (tokens int64, ok bool) {
	for i := range l.Held {
		if l.Held[i].Limit == limit {
			return l.Held[i].Tokens, true
		}
	}
	return 0, false
}

// settled is the level after a settlement: more to give back after a debit,
// less after a credit.
func (l leaseLevel) settled(deltas api.Amounts) leaseLevel {
	held := make([]heldTokens, len(l.Held))
	for i, h := range l.Held {
		delta, _ := deltas.Get(h.Limit)
		held[i] = heldTokens{Limit: h.Limit, Tokens: h.Tokens + delta}
	}
	l.Held = held
	return l
}

// signingKey signs and checks tokens.
type signingKey struct {
	id   [table.LeaseKeyIDBytes]byte
	macs sync.Pool // of hash.Hash keyed with the secret
}

func newSigningKey(id [table.LeaseKeyIDBytes]byte, secret []byte) *signingKey {
	k := &signingKey{id: id}
	k.macs.New = func() any { return hmac.New(sha256.New, secret) }
	return k
}

// sign appends the signature of message to it.
func (k *signingKey) sign(message []byte) []byte {
	mac := k.macs.Get().(hash.Hash) //nolint:forcetypeassert // the pool makes nothing else
	defer k.macs.Put(mac)
	mac.Reset()
	mac.Write(message)
	var sum [sha256.Size]byte
	return append(message, mac.Sum(sum[:0])[:signatureBytes]...)
}

// seal makes the lease's token:
//
//	base64url( version | key id | CBOR of the lease | signature of all before )
func (k *signingKey) seal(l *lease) (string, error) {
	body, err := cbor.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("encode lease: %w", err)
	}
	message := make([]byte, 0, 1+table.LeaseKeyIDBytes+len(body)+signatureBytes)
	message = append(message, tokenVersion)
	message = append(message, k.id[:]...)
	message = append(message, body...)
	return base64.RawURLEncoding.EncodeToString(k.sign(message)), nil
}

// open checks a token and returns its lease. errForged says that it is none of
// ours; keyOf returns nil for a key nobody knows.
func open(token string, keyOf func(id [table.LeaseKeyIDBytes]byte) *signingKey) (*lease, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < 1+table.LeaseKeyIDBytes+signatureBytes || raw[0] != tokenVersion {
		return nil, errForged
	}
	key := keyOf([table.LeaseKeyIDBytes]byte(raw[1 : 1+table.LeaseKeyIDBytes]))
	if key == nil {
		return nil, errForged
	}
	message := raw[: len(raw)-signatureBytes : len(raw)-signatureBytes]
	if !hmac.Equal(key.sign(message)[len(message):], raw[len(message):]) {
		return nil, errForged
	}
	l := new(lease)
	if err := cbor.Unmarshal(message[1+table.LeaseKeyIDBytes:], l); err != nil {
		return nil, fmt.Errorf("decode a lease of our own signing: %w", err)
	}
	return l, nil
}
