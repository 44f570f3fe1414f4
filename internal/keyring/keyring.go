// Package keyring reads the signing keys of the table, and makes the first one
// of a purpose where there is none.
//
// # Words
//
//   - A purpose is what a key is for: leases, audit events.
//   - The newest key signs; the others are kept to check what they signed. Of
//     lease keys, package leasekey knows from when on the newest signs.
//
// # Example
//
//	stored, err := keyring.Ensure(ctx, client, "tidegate", table.LeaseKeys, now)
//	newest := stored[len(stored)-1]
package keyring

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
)

// Ensure returns the keys of a purpose, oldest first and at least one. Two nodes
// that make the first key at once make two; both are good. The clock tells the
// store's time, and its error stops a key from being made.
func Ensure(ctx context.Context, client *dynamodb.Client, tableName string, p table.KeyPurpose, now func() (time.Time, error)) ([]table.SigningKey, error) {
	stored, err := read(ctx, client, tableName, p)
	if err != nil || len(stored) > 0 {
		return stored, err
	}
	if err := create(ctx, client, tableName, p, now); err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	return read(ctx, client, tableName, p)
}

func read(ctx context.Context, client *dynamodb.Client, tableName string, p table.KeyPurpose) ([]table.SigningKey, error) {
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

func create(ctx context.Context, client *dynamodb.Client, tableName string, p table.KeyPurpose, now func() (time.Time, error)) error {
	at, err := now()
	if err != nil {
		return err
	}
	_, err = client.PutItem(ctx, table.PutSigningKeyInput(tableName, p, Fresh(at)))
	if store.OutcomeOf(err) == store.Refused { // the SDK repeated a write whose reply was lost
		return nil
	}
	return err
}

// Fresh is a new key.
func Fresh(at time.Time) table.SigningKey {
	fresh := table.SigningKey{Secret: make([]byte, sha256.Size), CreatedMs: at.UnixMilli()}
	_, _ = rand.Read(fresh.ID[:])
	_, _ = rand.Read(fresh.Secret)
	return fresh
}
