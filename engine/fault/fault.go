package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Kind is what happens to a request.
type Kind uint8

const (
	// None passes the request on.
	None Kind = iota
	// Refused answers with Fault.Refusal; the back end sees nothing.
	Refused
	// Unreachable fails with Fault.Err as if no connection could be made; the
	// back end sees nothing.
	Unreachable
	// FailedAfter carries the request out and answers with Fault.Refusal all the
	// same.
	FailedAfter
	// ReplyLost carries the request out and fails with Fault.Err as if the
	// connection had broken before the reply.
	ReplyLost
	// ReplyHangs carries the request out and answers nothing until the caller's
	// context ends.
	ReplyHangs
	// Hangs answers nothing until the caller's context ends; the back end sees
	// nothing.
	Hangs
	// Late lets the request arrive Fault.Delay after it was sent, whether or not
	// its caller still waits. The caller learns nothing: its call ends with its
	// context, or fails with Fault.Err once the request has arrived.
	Late
	// PageAgain answers a GetRecords with the page that its caller got last from
	// that stream shard: the same records, and the iterator it came with.
	PageAgain
	// PageOverlaps begins a page of GetRecords with some of the last records of
	// the page before.
	PageOverlaps
	// ShardHeld lets a stream shard bring empty pages for Fault.Delay, while
	// others go on.
	ShardHeld
	// StaleRead is a read that showed the past, by Options.Stale. It is counted
	// only, and cannot be asked for by a Fault.
	StaleRead
)

// String is the kind's name in counts.
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

// Fault is what happens to one request. The zero Fault is nothing at all.
type Fault struct {
	Kind Kind
	// Delay is how long the request is under way before anything happens,
	// beyond the transport's latency; for ShardHeld, how long the shard is held.
	Delay time.Duration
	// Err is what the caller sees where it gets no reply. Default:
	// syscall.ECONNREFUSED for Unreachable, else io.ErrUnexpectedEOF.
	Err error
	// Refusal is what the caller gets where it gets a reply. Default: an
	// InternalServerError.
	Refusal Refusal
}

// Refusal is a reply that stands in for the back end's.
type Refusal struct {
	Status  int    // HTTP
	Type    string // as in __type, with its namespace
	Message string
	Reasons []Reason // of a throttle
	Codes   []string // of a cancelled transaction, one for each action
}

// Reason says which limit throttled a request.
type Reason struct {
	Reason   string `json:"reason"`
	Resource string `json:"resource"` // ARN of the table or index
}

// Reasons of throttling that callers tell apart: a table's key range means the
// item's own partition, an index's key range does not.
const (
	TableWriteKeyRange = "TableWriteKeyRangeThroughputExceeded"
	TableReadKeyRange  = "TableReadKeyRangeThroughputExceeded"
	IndexWriteKeyRange = "IndexWriteKeyRangeThroughputExceeded"
	IndexReadKeyRange  = "IndexReadKeyRangeThroughputExceeded"
	TableWriteMax      = "TableWriteMaxOnDemandThroughputExceeded"
)

// ThroughputExceeded is the throttle of provisioned tables, typed
// ProvisionedThroughputExceededException.
func ThroughputExceeded(reasons ...Reason) Fault {
	return Fault{Kind: Refused, Refusal: Refusal{
		Status: http.StatusBadRequest, Type: "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
		Message: "The level of configured provisioned throughput for the table was exceeded.", Reasons: reasons,
	}}
}

// Throttling is the throttle of tables on demand, typed ThrottlingException.
func Throttling(reasons ...Reason) Fault {
	return Fault{Kind: Refused, Refusal: Refusal{
		Status: http.StatusBadRequest, Type: "com.amazon.coral.availability#ThrottlingException",
		Message: "Throughput exceeds the current capacity of your table or index.", Reasons: reasons,
	}}
}

// TransactionConflict refuses a write of one item because a transaction holds it.
func TransactionConflict() Fault {
	return Fault{Kind: Refused, Refusal: Refusal{
		Status: http.StatusBadRequest, Type: "com.amazonaws.dynamodb.v20120810#TransactionConflictException",
		Message: "Transaction is ongoing for the item",
	}}
}

// TransactionCanceled refuses a transaction with one code for each of its
// actions: None, TransactionConflict, ThrottlingError and so on.
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

// InternalError is a server that failed before it did anything.
func InternalError() Fault { return Fault{Kind: Refused} }

// InternalErrorAfter is a server that failed after it had done the work.
func InternalErrorAfter() Fault { return Fault{Kind: FailedAfter} }

// body is the refusal as DynamoDB writes it. DynamoDB spells the reasons of its
// two throttles, and the message of a cancelled transaction, differently.
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

// name is the type without its namespace.
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
