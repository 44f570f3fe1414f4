package engine

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/engine/attr"
)

// A record or snapshot entry is a letter and JSON, so that a log is readable. Items
// are in DynamoDB's JSON.
const (
	recordCommit = 'C' // a Commit
	recordTable  = 'T' // a table was made or its settings changed; in snapshots its items follow
	recordDrop   = 'D' // a table was deleted

	entryNumbers = 'S' // the last numbers given before the snapshot
	entryStream  = 'F' // a stream that is not the newest of a table
	entryToken   = 'K' // an idempotency token
	entryItem    = 'I' // an item of the last table named
)

// storedTable is the stored form of a table's settings.
type storedTable struct {
	createTableInput
	ID         string
	Created    int64         // nanoseconds since 1970
	TimeToLive string        `json:",omitempty"`
	Stream     *storedStream `json:",omitempty"`
}

// storedDrop is the stored form of a table's deletion.
type storedDrop struct {
	TableName string
	At        int64 // nanoseconds since 1970
}

// storedNumbers holds the counters that continue after a restart.
type storedNumbers struct {
	Sequence uint64 // of the last change
	Shard    uint64 // of the newest stream shard
	Labelled int64  // milliseconds since 1970: the newest stream's label
}

// storedToken is the stored form of a ClientRequestToken.
type storedToken struct {
	Token  string
	Digest []byte
	Until  int64 // nanoseconds since 1970
}

// appendTable writes a table's settings. The caller holds Engine.mu and
// streams.mu.
func appendTable(b []byte, t *table) []byte {
	s := storedTable{
		createTableInput: createTableInput{
			TableName: t.name, AttributeDefinitions: t.kinds, KeySchema: t.keys.describe(), BillingMode: t.billing,
			StreamSpecification: t.stream, DeletionProtectionEnabled: t.protected, Tags: t.tags,
		},
		ID: t.id, Created: t.created.UnixNano(), TimeToLive: t.ttl,
	}
	if t.changes != nil {
		s.Stream = t.changes.stored()
	}
	if t.billing == billingProvisioned {
		s.ProvisionedThroughput = &t.throughput
	}
	for _, x := range t.indexes {
		s.GlobalSecondaryIndexes = append(s.GlobalSecondaryIndexes, indexDefinition{
			IndexName: x.name, KeySchema: x.keys.describe(), Projection: x.describeProjection(),
		})
	}
	return append(append(b, recordTable), mustJSON(s)...)
}

func appendDrop(b []byte, name string, at time.Time) []byte {
	return append(append(b, recordDrop), mustJSON(storedDrop{TableName: name, At: at.UnixNano()})...)
}

func appendNumbers(b []byte, n storedNumbers) []byte {
	return append(append(b, entryNumbers), mustJSON(n)...)
}

func appendStream(b []byte, st *stream) []byte {
	return append(append(b, entryStream), mustJSON(st.stored())...)
}

func appendToken(b []byte, k *rememberedToken) []byte {
	return append(append(b, entryToken), mustJSON(storedToken{Token: k.token, Digest: k.digest[:], Until: k.until.UnixNano()})...)
}

func appendStoredItem(b []byte, item attr.Item) []byte { return item.AppendJSON(append(b, entryItem)) }

// appendCommit writes a commit. All its changes have the same time and actor, and
// consecutive sequence numbers.
func (c *Commit) appendCommit(b []byte) []byte {
	o := object{b: append(b, recordCommit)}
	o.field("at")
	o.b = strconv.AppendInt(o.b, c.at.UnixNano(), 10)
	if c.Token != "" {
		o.field("token")
		o.b = appendText(o.b, c.Token)
		o.field("digest")
		o.b = append(base64.StdEncoding.AppendEncode(append(o.b, '"'), c.Digest[:]), '"')
	}
	if len(c.Changes) > 0 {
		o.field("sequence")
		o.b = strconv.AppendUint(o.b, c.Changes[0].Sequence, 10)
		o.field("by")
		o.b = strconv.AppendUint(o.b, uint64(c.Changes[0].By), 10)
		c.appendShards(&o)
		o.field("changes")
		o.b = appendList(o.b, c.Changes, appendChange)
	}
	return o.end()
}

// appendShards writes the stream shards of a commit's changes, before the changes, so
// that an indexing reader can stop there.
func (c *Commit) appendShards(o *object) {
	if len(c.rolls) > 0 {
		o.field("rolls")
		o.b = append(o.b, mustJSON(c.rolls)...)
	}
	o.field(fieldShards)
	o.b = append(o.b, '[')
	for i := range c.Changes {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		number := uint64(0)
		if shard := c.Changes[i].shard; shard != nil {
			number = shard.number
		}
		o.b = strconv.AppendUint(o.b, number, 10)
	}
	o.b = append(o.b, ']')
}

// fieldShards is the field with the stream shards of a commit's changes, by number;
// 0: no shard.
const fieldShards = "shards"

func appendChange(b []byte, c Change) []byte {
	o := object{b: b}
	o.field("table")
	o.b = appendText(o.b, c.Table)
	if c.Old != nil {
		o.field("old")
		o.b = c.Old.AppendJSON(o.b)
	}
	if c.New != nil {
		o.field("new")
		o.b = c.New.AppendJSON(o.b)
	}
	return o.end()
}

// unmarshal decodes JSON written by mustJSON.
func unmarshal[T any](b []byte) (v T, err error) { return v, json.Unmarshal(b, &v) }
