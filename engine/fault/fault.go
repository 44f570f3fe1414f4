package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Kind is a kind of fault.
type Kind uint8

const (
	// None passes the request on.
	None Kind = iota
	// Refused answers with Fault.Refusal; the back end does not see the request.
	Refused
	// Unreachable fails with Fault.Err, as if no connection could be made; the back
	// end does not see the request.
	Unreachable
	// FailedAfter executes the request, and then answers with Fault.Refusal.
	FailedAfter
	// ReplyLost executes the request and fails with Fault.Err, as if the connection
	// had broken before the reply.
	ReplyLost
	// ReplyHangs executes the request and does not answer until the caller's context
	// ends.
	ReplyHangs
	// Hangs does not answer until the caller's context ends; the back end does not
	// see the request.
	Hangs
	// Late delivers the request Fault.Delay after it was sent, even if its caller no
	// longer waits. The caller does not learn the result: its call ends with its
	// context, or fails with Fault.Err once the request has arrived.
	Late
	// PageAgain answers a GetRecords with the previous page of that stream shard: the
	// same records, and the iterator of the request.
	PageAgain
	// PageOverlaps begins a page of GetRecords with some of the last records of the
	// page before.
	PageOverlaps
	// ShardHeld returns empty pages of a stream shard for Fault.Delay, while other
	// shards continue.
	ShardHeld
	// StaleRead counts the stale reads of Options.Stale. A Fault cannot request it.
	StaleRead
)

// String returns the kind's name in counts.
func (k Kind) String() string {
	switch k {
	case None:
		return "none"
	case Refused:
		return "refused"
	case Unreachable:
		return "unreachable"
	case FailedAfter:
		return "failed after"
	case ReplyLost:
		return "reply lost"
	case ReplyHangs:
		return "reply hangs"
	case Hangs:
		return "hangs"
	case Late:
		return "late"
	case PageAgain:
		return "page again"
	case PageOverlaps:
		return "page overlaps"
	case ShardHeld:
		return "shard held"
	case StaleRead:
		return "stale read"
	}
	return "kind " + strconv.Itoa(int(k))
}

// Fault is a fault that strikes a request. The zero Fault does nothing.
type Fault struct {
	Kind Kind
	// Delay delays the request, in addition to the transport's latency; for
	// ShardHeld, it is the time for which the shard is held.
	Delay time.Duration
	// Err is the caller's error if it gets no reply. Default: syscall.ECONNREFUSED
	// for Unreachable, otherwise io.ErrUnexpectedEOF.
	Err error
	// Refusal is the caller's reply if it gets a reply. Default: an
	// InternalServerError.
	Refusal Refusal
}

// Refusal is a reply that replaces the back end's reply.
type Refusal struct {
	Status  int    // HTTP
	Type    string // as in __type, with its namespace
	Message string
	Reasons []Reason // of a throttle
	Codes   []string // of a cancelled transaction, a code for each action
}

// Reason names the limit that throttled a request.
type Reason struct {
	Reason   string `json:"reason"`
	Resource string `json:"resource"` // ARN of the table or index
}

// Reasons for throttling that callers distinguish: the key range of a table is the
// item's own partition, the key range of an index is not.
const (
	TableWriteKeyRange = "TableWriteKeyRangeThroughputExceeded"
	TableReadKeyRange  = "TableReadKeyRangeThroughputExceeded"
	IndexWriteKeyRange = "IndexWriteKeyRangeThroughputExceeded"
	IndexReadKeyRange  = "IndexReadKeyRangeThroughputExceeded"
	TableWriteMax      = "TableWriteMaxOnDemandThroughputExceeded"
)

// ThroughputExceeded returns the throttle of provisioned tables, a
// ProvisionedThroughputExceededException.
func ThroughputExceeded(reasons ...Reason) Fault {
	return Fault{Kind: Refused, Refusal: Refusal{
		Status: http.StatusBadRequest, Type: "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
		Message: "The level of configured provisioned throughput for the table was exceeded.", Reasons: reasons,
	}}
}

// Throttling returns the throttle of tables on demand, a ThrottlingException.
func Throttling(reasons ...Reason) Fault {
	return Fault{Kind: Refused, Refusal: Refusal{
		Status: http.StatusBadRequest, Type: "com.amazon.coral.availability#ThrottlingException",
		Message: "Throughput exceeds the current capacity of your table or index.", Reasons: reasons,
	}}
}

// TransactionConflict refuses a write of an item that a transaction holds.
func TransactionConflict() Fault {
	return Fault{Kind: Refused, Refusal: Refusal{
		Status: http.StatusBadRequest, Type: "com.amazonaws.dynamodb.v20120810#TransactionConflictException",
		Message: "Transaction is ongoing for the item",
	}}
}

// TransactionCanceled refuses a transaction, with a code for each of its actions:
// None, TransactionConflict, ThrottlingError and so on.
func TransactionCanceled(codes ...string) Fault {
	return Fault{Kind: Refused, Refusal: Refusal{
		Status: http.StatusBadRequest, Type: "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
		Message: fmt.Sprintf("Transaction cancelled, please refer cancellation reasons for specific reasons %v", codes),
		Codes:   codes,
	}}
}

// LimitExceeded refuses a GetRecords: more than two readers of a stream shard.
func LimitExceeded() Fault {
	return streamRefusal("LimitExceededException", "Rate exceeded for the stream shard: too many readers.")
}

// ExpiredIterator refuses a GetRecords whose iterator is older than 15 minutes.
func ExpiredIterator() Fault {
	return streamRefusal("ExpiredIteratorException", "Iterator expired: it was created more than 15 minutes ago.")
}

// TrimmedData refuses a GetRecords, or a GetShardIterator, of records older than
// 24 hours.
func TrimmedData() Fault {
	return streamRefusal("TrimmedDataAccessException", "The operation attempted to read past the oldest stream record in a shard.")
}

func streamRefusal(name, message string) Fault {
	return Fault{Kind: Refused, Refusal: Refusal{
		Status: http.StatusBadRequest, Type: "com.amazonaws.dynamodb.v20120810#" + name, Message: message,
	}}
}

// InternalError returns a server failure before the request was executed.
func InternalError() Fault { return Fault{Kind: Refused} }

// InternalErrorAfter returns a server failure after the request was executed.
func InternalErrorAfter() Fault { return Fault{Kind: FailedAfter} }

// body returns the refusal in DynamoDB's format. The two throttles spell the field of
// the reasons differently, so body writes both spellings. A cancelled transaction
// spells the message field with a capital.
func (r *Refusal) body() []byte {
	fields := map[string]any{"__type": r.Type, "message": r.Message}
	if r.Codes != nil {
		type cancellation struct{ Code string }
		list := make([]cancellation, len(r.Codes))
		for i, code := range r.Codes {
			list[i].Code = code
		}
		fields["CancellationReasons"], fields["Message"] = list, r.Message
		delete(fields, "message")
	}
	if len(r.Reasons) > 0 {
		fields["ThrottlingReasons"], fields["throttlingReasons"] = r.Reasons, r.Reasons
	}
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings always marshal
	}
	return b
}

// name returns the type without its namespace.
func (r *Refusal) name() string { return r.Type[strings.LastIndexByte(r.Type, '#')+1:] }

func (r *Refusal) orInternalError() *Refusal {
	if r.Type != "" {
		return r
	}
	return &Refusal{
		Status: http.StatusInternalServerError, Type: "com.amazonaws.dynamodb.v20120810#InternalServerError",
		Message: "The request processing has failed because of an unknown error, exception or failure.",
	}
}
