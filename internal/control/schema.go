package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Verdict is the compatibility of a version record with the release.
type Verdict string

// The verdicts.
const (
	Compatible     Verdict = "compatible"
	NeedsMigration Verdict = "needs migration"
	TooNew         Verdict = "too new"
	Unmarked       Verdict = "unmarked" // the record is missing
	Unread         Verdict = "unread"   // unknown: the table is missing or not active
)

// JudgeSchema compares the schema of a record, 0 for no record, with a release's.
func JudgeSchema(schema, release int64) Verdict {
	switch {
	case schema == 0:
		return Unmarked
	case schema < release:
		return NeedsMigration
	case schema > release:
		return TooNew
	}
	return Compatible
}

// Written is which schema something is written in.
type Written struct {
	Name    string  `json:"name"`
	Schema  int64   `json:"schema"` // 0: no record
	Verdict Verdict `json:"verdict"`
	Fix     string  `json:"fix,omitempty"` // instruction for the operator
}

// judge sets the verdict and the fix; mark is the fix for a table without a version
// record.
func (w *Written) judge(mark string) {
	switch w.Verdict = JudgeSchema(w.Schema, table.SchemaVersion); w.Verdict {
	case NeedsMigration:
		w.Fix = "use the release that wrote it, or one that migrates it"
	case TooNew:
		w.Fix = "use a newer release of tidegate"
	case Unmarked:
		w.Fix = mark
	case Compatible, Unread:
	}
}

// SchemaReport holds the findings on a table.
type SchemaReport struct {
	Table      Written       `json:"table"`
	Release    int64         `json:"release_schema"`
	Faults     []table.Fault `json:"faults"`
	Namespaces int           `json:"namespaces"` // how many were looked at
	Misfits    []Written     `json:"misfits"`    // the namespaces that are not compatible
}

// Compatible reports whether this release can use the table as it is.
func (r *SchemaReport) Compatible() bool {
	return len(r.Faults) == 0 && r.Table.Verdict == Compatible && len(r.Misfits) == 0
}

// CheckSchema reads a table, its version record and the records of all namespaces, and
// changes nothing. A missing table is a fault in the report; an error
// means that the table could not be inspected.
func CheckSchema(ctx context.Context, client *dynamodb.Client, name string) (*SchemaReport, error) {
	r := &SchemaReport{Table: Written{Name: name, Verdict: Unread}, Release: table.SchemaVersion, Faults: []table.Fault{}, Misfits: []Written{}}
	facts, err := table.Inspect(ctx, client, name)
	var missing *types.ResourceNotFoundException
	if errors.As(err, &missing) {
		r.Faults = append(r.Faults, table.Fault{What: "the table does not exist", Fix: "make it with `tidegate table create`, or point --table at yours"})
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.Faults = append(r.Faults, facts.Faults()...)
	if facts.Table.TableStatus != types.TableStatusActive {
		return r, nil // it cannot be read
	}
	if r.Table.Schema, err = readSchema(ctx, client, name); err != nil {
		return nil, err
	}
	r.Table.judge("run `tidegate table create`, which marks the table")
	return r, r.checkNamespaces(ctx, client)
}

// ErrTooNew reports that a newer release has written the table: this release could misread and
// corrupt it.
var ErrTooNew = errors.New("the table is too new for this release")

// RefuseSchema fails with ErrTooNew if this release must not use the table, and with
// another error if the table cannot be read. An unmarked table passes.
func RefuseSchema(ctx context.Context, client *dynamodb.Client, name string) error {
	schema, err := readSchema(ctx, client, name)
	if err != nil {
		return err
	}
	if JudgeSchema(schema, table.SchemaVersion) == TooNew {
		return fmt.Errorf("%w: %s is written in schema %d, and this release knows schemas up to %d; use a newer release of tidegate, or another table",
			ErrTooNew, name, schema, table.SchemaVersion)
	}
	return nil
}

// MarkSchema writes the table's version record, unless it exists.
func MarkSchema(ctx context.Context, client *dynamodb.Client, name string) error {
	_, err := client.PutItem(ctx, table.CreateVersionInput(name, keys.Version{Namespace: keys.Registry}))
	if err != nil && store.OutcomeOf(err) != store.Refused { // refused: the record exists
		return fmt.Errorf("mark the table %s with its schema: %w", name, err)
	}
	return nil
}

// readSchema is the schema of the table's record, 0 for no record.
func readSchema(ctx context.Context, client *dynamodb.Client, name string) (int64, error) {
	out, err := client.GetItem(ctx, table.ReadInput(name, keys.Version{Namespace: keys.Registry}.Key()))
	if err != nil {
		return 0, fmt.Errorf("read the schema of table %s: %w", name, err)
	}
	if len(out.Item) == 0 {
		return 0, nil
	}
	return table.DecodeVersion(out.Item)
}

// checkNamespaces looks at the records of all namespaces, a page at a time.
func (r *SchemaReport) checkNamespaces(ctx context.Context, client *dynamodb.Client) error {
	pages := dynamodb.NewQueryPaginator(client, table.QueryInput(r.Table.Name, 0, keys.Namespaces()))
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list the namespaces: %w", err)
		}
		if err := r.checkPage(ctx, client, page.Items); err != nil {
			return err
		}
	}
	return nil
}

func (r *SchemaReport) checkPage(ctx context.Context, client *dynamodb.Client, items []table.Item) error {
	names := make([]table.Namespace, len(items))
	records := make([]keys.Key, len(items))
	for i, item := range items {
		n, err := table.DecodeNamespace(item)
		if err != nil {
			return err
		}
		names[i], records[i] = n, keys.Version{Namespace: n.ID}.Key()
	}
	found, err := store.BatchRead(ctx, client, r.Table.Name, records)
	if err != nil {
		return fmt.Errorf("read the schemas of namespaces: %w", err)
	}
	schemas := make(map[keys.Key]int64, len(found))
	for _, item := range found {
		key, err := table.ItemKey(item)
		if err != nil {
			return err
		}
		if schemas[key.Key()], err = table.DecodeVersion(item); err != nil {
			return err
		}
	}
	r.Namespaces += len(names)
	for i, n := range names {
		if n.PurgeMs != 0 {
			continue // its record may be gone already
		}
		w := Written{Name: n.Name, Schema: schemas[records[i]]}
		w.judge("its version record was deleted: restore it, or delete the namespace")
		if w.Verdict != Compatible {
			r.Misfits = append(r.Misfits, w)
		}
	}
	return nil
}
