package table

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/keys"
)

func TestTheEpochFormIsGolden(t *testing.T) {
	in := AdvanceEpochInput("tidegate", 41)
	require.Equal(t, types.ReturnValuesOnConditionCheckFailureAllOld, in.ReturnValuesOnConditionCheckFailure)
	golden(t, "epoch_advance", form{
		Update: *in.UpdateExpression, Condition: *in.ConditionExpression,
		Names: in.ExpressionAttributeNames, Values: plain(t, in.ExpressionAttributeValues),
	})
}

func TestAnEpochIsDecoded(t *testing.T) {
	none, err := DecodeEpoch(nil)
	require.NoError(t, err)
	require.Zero(t, none, "no item is epoch 0")
	item := KeyItem(keys.Epoch{}.Key())
	_, err = DecodeEpoch(item)
	require.ErrorIs(t, err, ErrDamaged)
	item[attrEpoch] = number(0)
	_, err = DecodeEpoch(item)
	require.ErrorIs(t, err, ErrDamaged)
	item[attrEpoch] = number(7)
	epoch, err := DecodeEpoch(item)
	require.NoError(t, err)
	require.EqualValues(t, 7, epoch)
}
