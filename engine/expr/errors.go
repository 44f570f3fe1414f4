package expr

import "fmt"

// ValidationError reports a request whose expressions, placeholders or operands
// DynamoDB refuses with a ValidationException.
type ValidationError struct {
	Message string // in DynamoDB's words
}

func (e *ValidationError) Error() string { return e.Message }

func validation(format string, args ...any) error {
	return &ValidationError{Message: fmt.Sprintf(format, args...)}
}

// Errors of an update that does not fit the item, with DynamoDB's messages.
var (
	errInvalidPath = &ValidationError{"The document path provided in the update expression is invalid for update"}
	errOperandType = &ValidationError{"An operand in the update expression has an incorrect data type"}
	errMissing     = &ValidationError{"The provided expression refers to an attribute that does not exist in the item"}
)

// fault is an error in an expression; it does not name the parameter yet.
type fault string

func (f fault) Error() string { return string(f) }

func faultf(format string, args ...any) error { return fault(fmt.Sprintf(format, args...)) }
