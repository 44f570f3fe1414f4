package engine

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// iteratorLife is the lifetime of a shard iterator in DynamoDB.
const iteratorLife = 15 * time.Minute

// iterator is a position in a stream shard. Its text holds its whole state: it stays
// valid after a restart, and using it twice returns the same records.
type iterator struct {
	arn   string
	Shard string
	Next  uint64 // the least sequence number to show
	At    int64  // when it was given out, milliseconds since 1970
}

func (i iterator) String() string {
	return i.arn + "|1|" + base64.StdEncoding.EncodeToString(mustJSON(i))
}

func parseIterator(text string) (iterator, error) {
	var i iterator
	arn, rest, ok := strings.Cut(text, "|1|")
	raw, err := base64.StdEncoding.DecodeString(rest)
	if err == nil {
		err = json.Unmarshal(raw, &i)
	}
	if !ok || err != nil || i.Shard == "" {
		return i, validation("Invalid ShardIterator")
	}
	i.arn = arn
	return i, nil
}

// check refuses an iterator that is too old.
func (i iterator) check(now time.Time) error {
	at := time.UnixMilli(i.At)
	if now.Sub(at) <= iteratorLife {
		return nil
	}
	return &apiError{name: typeExpiredIterator, message: fmt.Sprintf("Iterator expired. The iterator was created at time %s "+
		"while right now it is %s which is further in the future than the tolerated delay of %d milliseconds.",
		at.UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano), iteratorLife.Milliseconds())}
}

type shardIteratorInput struct {
	StreamArn         string
	ShardID           string `json:"ShardId"`
	ShardIteratorType string
	SequenceNumber    string
}

func (e *Engine) getShardIterator(c *call) ([]byte, error) {
	var in shardIteratorInput
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	if err := checkShardID("shardId", in.ShardID); err != nil {
		return nil, err
	}
	sequence, err := in.sequence()
	if err != nil {
		return nil, err
	}
	s := e.streams
	s.refresh(e.now())
	s.mu.RLock()
	defer s.mu.RUnlock()
	st, err := s.lookup(in.StreamArn)
	if err != nil {
		return nil, err
	}
	shard := s.shard(st, in.ShardID)
	if shard == nil {
		return nil, &apiError{name: typeNotFound, message: "Requested resource not found: Shard does not exist"}
	}
	i := iterator{arn: st.arn, Shard: shard.id, At: e.now().UnixMilli()}
	if i.Next, err = shard.begin(in.ShardIteratorType, sequence); err != nil {
		return nil, err
	}
	return mustJSON(map[string]string{"ShardIterator": i.String()}), nil
}

// sequence checks the type of the iterator and the sequence number it requires.
func (in *shardIteratorInput) sequence() (uint64, error) {
	switch in.ShardIteratorType {
	case "TRIM_HORIZON", "LATEST":
		if in.SequenceNumber != "" {
			return 0, validation("SequenceNumber is only for the ShardIteratorTypes AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER")
		}
		return 0, nil
	case "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER":
		if in.SequenceNumber == "" {
			return 0, validation("SequenceNumber is required for the ShardIteratorType %s", in.ShardIteratorType)
		}
		return sequenceNumber(in.SequenceNumber)
	case "AT_TIMESTAMP":
		return 0, unsupported("the ShardIteratorType AT_TIMESTAMP", "use a sequence number, or TRIM_HORIZON")
	}
	return 0, notMember("shardIteratorType", orNull(in.ShardIteratorType),
		"TRIM_HORIZON, LATEST, AT_SEQUENCE_NUMBER, AFTER_SEQUENCE_NUMBER")
}

// begin returns the first sequence number that an iterator of a type shows. It fails
// only if a record would be missing; for AFTER_SEQUENCE_NUMBER, the named record may
// be gone.
func (s *streamShard) begin(kind string, sequence uint64) (uint64, error) {
	switch kind {
	case "TRIM_HORIZON":
		return max(s.start, s.trimmed+1), nil
	case "LATEST":
		return max(s.start, s.last+1), nil
	}
	if sequence < s.start || sequence > s.end() {
		return 0, validation("Invalid SequenceNumber: %s is not in the range of shard %s", sequenceText(sequence), s.id)
	}
	if kind == "AFTER_SEQUENCE_NUMBER" {
		sequence++
	}
	return sequence, s.checkTrimmed(sequence)
}

// checkTrimmed refuses a position in a shard if records behind it are gone.
func (s *streamShard) checkTrimmed(next uint64) error {
	if next <= s.trimmed {
		return trimmed()
	}
	return nil
}

func trimmed() error {
	return &apiError{name: typeTrimmed, message: "The requested stream records are beyond the trim horizon: " +
		"they were kept no longer. Use TRIM_HORIZON to go on with the oldest there are."}
}
