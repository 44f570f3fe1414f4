package engine

import (
	"fmt"
	"strconv"

	"github.com/tidegate/tidegate/engine/attr"
)

// images returns the images of a change that the stream shows.
func (st *stream) images(c *Change) (before, after attr.Item) {
	switch st.view {
	case "NEW_AND_OLD_IMAGES":
		return c.Old, c.New
	case "NEW_IMAGE":
		return nil, c.New
	case "OLD_IMAGE":
		return c.Old, nil
	}
	return nil, nil
}

// sizeOf returns the size of a change as the stream shows it, in bytes as DynamoDB
// counts them.
func (st *stream) sizeOf(c *Change) int {
	before, after := st.images(c)
	return c.Keys().Size() + before.Size() + after.Size()
}

// eventID returns the event ID of a change in a stream; it is stable on every engine.
func (st *stream) eventID(sequence uint64) string {
	return fmt.Sprintf("%016x%016x", partitionHash(st.arn), sequence)
}

// appendStreamRecord writes a change in the format of GetRecords.
func (e *Engine) appendStreamRecord(b []byte, st *stream, c *Change, size int) []byte {
	o := object{b: b}
	text := func(name, value string) {
		o.field(name)
		o.b = appendText(o.b, value)
	}
	text("awsRegion", e.region)
	o.field("dynamodb")
	o.b = st.appendImages(o.b, c, size)
	text("eventID", st.eventID(c.Sequence))
	text("eventName", c.eventName())
	text("eventSource", "aws:dynamodb")
	text("eventVersion", "1.1")
	if c.By == TimeToLive {
		o.field("userIdentity")
		o.b = append(o.b, `{"PrincipalId":"dynamodb.amazonaws.com","Type":"Service"}`...)
	}
	return o.end()
}

func (c *Change) eventName() string {
	switch {
	case c.Old == nil:
		return "INSERT"
	case c.New == nil:
		return "REMOVE"
	}
	return "MODIFY"
}

func (st *stream) appendImages(b []byte, c *Change, size int) []byte {
	o := object{b: b}
	o.field("ApproximateCreationDateTime") // rounded down to the second, as DynamoDB does
	o.b = strconv.AppendInt(o.b, c.At.Unix(), 10)
	o.field("Keys")
	o.b = c.Keys().AppendJSON(o.b)
	before, after := st.images(c)
	if after != nil {
		o.field("NewImage")
		o.b = after.AppendJSON(o.b)
	}
	if before != nil {
		o.field("OldImage")
		o.b = before.AppendJSON(o.b)
	}
	o.field("SequenceNumber")
	o.b = appendText(o.b, sequenceText(c.Sequence))
	o.field("SizeBytes")
	o.b = strconv.AppendInt(o.b, int64(size), 10)
	o.field("StreamViewType")
	o.b = appendText(o.b, st.view)
	return o.end()
}
