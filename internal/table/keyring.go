package table

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// EnsureSigningKeys returns the keys of a purpose, oldest first and at least one: it makes
// the first key. Two nodes that make the first key at once make two, and both are valid. The
// clock tells the store's time; its error stops a key from being made.
func EnsureSigningKeys(ctx context.Context, client *dynamodb.Client, tableName string, p KeyPurpose, now func() (time.Time, error)) ([]SigningKey, error) {
	stored, err := readSigningKeys(ctx, client, tableName, p)
	if err != nil || len(stored) > 0 {
		return stored, err
	}
	if err := createSigningKey(ctx, client, tableName, p, now); err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	return readSigningKeys(ctx, client, tableName, p)
}

func readSigningKeys(ctx context.Context, client *dynamodb.Client, tableName string, p KeyPurpose) ([]SigningKey, error) {
	var stored []SigningKey
	pages := dynamodb.NewQueryPaginator(client, QueryInput(tableName, 0, p.Query()))
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read signing keys: %w", err)
		}
		more, err := DecodeSigningKeys(page.Items)
		if err != nil {
			return nil, fmt.Errorf("read signing keys: %w", err)
		}
		stored = append(stored, more...)
	}
	SortSigningKeys(stored)
	return stored, nil
}

func createSigningKey(ctx context.Context, client *dynamodb.Client, tableName string, p KeyPurpose, now func() (time.Time, error)) error {
	at, err := now()
	if err != nil {
		return err
	}
	_, err = client.PutItem(ctx, PutSigningKeyInput(tableName, p, NewSigningKey(at)))
	var there *types.ConditionalCheckFailedException // the SDK's repeat of a write whose reply was lost
	if err != nil && !errors.As(err, &there) {
		return err
	}
	return nil
}

// NewSigningKey returns a new random key.
func NewSigningKey(at time.Time) SigningKey {
	fresh := SigningKey{Secret: make([]byte, sha256.Size), CreatedMs: at.UnixMilli()}
	_, _ = rand.Read(fresh.ID[:])
	_, _ = rand.Read(fresh.Secret)
	return fresh
}
