package admission

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"iter"
	"slices"
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
	ID        string   // names the lease's record; unique, as a nonce is, and no secret
	Epoch     int64    // of the lease records when the lease was issued
	Number    uint32   // of its next operation, from 1
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
	Held     []heldTokens // one for each limit of the level, also for limits with nothing spent
	// Brought are the limits that the acquire brought, nil where stored ones held:
	// nobody else knows them, once their bucket is gone.
	Brought []broughtLimit
}

// broughtLimit is a bucket.Limit.
type broughtLimit struct {
	_                        struct{} `cbor:",toarray"`
	Name                     string
	Capacity, Refill, Period int64
}

// heldTokens is what an acquire spent of one limit. The token of the first operation
// says it; what the lease holds after that is in its record, and later tokens say 0.
type heldTokens struct {
	_      struct{} `cbor:",toarray"`
	Limit  string
	Tokens int64
}

const (
	// tokenVersion is the first byte of a token; other versions are refused.
	tokenVersion = 2
	// signatureBytes of HMAC-SHA256 are kept: 128 bits (RFC 2104 §5 allows
	// truncation to half).
	signatureBytes = 16
)

var (
	errForged = errors.New("the lease is not one of ours, or was altered")
	// errUnknownKey is errForged unless the key is one that was made meanwhile.
	errUnknownKey = fmt.Errorf("%w: its key is unknown", errForged)
)

// index returns the position of a limit in Held, −1 for a limit that the level does
// not know.
func (l *leaseLevel) index(limit string) int {
	return slices.IndexFunc(l.Held, func(h heldTokens) bool { return h.Limit == limit })
}

// all returns the refund of all that the acquire spent at the level.
func (l *leaseLevel) all() api.Amounts {
	var all api.Amounts
	for _, h := range l.Held {
		if h.Tokens > 0 {
			all = append(all, api.Amount{Name: h.Limit, Tokens: -h.Tokens})
		}
	}
	return all
}

// buckets are the ranges of levels that are of one bucket each: the shards that an
// acquire was gathered from, or the one that it was spent from.
func (l *lease) buckets() iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < len(l.Levels); {
			to := from + 1
			for to < len(l.Levels) && l.Levels[to].Entity == l.Levels[from].Entity && l.Levels[to].Resource == l.Levels[from].Resource {
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// next returns the lease as the token of operation number tells it.
func (l *lease) next(number uint32) *lease {
	next := *l
	next.Number = number
	next.Levels = slices.Clone(l.Levels)
	for i := range next.Levels {
		held := slices.Clone(next.Levels[i].Held)
		for n := range held {
			held[n].Tokens = 0
		}
		next.Levels[i].Held = held
	}
	return &next
}

// signingKey signs and checks tokens.
type signingKey struct {
	id      table.SigningKeyID
	sealers sync.Pool // of *sealer
}

// sealer is what one signature needs, kept because every admission needs one.
type sealer struct {
	mac     hash.Hash // keyed with the secret
	message bytes.Buffer
	codec   cbor.UserBufferEncMode
}

func newSigningKey(id table.SigningKeyID, secret []byte) *signingKey {
	k := &signingKey{id: id}
	k.sealers.New = func() any {
		codec, err := cbor.EncOptions{}.UserBufferEncMode()
		if err != nil { // the default options are good
			panic(err)
		}
		return &sealer{mac: hmac.New(sha256.New, secret), codec: codec}
	}
	return k
}

// signature is that of a message.
func (k *signingKey) signature(message []byte) [signatureBytes]byte {
	s := k.sealers.Get().(*sealer) //nolint:forcetypeassert // the pool makes nothing else
	defer k.sealers.Put(s)
	return s.sign(message)
}

func (s *sealer) sign(message []byte) [signatureBytes]byte {
	var sum [sha256.Size]byte
	s.mac.Reset()
	s.mac.Write(message)
	return [signatureBytes]byte(s.mac.Sum(sum[:0]))
}

// seal makes the lease's token:
//
//	base64url( version | key id | CBOR of the lease | signature of all before )
func (k *signingKey) seal(l *lease) (string, error) {
	s := k.sealers.Get().(*sealer) //nolint:forcetypeassert // the pool makes nothing else
	defer k.sealers.Put(s)
	s.message.Reset()
	s.message.WriteByte(tokenVersion)
	s.message.Write(k.id[:])
	if err := s.codec.MarshalToBuffer(l, &s.message); err != nil {
		return "", fmt.Errorf("encode lease: %w", err)
	}
	signature := s.sign(s.message.Bytes())
	s.message.Write(signature[:])
	return base64.RawURLEncoding.EncodeToString(s.message.Bytes()), nil
}

// open checks a token and returns its lease. errForged says that it is none of
// ours, errUnknownKey that keyOf does not know its key and returned nil.
func open(token string, keyOf func(id table.SigningKeyID) *signingKey) (*lease, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < 1+table.SigningKeyIDBytes+signatureBytes || raw[0] != tokenVersion {
		return nil, errForged
	}
	key := keyOf(table.SigningKeyID(raw[1 : 1+table.SigningKeyIDBytes]))
	if key == nil {
		return nil, errUnknownKey
	}
	message := raw[:len(raw)-signatureBytes]
	if want := key.signature(message); !hmac.Equal(want[:], raw[len(message):]) {
		return nil, errForged
	}
	l := new(lease)
	if err := cbor.Unmarshal(message[1+table.SigningKeyIDBytes:], l); err != nil {
		return nil, fmt.Errorf("%w: decode a lease of our own signing: %w", errForged, err)
	}
	return l, nil
}
