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
	attrAtOnce  = "at_once"
	attrRevoked = "revoked_ms"
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
	AtOnce    bool  // it signs from its creation, because the key before it was revoked
	RevokedMs int64 // unix milliseconds; 0 unless revoked
}

// Revoked reports whether the key verifies nothing any more.
func (k *SigningKey) Revoked() bool { return k.RevokedMs != 0 }

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

func (p KeyPurpose) key(id SigningKeyID) Item {
	return KeyItem(p.item(base64.RawURLEncoding.EncodeToString(id[:])).Key())
}

// PutSigningKeyInput stores a new key. It is refused if the id is taken.
func PutSigningKeyInput(table string, p KeyPurpose, k SigningKey) *dynamodb.PutItemInput {
	c := newCondition(1)
	c.requireAbsent(attrPK)
	item := p.key(k.ID)
	item[attrSecret] = &types.AttributeValueMemberB{Value: k.Secret}
	item[attrCreated] = number(k.CreatedMs)
	if k.AtOnce {
		item[attrAtOnce] = &types.AttributeValueMemberBOOL{Value: true}
	}
	return &dynamodb.PutItemInput{
		TableName:                &table,
		Item:                     item,
		ConditionExpression:      c.conditions(),
		ExpressionAttributeNames: c.names,
	}
}

// AddSigningKeyItem is PutSigningKeyInput as a part of a transaction.
func AddSigningKeyItem(table string, p KeyPurpose, k SigningKey) types.TransactWriteItem {
	put := PutSigningKeyInput(table, p, k)
	return types.TransactWriteItem{Put: &types.Put{
		TableName: put.TableName, Item: put.Item,
		ConditionExpression: put.ConditionExpression, ExpressionAttributeNames: put.ExpressionAttributeNames,
	}}
}

// RevokeSigningKeyItem returns the write that revokes a key at a time in Unix milliseconds.
// It is refused if the key does not exist or is revoked.
func RevokeSigningKeyItem(table string, p KeyPurpose, id SigningKeyID, atMs int64) types.TransactWriteItem {
	e := newExpression(3)
	e.requireExists(attrPK)
	e.requireAbsent(attrRevoked)
	e.set(attrRevoked, number(atMs))
	return types.TransactWriteItem{Update: &types.Update{
		TableName:                 &table,
		Key:                       p.key(id),
		UpdateExpression:          e.update(),
		ConditionExpression:       e.conditions(),
		ExpressionAttributeNames:  e.names,
		ExpressionAttributeValues: e.values,
	}}
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
	k := SigningKey{ID: SigningKeyID(id), Secret: secret.Value, CreatedMs: d.number(attrCreated), AtOnce: d.boolean(attrAtOnce), RevokedMs: d.optional(attrRevoked)}
	if d.err != nil {
		return SigningKey{}, fmt.Errorf("%w: signing key %s: %w", ErrDamaged, name, d.err)
	}
	return k, nil
}

// SortSigningKeys sorts keys by age, the oldest first, and by id among keys of the same age.
func SortSigningKeys(found []SigningKey) {
	slices.SortFunc(found, func(a, b SigningKey) int {
		return cmp.Or(cmp.Compare(a.CreatedMs, b.CreatedMs), bytes.Compare(a.ID[:], b.ID[:]))
	})
}
