package audit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
)

// sealForm begins the sealed text: another form of events gets another name.
const sealForm = "tidegate audit event 1"

// ErrBroken says that events are not as they were written.
var ErrBroken = errors.New("the audit trail is broken")

// sealer knows the audit keys of the table. The first change makes the first
// key.
type sealer struct {
	client *dynamodb.Client
	table  string
	now    func() (time.Time, error)

	mu    sync.Mutex
	known []table.SigningKey // guarded by mu: oldest first; empty: not read yet
}

// newest is the key that seals.
func (s *sealer) newest(ctx context.Context) (table.SigningKey, error) {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if len(known) == 0 {
		var err error
		if known, err = s.load(ctx); err != nil {
			return table.SigningKey{}, err
		}
	}
	return known[len(known)-1], nil
}

// find returns the key of an id. It reads the table again for an unknown id; ok is false if
// the table has no such key.
func (s *sealer) find(ctx context.Context, id table.SigningKeyID) (k table.SigningKey, ok bool, err error) {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if k, ok = pick(known, id); ok {
		return k, true, nil
	}
	if known, err = s.load(ctx); err != nil {
		return table.SigningKey{}, false, err
	}
	k, ok = pick(known, id)
	return k, ok, nil
}

func pick(known []table.SigningKey, id table.SigningKeyID) (table.SigningKey, bool) {
	for _, k := range known {
		if k.ID == id {
			return k, true
		}
	}
	return table.SigningKey{}, false
}

func (s *sealer) load(ctx context.Context) ([]table.SigningKey, error) {
	known, err := store.EnsureSigningKeys(ctx, s.client, s.table, table.AuditKeys, s.now)
	if err != nil {
		return nil, fmt.Errorf("audit keys: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = known
	return known, nil
}

// macOf seals everything about an event but its ttl, which may be moved.
func macOf(k table.SigningKey, e *table.AuditEvent) []byte {
	h := hmac.New(sha256.New, k.Secret)
	verified := "unverified"
	if e.By.Verified {
		verified = "verified"
	}
	for _, field := range []string{
		sealForm, e.Key.Namespace, e.Key.ID, string(e.Action), e.By.User, e.By.Account, verified,
		e.Before, e.After, string(e.Previous), string(e.KeyID[:]),
	} {
		writeNumber(h, uint64(len(field)))
		_, _ = h.Write([]byte(field)) // a hash never fails
	}
	writeNumber(h, uint64(e.Key.AtMs))
	writeNumber(h, uint64(e.Key.Sequence))
	return h.Sum(nil)
}

func writeNumber(h hash.Hash, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	_, _ = h.Write(b[:]) // a hash never fails
}

// verify reports whether consecutive events, the oldest first, are as
// they were written and complete. ErrBroken names the first that is not; every
// other error says that it could not be found out.
func (l *Log) verify(ctx context.Context, events ...*table.AuditEvent) error {
	for i, e := range events {
		k, ok, err := l.sealer.find(ctx, e.KeyID)
		switch {
		case err != nil:
			return err
		case !ok || !hmac.Equal(macOf(k, e), e.MAC):
			return fmt.Errorf("%w: event %d was altered", ErrBroken, e.Key.Sequence)
		case i == 0:
			continue
		}
		last := events[i-1]
		if e.Key.Namespace != last.Key.Namespace || e.Key.Sequence != last.Key.Sequence+1 || !hmac.Equal(e.Previous, last.MAC) {
			return fmt.Errorf("%w: event %d does not follow event %d", ErrBroken, e.Key.Sequence, last.Key.Sequence)
		}
	}
	return nil
}
