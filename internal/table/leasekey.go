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

// LeaseKeyIDBytes is how long the id of a lease key is.
const LeaseKeyIDBytes = 4

// LeaseKey is a key that signs leases. It leaves the table for admission nodes
// alone: no event, command or log carries it.
type LeaseKey struct {
	ID        [LeaseKeyIDBytes]byte
	Secret    []byte
	CreatedMs int64 // unix milliseconds
}

// PutLeaseKeyInput stores a new key; it is refused where the id is taken.
func PutLeaseKeyInput(table string, k LeaseKey) *dynamodb.PutItemInput {
	e := newExpression(1)
	e.requireAbsent(attrPK)
	item := KeyItem(keys.LeaseKey{ID: base64.RawURLEncoding.EncodeToString(k.ID[:])}.Key())
	item[attrSecret] = &types.AttributeValueMemberB{Value: k.Secret}
	item[attrCreated] = number(k.CreatedMs)
	return &dynamodb.PutItemInput{
		TableName:                &table,
		Item:                     item,
		ConditionExpression:      e.conditions(),
		ExpressionAttributeNames: e.names,
	}
}

// DecodeLeaseKeys reads a page of lease keys.
func DecodeLeaseKeys(items []Item) ([]LeaseKey, error) {
	found := make([]LeaseKey, 0, len(items))
	for _, item := range items {
		d := decoder{item: item}
		parsed, err := keys.Parse(keys.Key{PK: d.text(attrPK), SK: d.text(attrSK)})
		if err != nil {
			return nil, fmt.Errorf("lease key: %w", err)
		}
		key, ok := parsed.(keys.LeaseKey)
		if !ok {
			return nil, fmt.Errorf("item %s is no lease key", d.text(attrSK))
		}
		id, err := base64.RawURLEncoding.DecodeString(key.ID)
		if err != nil || len(id) != LeaseKeyIDBytes {
			return nil, fmt.Errorf("lease key %s: its id is not %d bytes", key.ID, LeaseKeyIDBytes)
		}
		secret, ok := item[attrSecret].(*types.AttributeValueMemberB)
		if !ok || len(secret.Value) == 0 {
			return nil, fmt.Errorf("lease key %s has no secret", key.ID)
		}
		found = append(found, LeaseKey{ID: [LeaseKeyIDBytes]byte(id), Secret: secret.Value, CreatedMs: d.number(attrCreated)})
		if d.err != nil {
			return nil, fmt.Errorf("lease key %s: %w", key.ID, d.err)
		}
	}
	return found, nil
}

// SortLeaseKeys puts the key to sign with last: the newest, by id among equals.
func SortLeaseKeys(found []LeaseKey) {
	slices.SortFunc(found, func(a, b LeaseKey) int {
		return cmp.Or(cmp.Compare(a.CreatedMs, b.CreatedMs), bytes.Compare(a.ID[:], b.ID[:]))
	})
}
