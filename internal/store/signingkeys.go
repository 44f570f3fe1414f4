package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/table"
)

// EnsureSigningKeys returns the keys of a purpose, oldest first and at least one that is not
// revoked: it makes the first key. Two nodes that make the first key at once make two, and
// both are valid. The clock tells the store's time; its error stops a key from being made.
func EnsureSigningKeys(ctx context.Context, client *dynamodb.Client, tableName string, p table.KeyPurpose, now func() (time.Time, error)) ([]table.SigningKey, error) {
	stored, err := readSigningKeys(ctx, client, tableName, p)
	if err != nil || slices.ContainsFunc(stored, func(k table.SigningKey) bool { return !k.Revoked() }) {
		return stored, err
	}
	if err := createSigningKey(ctx, client, tableName, p, now, stored); err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	return readSigningKeys(ctx, client, tableName, p)
}

func readSigningKeys(ctx context.Context, client *dynamodb.Client, tableName string, p table.KeyPurpose) ([]table.SigningKey, error) {
	var stored []table.SigningKey
	pages := dynamodb.NewQueryPaginator(client, table.QueryInput(tableName, 0, p.Query()))
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read signing keys: %w", err)
		}
		more, err := table.DecodeSigningKeys(page.Items)
		if err != nil {
			return nil, fmt.Errorf("read signing keys: %w", err)
		}
		stored = append(stored, more...)
	}
	table.SortSigningKeys(stored)
	return stored, nil
}

func createSigningKey(ctx context.Context, client *dynamodb.Client, tableName string, p table.KeyPurpose, now func() (time.Time, error), revoked []table.SigningKey) error {
	at, err := now()
	if err != nil {
		return err
	}
	fresh := NewSigningKey(at, revoked...)
	fresh.AtOnce = len(revoked) > 0
	_, err = client.PutItem(ctx, table.PutSigningKeyInput(tableName, p, fresh))
	if OutcomeOf(err) == Refused { // the SDK repeated a write whose reply was lost
		return nil
	}
	return err
}

// NewSigningKey returns a new random key. It is newer than older keys, whatever the clocks.
func NewSigningKey(at time.Time, older ...table.SigningKey) table.SigningKey {
	fresh := table.SigningKey{Secret: make([]byte, sha256.Size), CreatedMs: at.UnixMilli()}
	for _, k := range older {
		fresh.CreatedMs = max(fresh.CreatedMs, k.CreatedMs+1)
	}
	_, _ = rand.Read(fresh.ID[:])
	_, _ = rand.Read(fresh.Secret)
	return fresh
}
