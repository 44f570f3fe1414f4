package table

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

func testEntity() *Entity {
	return &Entity{
		Key: keys.Entity{Namespace: testNamespace, ID: "alice"}, Name: "Alice", Parent: "acme", Cascade: true,
		Metadata: map[string]string{"team": "search"}, Version: 3, Below: [3]int64{2, 1, 0}, LastWrite: "OLDNONCE",
	}
}

func TestEntityFormsAreGolden(t *testing.T) {
	known := testEntity()
	alone := &Entity{Key: known.Key, Version: 4, LastWrite: "NEWNONCE"}
	made := testEntity()
	made.Version, made.LastWrite = 1, "NEWNONCE"
	byHand := &Entity{Key: known.Key, Version: 3}
	for name, w := range map[string]types.TransactWriteItem{
		"entity_create":  (&SetEntity{After: made}).Write("tidegate"),
		"entity_alone":   (&SetEntity{Known: known, After: alone}).Write("tidegate"),
		"entity_by_hand": (&SetEntity{Known: byHand, After: made}).Write("tidegate"),
	} {
		t.Run(name, func(t *testing.T) {
			in := w.Update
			golden(t, name, form{Update: *in.UpdateExpression, Condition: *in.ConditionExpression, Names: in.ExpressionAttributeNames, Values: plain(t, in.ExpressionAttributeValues)})
		})
	}
	t.Run("entity_delete", func(t *testing.T) {
		in := DeleteEntityWrite("tidegate", known).Delete
		golden(t, "entity_delete", form{Condition: *in.ConditionExpression, Names: in.ExpressionAttributeNames, Values: plain(t, in.ExpressionAttributeValues)})
	})
	t.Run("entity_check", func(t *testing.T) {
		in := CheckEntityWrite("tidegate", known).ConditionCheck
		golden(t, "entity_check", form{Condition: *in.ConditionExpression, Names: in.ExpressionAttributeNames, Values: plain(t, in.ExpressionAttributeValues)})
	})
}

func testEvent() *AuditEvent {
	return &AuditEvent{
		Key:    keys.Audit{Namespace: testNamespace, ID: "alice", AtMs: 1_772_366_400_000, Sequence: 42},
		Action: api.AuditLimitsSet, By: api.Principal{User: "ops", Account: "A", Verified: true},
		Before: `{"a":1}`, After: `{"a":2}`, Previous: []byte{1}, KeyID: SigningKeyID{1, 2, 3, 4}, MAC: []byte{2}, TTL: 1_780_142_400,
	}
}

func TestAuditFormsAreGolden(t *testing.T) {
	seq := keys.AuditSeq{Namespace: testNamespace}
	first := testEvent()
	first.Key.Sequence, first.Previous = 1, nil
	for name, writes := range map[string][]types.TransactWriteItem{
		"audit_first": AppendAuditEvent("tidegate", AuditHead{Key: seq}, first),
		"audit_next":  AppendAuditEvent("tidegate", AuditHead{Key: seq, Sequence: 41, AtMs: 1_772_366_400_000, MAC: []byte{1}}, testEvent()),
	} {
		t.Run(name, func(t *testing.T) {
			head, event := writes[0].Update, writes[1].Put
			golden(t, name, form{
				Update: *head.UpdateExpression, Condition: *head.ConditionExpression, Names: head.ExpressionAttributeNames,
				Values: plain(t, head.ExpressionAttributeValues), Item: plain(t, event.Item),
			})
			require.Equal(t, "attribute_not_exists(#n0)", *event.ConditionExpression)
		})
	}
}

func TestAuditEventRoundTrip(t *testing.T) {
	bare := &AuditEvent{Key: testEvent().Key, Action: api.AuditEntityCreate, MAC: []byte{1}, KeyID: SigningKeyID{1}}
	for _, e := range []*AuditEvent{testEvent(), bare} {
		got, err := DecodeAuditEvent(EncodeAuditEvent(e))
		require.NoError(t, err)
		require.Equal(t, e, got)
	}
	for name, damage := range map[string]func(Item){
		"no key":       func(i Item) { delete(i, attrSK) },
		"another key":  func(i Item) { i[attrPK], i[attrSK] = text(testNamespace+"/SYSTEM#"), text("#CONFIG") },
		"number":       func(i Item) { i[attrAction] = number(1) },
		"text for MAC": func(i Item) { i[attrMAC] = text("x") },
	} {
		item := EncodeAuditEvent(testEvent())
		damage(item)
		_, err := DecodeAuditEvent(item)
		require.ErrorIs(t, err, ErrDamaged, name)
	}
}

func TestSigningKeysOfBothPurposes(t *testing.T) {
	for _, p := range []KeyPurpose{LeaseKeys, AuditKeys} {
		k := SigningKey{ID: SigningKeyID{1, 2, 3, byte(p)}, Secret: []byte{9}, CreatedMs: 7}
		item := PutSigningKeyInput("tidegate", p, k).Item
		parsed, err := ItemKey(item)
		require.NoError(t, err)
		require.True(t, p.Query().Lists(parsed.Key()))
		found, err := DecodeSigningKeys([]Item{item})
		require.NoError(t, err)
		require.Equal(t, []SigningKey{k}, found)
		delete(item, attrSecret)
		_, err = DecodeSigningKeys([]Item{item})
		require.ErrorIs(t, err, ErrDamaged)
	}
}
