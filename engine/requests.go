package engine

import (
	"strings"

	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

// expression is an expression parameter that may be absent.
type expression struct {
	text  string
	given bool
}

func (x *expression) decode(raw []byte) error {
	x.given = true
	if err := decodeText(raw, &x.text); err != nil {
		return err
	}
	if x.text == "" {
		return validation("Invalid expression: The expression can not be empty;")
	}
	return nil
}

// aliases are ExpressionAttributeNames and ExpressionAttributeValues.
type aliases struct {
	names  map[string]string
	values map[string]attr.Value
}

// decode reads the field if it belongs to the aliases.
func (a *aliases) decode(name, raw []byte) (bool, error) {
	switch string(name) {
	case "ExpressionAttributeNames":
		if err := decodeNames(raw, &a.names); err != nil {
			return true, err
		}
		if len(a.names) == 0 {
			return true, validation("ExpressionAttributeNames must not be empty")
		}
		return true, nil
	case "ExpressionAttributeValues":
		item, err := decodeItem(raw)
		if err != nil {
			return true, err
		}
		if len(item) == 0 {
			return true, validation("ExpressionAttributeValues must not be empty")
		}
		a.values = item
		return true, nil
	}
	return false, nil
}

// env returns the Env in which expressions find their aliases. It refuses aliases in
// a request without expressions.
func (a *aliases) env(p *expr.Parser, expressions ...expression) (*expr.Env, error) {
	for _, x := range expressions {
		if x.given {
			return p.Env(a.names, a.values), nil
		}
	}
	if len(a.names) > 0 {
		return nil, validation("ExpressionAttributeNames can only be specified when using expressions")
	}
	if len(a.values) > 0 {
		return nil, validation("ExpressionAttributeValues can only be specified when using expressions")
	}
	return p.Env(nil, nil), nil
}

func decodeItem(raw []byte) (attr.Item, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, serialization("expected a JSON object of attribute values, got %s", excerpt(raw))
	}
	var item attr.Item
	if err := item.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	return item, nil
}

// refuseLegacy refuses the parameters that expressions have replaced.
func refuseLegacy(name []byte) error {
	switch string(name) {
	case "Expected", "ConditionalOperator":
		return unsupported("the legacy parameter "+string(name), "use ConditionExpression")
	case "AttributeUpdates":
		return unsupported("the legacy parameter "+string(name), "use UpdateExpression")
	case "AttributesToGet":
		return unsupported("the legacy parameter "+string(name), "use ProjectionExpression")
	case "KeyConditions":
		return unsupported("the legacy parameter "+string(name), "use KeyConditionExpression")
	case "QueryFilter", "ScanFilter":
		return unsupported("the legacy parameter "+string(name), "use FilterExpression")
	}
	return nil
}

// checkCollectionMetrics checks the parameter ReturnItemCollectionMetrics. Tables have
// no local indexes, so there are no collections to report.
func checkCollectionMetrics(raw []byte) error {
	var s string
	if err := decodeText(raw, &s); err != nil {
		return err
	}
	if s != "SIZE" && s != "NONE" {
		return notMember("returnItemCollectionMetrics", s, "SIZE, NONE")
	}
	return nil
}

// writeKind is the kind of a write.
type writeKind uint8

const (
	writePut writeKind = iota
	writeUpdate
	writeDelete
	writeCheck // nothing: a transaction's ConditionCheck
)

// returnValues is the parameter ReturnValues.
type returnValues uint8

const (
	returnNone returnValues = iota
	returnAllOld
	returnAllNew
	returnUpdatedOld
	returnUpdatedNew
)

// writeRequest is a write of an item, alone or in a transaction.
type writeRequest struct {
	kind      writeKind
	table     string
	item      attr.Item // the item to put, or the key of the item to change
	condition expression
	update    expression
	aliases   aliases
	returns   returnValues
	onFailure bool // return the item if its condition fails
	capacity  capacityMode
}

func decodeWrite(kind writeKind, raw []byte) (*writeRequest, error) {
	w := &writeRequest{kind: kind}
	itemField := "Key"
	if kind == writePut {
		itemField = "Item"
	}
	err := eachField(raw, func(name, value []byte) (err error) {
		switch string(name) {
		case "TableName":
			return decodeText(value, &w.table)
		case "Key", "Item":
			if string(name) == itemField {
				w.item, err = decodeItem(value)
			}
			return err
		case "ConditionExpression":
			return w.condition.decode(value)
		case "UpdateExpression":
			return w.update.decode(value)
		case "ReturnValues":
			return w.decodeReturns(value)
		case "ReturnValuesOnConditionCheckFailure":
			return w.decodeOnFailure(value)
		case "ReturnConsumedCapacity":
			return decodeCapacityMode(value, &w.capacity)
		case "ReturnItemCollectionMetrics":
			return checkCollectionMetrics(value)
		}
		if done, err := w.aliases.decode(name, value); done {
			return err
		}
		return refuseLegacy(name)
	})
	if err != nil {
		return nil, err
	}
	if w.item == nil {
		return nil, missing(strings.ToLower(itemField))
	}
	if w.update.given && kind != writeUpdate {
		return nil, validation("UpdateExpression is not a parameter of this operation")
	}
	return w, nil
}

func (w *writeRequest) decodeReturns(raw []byte) error {
	var s string
	if err := decodeText(raw, &s); err != nil {
		return err
	}
	switch s {
	case "NONE":
		w.returns = returnNone
	case "ALL_OLD":
		w.returns = returnAllOld
	case "ALL_NEW":
		w.returns = returnAllNew
	case "UPDATED_OLD":
		w.returns = returnUpdatedOld
	case "UPDATED_NEW":
		w.returns = returnUpdatedNew
	default:
		return notMember("returnValues", s, "ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW")
	}
	if w.kind != writeUpdate && w.returns > returnAllOld {
		return validation("ReturnValues can only be ALL_OLD or NONE")
	}
	return nil
}

func (w *writeRequest) decodeOnFailure(raw []byte) error {
	var s string
	if err := decodeText(raw, &s); err != nil {
		return err
	}
	switch s {
	case "NONE":
		w.onFailure = false
	case "ALL_OLD":
		w.onFailure = true
	default:
		return notMember("returnValuesOnConditionCheckFailure", s, "ALL_OLD, NONE")
	}
	return nil
}
