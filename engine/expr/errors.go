package expr

import "fmt"

// ValidationError is what DynamoDB answers with a ValidationException: a
// request whose expressions, placeholders or operands it refuses.
type ValidationError struct {
	Message string // in DynamoDB's words
}

func (e *ValidationError) Error() string { return e.Message }

func validation(format string, args ...any) error {
	return &ValidationError{Message: fmt.Sprintf(format, args...)}
}

// Errors that an update meets in the item, in DynamoDB's words.
var (
	errInvalidPath = &ValidationError{"The document path provided in the update expression is invalid for update"}
	errOperandType = &ValidationError{"An operand in the update expression has an incorrect data type"}
	errMissing     = &ValidationError{"The provided expression refers to an attribute that does not exist in the item"}
)

// fault is what is wrong with an expression, before it is said of which
// parameter.
type fault string

func (f fault) Error() string { return string(f) }

func faultf(format string, args ...any) error { return fault(fmt.Sprintf(format, args...)) }
