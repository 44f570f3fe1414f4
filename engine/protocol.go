package engine

import (
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	tablesPrefix  = "DynamoDB_20120810."
	streamsPrefix = "DynamoDBStreams_20120810."
	contentType   = "application/x-amz-json-1.0"

	// maxBody is DynamoDB's maximum request size.
	maxBody = 16 << 20
)

// ConsumedHeader is a reply header of this engine: write units of tables, read units,
// write units of indexes, as decimal numbers separated by spaces. Unlike DynamoDB's
// ConsumedCapacity, it is in every reply, including refused conditions.
const ConsumedHeader = "X-Localdynamo-Consumed"

// call is a request while an operation executes it.
type call struct {
	body []byte
	bill bill
	seen uint64 // position of the last record the reply may show; 0: of whichever there are
}

// reply is the result of a request.
type reply struct {
	status   int
	body     []byte
	consumed string
}

// operation executes a request and returns the reply's JSON.
type operation func(*Engine, *call) ([]byte, error)

func operationNamed(name string) operation {
	switch name {
	case "UpdateItem":
		return (*Engine).updateItem
	case "GetItem":
		return (*Engine).getItem
	case "PutItem":
		return (*Engine).putItem
	case "DeleteItem":
		return (*Engine).deleteItem
	case "BatchGetItem":
		return (*Engine).batchGetItem
	case "BatchWriteItem":
		return (*Engine).batchWriteItem
	case "Query":
		return (*Engine).query
	case "Scan":
		return (*Engine).scan
	case "TransactWriteItems":
		return (*Engine).transactWriteItems
	case "TransactGetItems":
		return (*Engine).transactGetItems
	case "CreateTable":
		return (*Engine).createTable
	case "DescribeTable":
		return (*Engine).describeTable
	case "UpdateTable":
		return (*Engine).updateTable
	case "DeleteTable":
		return (*Engine).deleteTable
	case "ListTables":
		return (*Engine).listTables
	case "ListTagsOfResource":
		return (*Engine).listTagsOfResource
	case "TagResource":
		return (*Engine).tagResource
	case "UntagResource":
		return (*Engine).untagResource
	case "DescribeContinuousBackups":
		return (*Engine).describeContinuousBackups
	case "UpdateTimeToLive":
		return (*Engine).updateTimeToLive
	case "DescribeTimeToLive":
		return (*Engine).describeTimeToLive
	}
	return nil
}

func streamOperationNamed(name string) operation {
	switch name {
	case "GetRecords":
		return (*Engine).getRecords
	case "GetShardIterator":
		return (*Engine).getShardIterator
	case "DescribeStream":
		return (*Engine).describeStream
	case "ListStreams":
		return (*Engine).listStreams
	}
	return nil
}

// operationAt returns the operation of an X-Amz-Target.
func operationAt(target string) (operation, error) {
	var run operation
	name, ok := strings.CutPrefix(target, tablesPrefix)
	if ok {
		run = operationNamed(name)
	} else if name, ok = strings.CutPrefix(target, streamsPrefix); ok {
		run = streamOperationNamed(name)
	}
	switch {
	case !ok:
		return nil, &apiError{name: typeUnknownOperation, message: fmt.Sprintf(
			"X-Amz-Target %q is not of the form %sOperation or %sOperation", target, tablesPrefix, streamsPrefix)}
	case run == nil:
		return nil, &apiError{name: typeUnknownOperation, message: fmt.Sprintf(
			"operation %q is not supported by this engine", name)}
	}
	return run, nil
}

// answer executes a request. It never panics.
func (e *Engine) answer(target string, body []byte) (r reply) {
	c := call{body: body}
	defer func() {
		if p := recover(); p != nil {
			r = refusal(&apiError{name: typeInternal, message: fmt.Sprintf("the engine failed: %v", p)})
		}
		if len(c.bill.charges) > 0 {
			r.consumed = c.bill.summary()
		}
	}()
	out, err := e.dispatch(target, &c)
	if err != nil {
		c.seen = 0 // a refusal also depends on stored items
	}
	if unsafe := e.await(c.seen); unsafe != nil {
		err = unsafe
	}
	if err != nil {
		return refusal(asAPIError(err))
	}
	return reply{status: http.StatusOK, body: out}
}

func refusal(err *apiError) reply {
	return reply{status: err.status(), body: err.appendJSON(nil)}
}

func (e *Engine) dispatch(target string, c *call) ([]byte, error) {
	run, err := operationAt(target)
	if err != nil {
		return nil, err
	}
	if len(c.body) > maxBody {
		return nil, &apiError{name: typeTooLarge, message: fmt.Sprintf("the request is larger than %d bytes", maxBody)}
	}
	if !utf8.Valid(c.body) {
		return nil, serialization("the request is not UTF-8")
	}
	if err := e.usable(); err != nil {
		return nil, err
	}
	return run(e, c)
}

// header sets the headers of a reply.
func (e *Engine) header(h http.Header, r reply) {
	h["Content-Type"] = []string{contentType}
	h["Date"] = []string{e.date.at(e.now())}
	h["X-Amzn-Requestid"] = []string{e.requests.next()}
	h["X-Amz-Crc32"] = []string{strconv.FormatUint(uint64(crc32.ChecksumIEEE(r.body)), 10)}
	if r.consumed != "" {
		h[ConsumedHeader] = []string{r.consumed}
	}
}

// ServeHTTP serves DynamoDB's JSON 1.0 protocol. It does not check signatures, so all
// of its callers have full access: listen on loopback only.
func (e *Engine) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := readBody(req)
	var r reply
	switch {
	case err != nil:
		r = refusal(asAPIError(serialization("the request could not be read: %v", err)))
	case req.Method != http.MethodPost:
		r = refusal(&apiError{name: typeUnknownOperation, message: "requests are made with POST, got " + req.Method})
	default:
		r = e.answer(req.Header.Get("X-Amz-Target"), body)
	}
	e.header(w.Header(), r)
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(r.body))}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // an error here is a caller that went away
}

// readBody reads a request's body, at most a byte more than the limit.
func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	if n := req.ContentLength; n >= 0 && n <= maxBody {
		body := make([]byte, n)
		_, err := io.ReadFull(req.Body, body)
		return body, err
	}
	return io.ReadAll(io.LimitReader(req.Body, maxBody+1))
}

// dateHeader caches the last Date header, which changes every second.
type dateHeader struct {
	last atomic.Pointer[formattedDate]
}

type formattedDate struct {
	second int64
	text   string
}

func (d *dateHeader) at(now time.Time) string {
	second := now.Unix()
	if last := d.last.Load(); last != nil && last.second == second {
		return last.text
	}
	f := &formattedDate{second: second, text: now.UTC().Format(http.TimeFormat)}
	d.last.Store(f)
	return f.text
}

// requestIDs numbers requests in the format of DynamoDB's request IDs.
type requestIDs struct {
	boot string
	n    *atomic.Uint64
}

func newRequestIDs() requestIDs {
	return requestIDs{boot: fmt.Sprintf("%016X", rand.Uint64()), n: new(atomic.Uint64)}
}

func (r *requestIDs) next() string {
	const shape = "00000000000000000000"
	n := strconv.FormatUint(r.n.Add(1), 10)
	return r.boot + shape[len(n):] + n
}
