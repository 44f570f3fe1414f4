package table

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/keys"
)

const attrEpoch = "epoch"

// ReadEpochInput returns the consistent read of the epoch item.
func ReadEpochInput(table string) *dynamodb.GetItemInput {
	return ReadInput(table, keys.Epoch{}.Key())
}

// AdvanceEpochInput returns the write that increments a known epoch. It is refused
// if the stored epoch is later; the reply then has the item. An older stored epoch
// comes from a table that was restored.
func AdvanceEpochInput(table string, known int64) *dynamodb.UpdateItemInput {
	e := newExpression(1)
	e.require("(attribute_not_exists(", e.name(attrEpoch), ") OR ", e.name(attrEpoch), " <= ", e.value(number(known)), ")")
	e.set(attrEpoch, number(known+1))
	return &dynamodb.UpdateItemInput{
		TableName:                           &table,
		Key:                                 KeyItem(keys.Epoch{}.Key()),
		UpdateExpression:                    e.update(),
		ConditionExpression:                 e.conditions(),
		ExpressionAttributeNames:            e.names,
		ExpressionAttributeValues:           e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// DecodeEpoch reads the epoch item; without an item the epoch is 0. The error is
// ErrDamaged.
func DecodeEpoch(item Item) (int64, error) {
	if len(item) == 0 {
		return 0, nil
	}
	d := decoder{item: item}
	epoch := d.number(attrEpoch)
	if d.err == nil && epoch < 1 {
		d.fail(attrEpoch, "1 or more")
	}
	if d.err != nil {
		return 0, fmt.Errorf("%w: the epoch: %w", ErrDamaged, d.err)
	}
	return epoch, nil
}
