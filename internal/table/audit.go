package table

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	attrAction   = "action"
	attrUser     = "nats_user"
	attrAccount  = "nats_account"
	attrVerified = "verified"
	attrBefore   = "before"
	attrAfter    = "after"
	attrPrevious = "previous_mac"
	attrMAC      = "mac"
	attrKeyID    = "key_id"
	attrSequence = "sequence"
	attrAtMs     = "at_ms"
)

// AuditEvent is the content of an audit event's item: an administrative change.
type AuditEvent struct {
	Key           keys.Audit
	Action        api.AuditAction
	By            api.Principal
	Before, After string       // JSON; empty for nothing
	Previous      []byte       // MAC of the event before it; empty for the first of a namespace
	KeyID         SigningKeyID // of the key that MAC was made with
	MAC           []byte       // over everything above
	TTL           int64        // epoch seconds, 0 for none
}

// AuditHead is the counter that numbers a namespace's audit events. The next event
// follows it. The zero value with a key stands for no event yet.
type AuditHead struct {
	Key      keys.AuditSeq
	Sequence int64 // of the last event, from 1
	AtMs     int64 // of the last event, unix milliseconds
	MAC      []byte
}

// AppendAuditEvent returns the two writes that append an event after known. They
// belong into a transaction with the change that the event describes. They are
// refused if known is not the last event; the reply then has the stored head.
func AppendAuditEvent(table string, known AuditHead, e *AuditEvent) []types.TransactWriteItem {
	seq := newExpression(4)
	if known.Sequence == 0 {
		seq.requireAbsent(attrPK)
		seq.setIndexes(known.Key.Indexes())
	} else {
		seq.requireEqual(attrSequence, number(known.Sequence))
	}
	seq.set(attrSequence, number(e.Key.Sequence))
	seq.set(attrAtMs, number(e.Key.AtMs))
	seq.set(attrMAC, binary(e.MAC))
	event := newCondition(1)
	event.requireAbsent(attrPK)
	return []types.TransactWriteItem{
		{Update: &types.Update{
			TableName:                           &table,
			Key:                                 KeyItem(known.Key.Key()),
			UpdateExpression:                    seq.update(),
			ConditionExpression:                 seq.conditions(),
			ExpressionAttributeNames:            seq.names,
			ExpressionAttributeValues:           seq.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}},
		{Put: &types.Put{
			TableName:                &table,
			Item:                     EncodeAuditEvent(e),
			ConditionExpression:      event.conditions(),
			ExpressionAttributeNames: event.names,
		}},
	}
}

// EncodeAuditEvent returns the whole item, index keys included.
func EncodeAuditEvent(e *AuditEvent) Item {
	item := KeyItem(e.Key.Key())
	putIndexes(item, e.Key.Indexes())
	item[attrAction] = text(string(e.Action))
	item[attrVerified] = boolean(e.By.Verified)
	item[attrKeyID] = binary(e.KeyID[:])
	item[attrMAC] = binary(e.MAC)
	for attribute, s := range map[string]string{
		attrUser: e.By.User, attrAccount: e.By.Account, attrBefore: e.Before, attrAfter: e.After,
	} {
		if s != "" {
			item[attribute] = text(s)
		}
	}
	if len(e.Previous) > 0 {
		item[attrPrevious] = binary(e.Previous)
	}
	if e.TTL != 0 {
		item[attrTTL] = number(e.TTL)
	}
	return item
}

// DecodeAuditEvent reads an audit event's item; the error is ErrDamaged. It may
// accept an event that was altered by hand.
func DecodeAuditEvent(item Item) (*AuditEvent, error) {
	parsed, err := ItemKey(item)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(keys.Audit)
	if !ok {
		return nil, fmt.Errorf("%w: %s %s is no audit event", ErrDamaged, parsed.Key().PK, parsed.Key().SK)
	}
	d := decoder{item: item}
	e := &AuditEvent{
		Key:      key,
		Action:   api.AuditAction(d.text(attrAction)),
		By:       api.Principal{User: d.text(attrUser), Account: d.text(attrAccount), Verified: d.boolean(attrVerified)},
		Before:   d.text(attrBefore),
		After:    d.text(attrAfter),
		Previous: d.binary(attrPrevious),
		MAC:      d.binary(attrMAC),
		TTL:      d.optional(attrTTL),
	}
	copy(e.KeyID[:], d.binary(attrKeyID))
	if d.err != nil {
		return nil, fmt.Errorf("%w: audit event %s %s: %w", ErrDamaged, key.Key().PK, key.Key().SK, d.err)
	}
	return e, nil
}

// DecodeAuditHead reads a counter; an empty item is the counter of a namespace
// without events. The error is ErrDamaged.
func DecodeAuditHead(key keys.AuditSeq, item Item) (AuditHead, error) {
	h := AuditHead{Key: key}
	if len(item) == 0 {
		return h, nil
	}
	d := decoder{item: item}
	h.Sequence, h.AtMs, h.MAC = d.number(attrSequence), d.number(attrAtMs), d.binary(attrMAC)
	if d.err == nil && h.Sequence < 1 {
		d.fail(attrSequence, "above 0")
	}
	if d.err != nil {
		return AuditHead{}, fmt.Errorf("%w: audit sequence of %s: %w", ErrDamaged, key.Namespace, d.err)
	}
	return h, nil
}

// binary reads bytes; nil if the attribute is missing.
func (d *decoder) binary(attribute string) []byte {
	v, present := d.item[attribute]
	if !present {
		return nil
	}
	b, ok := v.(*types.AttributeValueMemberB)
	if !ok {
		d.fail(attribute, "binary")
		return nil
	}
	return b.Value
}

func binary(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }
