package lease

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"math"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

const (
	// tokenVersion is the first byte of a token; other versions are refused.
	tokenVersion = 2
	// signatureBytes of HMAC-SHA256 are kept: 128 bits (RFC 2104 §5 allows
	// truncation to half).
	signatureBytes = 16
)

var (
	errForged = errors.New("the lease is not one of ours, or was altered")
	// errUnknownKey is errForged, unless another node has just made the key.
	errUnknownKey = fmt.Errorf("%w: its key is unknown", errForged)
	// errRevokedKey is errForged: holders of the key can make any lease.
	errRevokedKey = fmt.Errorf("%w: its signing key was revoked", errForged)
	// errLateKey is errForged: nodes no longer signed with the key when the lease was issued.
	errLateKey = fmt.Errorf("%w: its signing key was retired before", errForged)
)

// signingKey signs and checks tokens.
type signingKey struct {
	id      table.SigningKeyID
	revoked bool
	last    bucket.Instant // latest issue time of its leases
	sealers sync.Pool      // of *sealer
}

// sealer holds the buffers of a signature. They are kept, because every admission signs.
type sealer struct {
	mac     hash.Hash // keyed with the secret
	message bytes.Buffer
	codec   cbor.UserBufferEncMode
}

func newSigningKey(id table.SigningKeyID, secret []byte) *signingKey {
	k := &signingKey{id: id, last: math.MaxInt64}
	k.sealers.New = func() any {
		codec, err := cbor.EncOptions{}.UserBufferEncMode()
		if err != nil { // the default options are good
			panic(err)
		}
		return &sealer{mac: hmac.New(sha256.New, secret), codec: codec}
	}
	return k
}

// signature returns the signature of a message.
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
func (k *signingKey) seal(l *Lease) (string, error) {
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

// open checks a token and returns its lease. It fails with errForged for a token that no
// key of the table has signed while nodes used the key, and with errUnknownKey if keyOf
// returns nil for its key.
func open(token string, keyOf func(id table.SigningKeyID) *signingKey) (*Lease, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < 1+table.SigningKeyIDBytes+signatureBytes || raw[0] != tokenVersion {
		return nil, errForged
	}
	key := keyOf(table.SigningKeyID(raw[1 : 1+table.SigningKeyIDBytes]))
	if key == nil {
		return nil, errUnknownKey
	}
	if key.revoked {
		return nil, errRevokedKey
	}
	message := raw[:len(raw)-signatureBytes]
	if want := key.signature(message); !hmac.Equal(want[:], raw[len(message):]) {
		return nil, errForged
	}
	l := new(Lease)
	if err := cbor.Unmarshal(message[1+table.SigningKeyIDBytes:], l); err != nil {
		return nil, fmt.Errorf("%w: decode a lease of our own signing: %w", errForged, err)
	}
	if l.At > key.last {
		return nil, errLateKey
	}
	return l, nil
}
