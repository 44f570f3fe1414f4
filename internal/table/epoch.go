package table

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/keys"
)

const attrEpoch = "epoch"

// ReadEpochInput is the consistent read of the epoch item.
func ReadEpochInput(table string) *dynamodb.GetItemInput {
	return ReadInput(table, keys.Epoch{}.Key())
}

// AdvanceEpochInput is the write that follows a known epoch with the next one. It
// is refused where the epoch is later than the known one, and then answers with the
// item. An older epoch is that of a table that was restored.
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

// DecodeEpoch reads the epoch item; the epoch is 0 where there is no item. The
// error is ErrDamaged.
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
