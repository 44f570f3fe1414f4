package engine

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidegate/tidegate/engine/attr"
)

// Namespaces of DynamoDB's error types, which precede the # in __type.
const (
	spaceDynamoDB = "com.amazonaws.dynamodb.v20120810"
	spaceValidate = "com.amazon.coral.validate"
	spaceService  = "com.amazon.coral.service"
)

// Names of the error types that the engine returns.
const (
	typeValidation          = "ValidationException"
	typeSerialization       = "SerializationException"
	typeUnknownOperation    = "UnknownOperationException"
	typeConditionFailed     = "ConditionalCheckFailedException"
	typeTransactionCanceled = "TransactionCanceledException"
	typeTokenMismatch       = "IdempotentParameterMismatchException"
	typeNotFound            = "ResourceNotFoundException"
	typeTableNotFound       = "TableNotFoundException"
	typeInUse               = "ResourceInUseException"
	typeLimit               = "LimitExceededException"
	typeTooLarge            = "RequestEntityTooLargeException"
	typeInternal            = "InternalServerError"
	typeTrimmed             = "TrimmedDataAccessException"
	typeExpiredIterator     = "ExpiredIteratorException"
)

// apiError refuses a request, with DynamoDB's message.
type apiError struct {
	name    string
	message string
	item    attr.Item      // ConditionalCheckFailedException only: the item that refused
	whole   bool           // it refuses a transaction as a whole, rather than being an action's reason to cancel
	reasons []cancellation // TransactionCanceledException only: of each action, in order
}

func (e *apiError) Error() string { return e.name + ": " + e.message }

// cancellation is the reason why an action cancelled its transaction; the code "None"
// means that it did not.
type cancellation struct {
	code, message string
	item          attr.Item
}

const (
	reasonNone       = "None"
	reasonCondition  = "ConditionalCheckFailed"
	reasonValidation = "ValidationError"
)

func validation(format string, args ...any) error {
	return &apiError{name: typeValidation, message: fmt.Sprintf(format, args...)}
}

func serialization(format string, args ...any) error {
	return &apiError{name: typeSerialization, message: fmt.Sprintf(format, args...)}
}

// missing refuses a request without a required parameter.
func missing(field string) error {
	return validation("1 validation error detected: Value null at '%s' failed to satisfy constraint: "+
		"Member must not be null", field)
}

// unsupported refuses a feature of DynamoDB that this engine does not have.
func unsupported(what, instead string) error {
	return validation("%s is not supported by this engine: %s", what, instead)
}

func tableNotFound() error {
	return &apiError{name: typeNotFound, message: "Requested resource not found"}
}

const conditionFailedMessage = "The conditional request failed"

func conditionFailed(item attr.Item) error {
	return &apiError{name: typeConditionFailed, message: conditionFailedMessage, item: item}
}

func transactionCanceled(reasons []cancellation) error {
	codes := make([]string, len(reasons))
	for i, r := range reasons {
		codes[i] = r.code
	}
	return &apiError{
		name: typeTransactionCanceled,
		message: "Transaction cancelled, please refer cancellation reasons for specific reasons [" +
			strings.Join(codes, ", ") + "]",
		reasons: reasons,
	}
}

// asAPIError returns every error with a type: errors of the value and expression
// packages become errors of the request.
func asAPIError(err error) *apiError {
	var known *apiError
	if errors.As(err, &known) {
		return known
	}
	var syntax *attr.SyntaxError
	if errors.As(err, &syntax) {
		return &apiError{name: typeSerialization, message: err.Error()}
	}
	return &apiError{name: typeValidation, message: err.Error()}
}

func (e *apiError) status() int {
	switch e.name {
	case typeInternal:
		return http.StatusInternalServerError
	case typeTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

func (e *apiError) space() string {
	switch e.name {
	case typeValidation:
		return spaceValidate
	case typeSerialization, typeUnknownOperation, typeTooLarge:
		return spaceService
	}
	return spaceDynamoDB
}

// appendJSON writes the error as a reply body. DynamoDB spells the message field with
// a capital only in the errors of transactions.
func (e *apiError) appendJSON(b []byte) []byte {
	b = append(b, `{"__type":"`...)
	b = append(b, e.space()...)
	b = append(b, '#')
	b = append(b, e.name...)
	switch e.name {
	case typeTransactionCanceled, typeTokenMismatch:
		b = append(b, `","Message":`...)
	default:
		b = append(b, `","message":`...)
	}
	b = appendText(b, e.message)
	if e.item != nil {
		b = append(b, `,"Item":`...)
		b = e.item.AppendJSON(b)
	}
	if e.reasons != nil {
		b = append(b, `,"CancellationReasons":`...)
		b = appendList(b, e.reasons, appendCancellation)
	}
	return append(b, '}')
}

func appendCancellation(b []byte, r cancellation) []byte {
	b = append(b, `{"Code":`...)
	b = appendText(b, r.code)
	if r.message != "" {
		b = append(b, `,"Message":`...)
		b = appendText(b, r.message)
	}
	if r.item != nil {
		b = append(b, `,"Item":`...)
		b = r.item.AppendJSON(b)
	}
	return append(b, '}')
}
