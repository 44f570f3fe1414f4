package localdynamo

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/tidegate/tidegate/internal/localdynamo/attr"
)

// Records and snapshot entries are a letter and JSON, so that a person can read
// a log. Items are in DynamoDB's JSON.
const (
	recordCommit = 'C' // a Commit
	recordTable  = 'T' // a table was made or its settings changed; in snapshots its items follow
	recordDrop   = 'D' // a table was deleted

	entrySequence = 'S' // of the last change before the snapshot
	entryToken    = 'K' // an idempotency token
	entryItem     = 'I' // an item of the last table named
)

// storedTable is a table's settings as they are stored.
type storedTable struct {
	createTableInput
	ID          string
	Created     int64  // nanoseconds since 1970
	StreamLabel string `json:",omitempty"`
	TimeToLive  string `json:",omitempty"`
}

// storedToken is a ClientRequestToken as it is stored.
type storedToken struct {
	Token  string
	Digest []byte
	Until  int64 // nanoseconds since 1970
}

// appendTable writes a table's settings. The caller holds mu.
func appendTable(b []byte, t *table) []byte {
	s := storedTable{
		createTableInput: createTableInput{
			TableName: t.name, AttributeDefinitions: t.kinds, KeySchema: t.keys.describe(), BillingMode: t.billing,
			StreamSpecification: t.stream, DeletionProtectionEnabled: t.protected,
		},
		ID: t.id, Created: t.created.UnixNano(), StreamLabel: t.streamLabel, TimeToLive: t.ttl,
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

func appendDrop(b []byte, name string) []byte { return appendText(append(b, recordDrop), name) }

func appendSequence(b []byte, n uint64) []byte {
	return strconv.AppendUint(append(b, entrySequence), n, 10)
}

func appendToken(b []byte, k *rememberedToken) []byte {
	return append(append(b, entryToken), mustJSON(storedToken{Token: k.token, Digest: k.digest[:], Until: k.until.UnixNano()})...)
}

func appendStoredItem(b []byte, item attr.Item) []byte { return item.AppendJSON(append(b, entryItem)) }

// appendCommit writes a commit. All its changes have one time and actor, and
// sequence numbers that follow each other.
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
		o.field("changes")
		o.b = appendList(o.b, c.Changes, appendChange)
	}
	return o.end()
}

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

// unmarshal reads what mustJSON has written.
func unmarshal[T any](b []byte) (v T, err error) { return v, json.Unmarshal(b, &v) }
