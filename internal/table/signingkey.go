package table

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	attrSecret  = "secret"
	attrCreated = "created_ms"
)

// SigningKeyIDBytes is the length of a signing key's id.
const SigningKeyIDBytes = 4

// SigningKeyID names a signing key in the data that it signs.
type SigningKeyID [SigningKeyIDBytes]byte

// SigningKey is a secret key of the table. Only nodes that sign read it: no event,
// command or log carries it.
type SigningKey struct {
	ID        SigningKeyID
	Secret    []byte
	CreatedMs int64 // unix milliseconds
}

// KeyPurpose is the purpose of a signing key. A key verifies only data of its
// purpose.
type KeyPurpose uint8

// The purposes.
const (
	LeaseKeys KeyPurpose = iota // sign leases
	AuditKeys                   // seal audit events
)

// Query returns the query of the keys of a purpose.
func (p KeyPurpose) Query() keys.Query {
	if p == AuditKeys {
		return keys.AuditKeys()
	}
	return keys.LeaseKeys()
}

func (p KeyPurpose) item(id string) keys.Item {
	if p == AuditKeys {
		return keys.AuditKey{ID: id}
	}
	return keys.LeaseKey{ID: id}
}

// PutSigningKeyInput stores a new key. It is refused if the id is taken.
func PutSigningKeyInput(table string, p KeyPurpose, k SigningKey) *dynamodb.PutItemInput {
	c := newCondition(1)
	c.requireAbsent(attrPK)
	item := KeyItem(p.item(base64.RawURLEncoding.EncodeToString(k.ID[:])).Key())
	item[attrSecret] = &types.AttributeValueMemberB{Value: k.Secret}
	item[attrCreated] = number(k.CreatedMs)
	return &dynamodb.PutItemInput{
		TableName:                &table,
		Item:                     item,
		ConditionExpression:      c.conditions(),
		ExpressionAttributeNames: c.names,
	}
}

// DecodeSigningKeys reads a page of signing keys of any purpose.
func DecodeSigningKeys(items []Item) ([]SigningKey, error) {
	found := make([]SigningKey, 0, len(items))
	for _, item := range items {
		k, err := decodeSigningKey(item)
		if err != nil {
			return nil, err
		}
		found = append(found, k)
	}
	return found, nil
}

func decodeSigningKey(item Item) (SigningKey, error) {
	parsed, err := ItemKey(item)
	if err != nil {
		return SigningKey{}, fmt.Errorf("signing key: %w", err)
	}
	var name string
	switch key := parsed.(type) {
	case keys.LeaseKey:
		name = key.ID
	case keys.AuditKey:
		name = key.ID
	default:
		return SigningKey{}, fmt.Errorf("%w: %s is no signing key", ErrDamaged, parsed.Key().SK)
	}
	id, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil || len(id) != SigningKeyIDBytes {
		return SigningKey{}, fmt.Errorf("%w: signing key %s: its id is not %d bytes", ErrDamaged, name, SigningKeyIDBytes)
	}
	secret, ok := item[attrSecret].(*types.AttributeValueMemberB)
	if !ok || len(secret.Value) == 0 {
		return SigningKey{}, fmt.Errorf("%w: signing key %s has no secret", ErrDamaged, name)
	}
	d := decoder{item: item}
	k := SigningKey{ID: SigningKeyID(id), Secret: secret.Value, CreatedMs: d.number(attrCreated)}
	if d.err != nil {
		return SigningKey{}, fmt.Errorf("%w: signing key %s: %w", ErrDamaged, name, d.err)
	}
	return k, nil
}

// SortSigningKeys sorts keys by age, and by id among keys of the same age. The last
// key signs.
func SortSigningKeys(found []SigningKey) {
	slices.SortFunc(found, func(a, b SigningKey) int {
		return cmp.Or(cmp.Compare(a.CreatedMs, b.CreatedMs), bytes.Compare(a.ID[:], b.ID[:]))
	})
}
