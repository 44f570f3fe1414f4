package relay

import (
	"bytes"
	"context"
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

var update = flag.Bool("update", false, "write the golden files anew")

const namespace = "AAAAAAAAAAA"

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// script writes one item after the other and reads the stream of it.
type script struct {
	t      *testing.T
	engine *engine.Engine
	db     *dynamodb.Client
	table  string
}

func newScript(t *testing.T) *script {
	t.Helper()
	embedded := engine.New(engine.Options{Now: noon})
	s := &script{t: t, engine: embedded, db: dynamodb.NewFromConfig(engine.Config(embedded.HTTPClient(), "us-east-1")), table: table.DefaultName}
	require.NoError(t, table.CreateTable(t.Context(), s.db, s.table))
	return s
}

func (s *script) put(item table.Item) {
	s.t.Helper()
	_, err := s.db.PutItem(s.t.Context(), &dynamodb.PutItemInput{TableName: &s.table, Item: item})
	require.NoError(s.t, err)
}

func (s *script) remove(key keys.Item) {
	s.t.Helper()
	_, err := s.db.DeleteItem(s.t.Context(), &dynamodb.DeleteItemInput{TableName: &s.table, Key: table.KeyItem(key.Key())})
	require.NoError(s.t, err)
}

// records are what the stream has, with its label.
func (s *script) records() (label string, records []streamtypes.Record) {
	s.t.Helper()
	ctx := context.Background()
	store := newStore(engine.Config(s.engine.HTTPClient(), "us-east-1"), s.table, time.Minute)
	streams, err := store.streams(ctx)
	require.NoError(s.t, err)
	require.Len(s.t, streams, 1)
	require.Len(s.t, streams[0].shards, 1)
	iterator, err := store.iterator(ctx, source{streams[0].arn, streams[0].label, streams[0].shards[0].id}, "")
	require.NoError(s.t, err)
	page, err := store.page(ctx, iterator, maxBatch-1)
	require.NoError(s.t, err)
	return streams[0].label, page.Records
}

// requireTranslated compares what is made of the records with a golden file: a
// line for each.
func (s *script) requireTranslated(file string) {
	s.t.Helper()
	label, records := s.records()
	var lines bytes.Buffer
	for i := range records {
		e, err := translated(label, &records[i])
		switch {
		case err != nil:
			lines.WriteString("no event: " + err.Error())
		case e == nil:
			lines.WriteString("outside of the feed")
		default:
			data, err := events.Encode(e)
			require.NoError(s.t, err)
			lines.Write(data)
			again, err := events.Decode(data)
			require.NoError(s.t, err)
			require.Equal(s.t, e, again)
		}
		lines.WriteByte('\n')
	}
	file = "testdata/" + file
	if *update {
		require.NoError(s.t, os.WriteFile(file, lines.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(s.t, err, "go test -update writes it")
	require.Equal(s.t, string(want), lines.String(), "go test -update accepts it")
}

// with adds attributes as people write them.
func with(item table.Item, attributes map[string]any) table.Item {
	for name, value := range attributes {
		switch value := value.(type) {
		case int:
			item[name] = &types.AttributeValueMemberN{Value: strconv.Itoa(value)}
		case string:
			item[name] = &types.AttributeValueMemberS{Value: value}
		}
	}
	return item
}

func translated(label string, from *streamtypes.Record) (*events.Event, error) {
	r, err := recordOf(label, from)
	if err != nil {
		return nil, err
	}
	return translate(&r)
}

func testBucket() *table.Bucket {
	return &table.Bucket{
		Key: keys.Bucket{Namespace: namespace, Entity: "api-key-123", Resource: "gpt-4"}, Level: 2, Want: 2,
		Limits: []table.Limit{
			{Limit: bucket.Limit{Name: "rpm", Capacity: 100_000, Refill: 100_000, Period: 60_000}, Drawn: 98_000, Consumed: -5000},
			{Limit: bucket.Limit{Name: "ttl", Capacity: 7000, Refill: 7000, Period: 1000}, Drawn: -1},
		},
		Fingerprint: "k3J9x1QaZ0c", Cascade: true, Parent: "team-1", Acquires: 17, WriteUnits: 19, LastWrite: "boot.1",
	}
}

func TestBucketsAreTranslated(t *testing.T) {
	s := newScript(t)
	b := testBucket()
	s.put(table.EncodeBucket(b)) // made
	b.Acquires++
	b.Limits[0].Consumed += 2000
	b.TTL = noon().Unix() - 1
	s.put(table.EncodeBucket(b)) // changed
	s.engine.Expire(noon())      // expired
	b.TTL = 0
	s.put(table.EncodeBucket(b))
	s.remove(b.Key) // deleted by hand
	s.requireTranslated("buckets.jsonl")
}

func TestSettingsAreTranslated(t *testing.T) {
	s := newScript(t)
	for _, key := range []keys.Item{
		keys.SystemConfig{Namespace: namespace},
		keys.ResourceConfig{Namespace: namespace, Resource: "gpt-4"},
		keys.EntityConfig{Namespace: namespace, Entity: "api-key-123", Resource: "_default_"},
	} {
		s.put(with(table.KeyItem(key.Key()), map[string]any{
			"config_version": 3, "l_rpm_cp": 200, "l_rpm_ra": 100, "l_rpm_rp": 60, "on_unavailable": "allow", "lw": "nonce",
		}))
	}
	s.remove(keys.SystemConfig{Namespace: namespace})
	s.put(table.EncodeEntity(&table.Entity{
		Key: keys.Entity{Namespace: namespace, ID: "api-key-123"}, Name: "A key", Parent: "team-1", Cascade: true,
		Metadata: map[string]string{"tier": "gold"}, Version: 4,
	}))
	s.remove(keys.Entity{Namespace: namespace, ID: "api-key-123"})
	s.requireTranslated("settings.jsonl")
}

// An audit event is in the feed as the audit verbs show it.
func TestAuditEventsAreTranslated(t *testing.T) {
	s := newScript(t)
	e := &table.AuditEvent{
		Key:    keys.Audit{Namespace: namespace, ID: "api-key-123", AtMs: noon().UnixMilli(), Sequence: 12},
		Action: api.AuditLimitsSet, By: api.Principal{User: "alice", Account: "ops", Verified: true},
		Before: `{"limits":[]}`, After: `{"note":"\u003cwords\u003e"}`,
		Previous: []byte("before"), KeyID: table.SigningKeyID{1, 2, 3, 4}, MAC: []byte("seal"), TTL: noon().Unix() - 1,
	}
	s.put(table.EncodeAuditEvent(e))
	s.engine.Expire(noon())
	s.requireTranslated("audit.jsonl")
}

// Of the registry, only names are in the feed; counters, keys and usage are not.
func TestTheRestIsLeftOut(t *testing.T) {
	s := newScript(t)
	s.put(with(table.KeyItem(keys.NamespaceName{Name: "acme"}.Key()), map[string]any{"namespace_id": namespace}))
	s.put(with(table.KeyItem(keys.NamespaceName{Name: "acme"}.Key()), map[string]any{"namespace_id": namespace, "deleted_ms": 1795262400000}))
	s.put(with(table.KeyItem(keys.NamespaceID{ID: namespace}.Key()), map[string]any{"name": "acme"}))
	s.put(table.EncodeVersion(keys.Version{Namespace: namespace}, 1))
	s.put(with(table.KeyItem(keys.Key{PK: "_/SYSTEM#", SK: "#LEASE_KEY#AQAAAA"}), map[string]any{"secret": "secret"}))
	s.put(table.KeyItem(keys.AuditSeq{Namespace: namespace}.Key()))
	s.put(table.KeyItem(keys.Usage{Namespace: namespace, Entity: "api-key-123", Resource: "gpt-4", Window: "hourly", Start: "2026-11-21T12"}.Key()))
	s.requireTranslated("rest.jsonl")
}

// What cannot be an event says why.
func TestDamagedRecordsAreRefused(t *testing.T) {
	s := newScript(t)
	damaged := table.EncodeBucket(testBucket())
	for name := range damaged {
		if _, isNumber := damaged[name].(*types.AttributeValueMemberN); isNumber {
			delete(damaged, name)
		}
	}
	s.put(damaged)
	s.put(table.KeyItem(keys.Key{PK: "_/SYSTEM#", SK: "#OTHER_KEY#1"}))
	s.put(table.KeyItem(keys.SystemConfig{Namespace: namespace}.Key()))
	s.requireTranslated("damaged.jsonl")

	label, records := s.records()
	whole := *records[2].Dynamodb
	for name, change := range map[string]func(r *streamtypes.Record){
		"no sequence number": func(r *streamtypes.Record) { r.Dynamodb.SequenceNumber = nil },
		"no stream label":    func(r *streamtypes.Record) { r.Dynamodb.SequenceNumber = aws.String("12x") },
		"has no image":       func(r *streamtypes.Record) { r.Dynamodb.NewImage = nil },
		"unknown item":       func(r *streamtypes.Record) { r.Dynamodb.Keys = nil },
		"keys: ": func(r *streamtypes.Record) {
			r.Dynamodb.Keys = map[string]streamtypes.AttributeValue{"PK": &streamtypes.UnknownUnionMember{}}
		},
	} {
		part := whole
		r := streamtypes.Record{Dynamodb: &part}
		change(&r)
		_, err := translated(label, &r)
		require.Error(t, err, name)
		if name == "no stream label" {
			name = "no stream label and sequence number"
		}
		require.ErrorContains(t, err, name)
	}
}

// What does not fit a message is left out of a dead letter; its key is not.
func TestDeadLettersFitAMessage(t *testing.T) {
	s := newScript(t)
	s.put(table.EncodeBucket(testBucket()))
	label, records := s.records()
	r, err := recordOf(label, &records[0])
	require.NoError(t, err)
	all, err := encodeDeadLetter(&r, nil, 1<<20)
	require.NoError(t, err)
	again, err := decodeDeadLetter(all)
	require.NoError(t, err)
	require.Equal(t, r, again)
	require.Contains(t, string(all), `"new":{`)
	short, err := encodeDeadLetter(&r, nil, len(all)-1)
	require.NoError(t, err)
	require.NotContains(t, string(short), `"new":{`)
	require.Contains(t, string(short), "BUCKET#api-key-123#gpt-4#0")
}
