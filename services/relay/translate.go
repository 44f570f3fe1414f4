package relay

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// timeToLive is DynamoDB's principal that deletes items after their ttl.
const timeToLive = "dynamodb.amazonaws.com"

// errUnknownItem says that a record tells of an item that this release does not
// know: an item of a later release, or of another program.
var errUnknownItem = errors.New("unknown item")

// record is a record of a stream, its attributes converted once.
type record struct {
	label     string // of the stream
	sequence  string // as DynamoDB writes it
	operation string // INSERT, MODIFY or REMOVE
	atMs      int64
	expired   bool // DynamoDB deleted the item because its time was over
	keys      table.Item
	old, new  table.Item // nil: there was or is no item
}

// recordOf converts a record; with an error it returns the parts that could be converted.
func recordOf(label string, r *types.Record) (record, error) {
	out := record{label: label, operation: string(r.EventName), expired: isExpiry(r)}
	d := r.Dynamodb
	if d == nil || d.SequenceNumber == nil {
		return out, errors.New("the record has no sequence number")
	}
	out.sequence = *d.SequenceNumber
	if at := d.ApproximateCreationDateTime; at != nil {
		out.atMs = at.UnixMilli()
	}
	for _, part := range []struct {
		name string
		from map[string]types.AttributeValue
		to   *table.Item
	}{{"keys", d.Keys, &out.keys}, {"old image", d.OldImage, &out.old}, {"new image", d.NewImage, &out.new}} {
		if part.from == nil {
			continue
		}
		item, err := attributevalue.FromDynamoDBStreamsMap(part.from)
		if err != nil {
			return out, fmt.Errorf("%s: %w", part.name, err)
		}
		*part.to = item
	}
	return out, nil
}

// isExpiry reports whether DynamoDB deleted the item because its time was over.
func isExpiry(r *types.Record) bool {
	u := r.UserIdentity
	return r.EventName == types.OperationTypeRemove && u != nil &&
		u.Type != nil && *u.Type == "Service" && u.PrincipalId != nil && *u.PrincipalId == timeToLive
}

// translate makes an event of a record, nil for a record that the feed does not carry:
// signing keys, counters, usage snapshots, and the registry's items other than
// names. An error means that no event can be made of it, now or later by this
// release.
func translate(r *record) (*events.Event, error) {
	position, err := events.NewPosition(r.label, r.sequence)
	if err != nil {
		return nil, err
	}
	key, err := table.ItemKey(r.keys)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnknownItem, err)
	}
	if _, carried := events.KindOf(key); !carried {
		return nil, nil //nolint:nilnil // the feed does not carry it
	}
	e := &events.Event{Position: position, AtMs: r.atMs, Key: key, Expired: r.expired}
	if err := setChange(e, r); err != nil {
		return nil, err
	}
	return e, nil
}

// setChange decodes the images into the change of the key's kind.
func setChange(e *events.Event, r *record) (err error) {
	switch e.Key.(type) {
	case keys.Bucket:
		e.Bucket, err = change(r, bucketImage)
	case keys.EntityConfig, keys.ResourceConfig, keys.SystemConfig:
		e.Config, err = change(r, configImage)
	case keys.Entity:
		e.Entity, err = change(r, entityImage)
	case keys.Audit:
		e.Audit, err = change(r, auditImage)
	case keys.NamespaceName:
		e.Namespace, err = change(r, namespaceImage)
	}
	return err
}

func change[T any](r *record, image func(table.Item) (*T, error)) (*events.Change[T], error) {
	c := new(events.Change[T])
	for _, side := range []struct {
		name string
		from table.Item
		to   **T
	}{{"old image", r.old, &c.Old}, {"new image", r.new, &c.New}} {
		if side.from == nil {
			continue
		}
		var err error
		if *side.to, err = image(side.from); err != nil {
			return nil, fmt.Errorf("%s: %w", side.name, err)
		}
	}
	if c.Old == nil && c.New == nil {
		return nil, errors.New("the record has no image: the stream must show new and old images")
	}
	return c, nil
}

func bucketImage(item table.Item) (*events.Bucket, error) {
	b, err := table.DecodeBucket(item)
	if err != nil {
		return nil, err
	}
	image := &events.Bucket{
		ShardCount: b.Level, Want: b.Want, Limits: make([]events.BucketLimit, len(b.Limits)), Fingerprint: b.Fingerprint,
		Cascade: b.Cascade, Parent: b.Parent, Acquires: b.Acquires, WriteUnits: b.WriteUnits, ExpiresAt: b.TTL,
	}
	for i, l := range b.Limits {
		image.Limits[i] = events.BucketLimit{
			Name: l.Name, Capacity: l.Capacity, Refill: l.Refill, PeriodMs: l.Period, Drawn: l.Drawn, Consumed: l.Consumed,
		}
	}
	return image, nil
}

func configImage(item table.Item) (*events.Config, error) {
	c, err := table.DecodeConfig(item)
	if err != nil {
		return nil, err
	}
	image := &events.Config{Limits: make([]events.ConfigLimit, len(c.Limits)), OnUnavailable: string(c.OnUnavailable), Version: c.Version}
	for i, l := range c.Limits {
		image.Limits[i] = events.ConfigLimit(l)
	}
	return image, nil
}

func entityImage(item table.Item) (*events.Entity, error) {
	e, err := table.DecodeEntity(item)
	if err != nil {
		return nil, err
	}
	return &events.Entity{Name: e.Name, Parent: e.Parent, Cascade: e.Cascade, Metadata: e.Metadata, Version: e.Version}, nil
}

func namespaceImage(item table.Item) (*events.Namespace, error) {
	n, err := table.DecodeNamespace(item)
	if err != nil {
		return nil, err
	}
	return &events.Namespace{ID: n.ID, DeletedMs: n.DeletedMs}, nil
}

func auditImage(item table.Item) (*events.Audit, error) {
	e, err := table.DecodeAuditEvent(item)
	if err != nil {
		return nil, err
	}
	record, err := json.Marshal(audit.OnTheWire(e))
	if err != nil {
		return nil, err
	}
	return &events.Audit{Record: record}, nil
}
