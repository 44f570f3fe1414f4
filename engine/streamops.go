package engine

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DynamoDB's limits for the parameters and pages of these operations.
const (
	minARN          = 37
	maxStreamPage   = 100 // streams or shards
	maxRecords      = 1000
	maxRecordsBytes = 1 << 20
	minSequence     = 21 // digits
	maxSequence     = 40
)

// sequenceText formats a sequence number with a fixed width, so that its text also
// sorts by number.
func sequenceText(n uint64) string {
	const zeros = "000000000000000000000"
	digits := strconv.FormatUint(n, 10)
	return zeros[:minSequence-len(digits)] + digits
}

// sequenceNumber parses the result of sequenceText, or any other number in a form that
// DynamoDB accepts.
func sequenceNumber(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if len(text) < minSequence || len(text) > maxSequence || err != nil {
		return 0, validation("1 validation error detected: Value '%s' at 'sequenceNumber' failed to satisfy constraint: "+
			"Member must be a sequence number of this stream, %d to %d digits", text, minSequence, maxSequence)
	}
	return n, nil
}

// between checks a Limit and returns it, or most if it is absent.
func between(limit *int, most int) (int, error) {
	if limit == nil {
		return most, nil
	}
	if *limit < 1 || *limit > most {
		return 0, validation("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: "+
			"Member must be between 1 and %d", *limit, most)
	}
	return *limit, nil
}

// refresh drops records beyond their retention.
func (s *streams) refresh(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim(now)
	s.forget(now)
}

// lookup finds a stream. The caller holds mu.
func (s *streams) lookup(arn string) (*stream, error) {
	if len(arn) < minARN {
		return nil, validation("1 validation error detected: Value '%s' at 'streamArn' failed to satisfy constraint: "+
			"Member must have length greater than or equal to %d", arn, minARN)
	}
	st := s.all[arn]
	if st == nil {
		return nil, &apiError{name: typeNotFound, message: "Requested resource not found: Stream: " + arn + " not found"}
	}
	return st, nil
}

type streamSummary struct {
	StreamArn, TableName, StreamLabel string
}

func (e *Engine) listStreams(c *call) ([]byte, error) {
	var in struct {
		TableName               string
		ExclusiveStartStreamArn string
		Limit                   *int
	}
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	limit, err := between(in.Limit, maxStreamPage)
	if err != nil {
		return nil, err
	}
	if in.TableName != "" {
		if err := checkTableName(in.TableName); err != nil {
			return nil, err
		}
	}
	s := e.streams
	s.refresh(e.now())
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := struct {
		Streams                []streamSummary
		LastEvaluatedStreamArn string `json:",omitempty"`
	}{Streams: []streamSummary{}}
	for _, arn := range slices.Sorted(maps.Keys(s.all)) {
		st := s.all[arn]
		if arn <= in.ExclusiveStartStreamArn || in.TableName != "" && st.table != in.TableName {
			continue
		}
		if len(out.Streams) == limit {
			out.LastEvaluatedStreamArn = out.Streams[limit-1].StreamArn
			break
		}
		out.Streams = append(out.Streams, streamSummary{StreamArn: arn, TableName: st.table, StreamLabel: st.label})
	}
	return mustJSON(out), nil
}

type streamDescription struct {
	StreamArn, StreamLabel, StreamStatus, StreamViewType, TableName string

	CreationRequestDateTime json.RawMessage
	KeySchema               []keyElement
	Shards                  []shardDescription
	LastEvaluatedShardID    string `json:"LastEvaluatedShardId,omitempty"`
}

type shardDescription struct {
	ShardID             string `json:"ShardId"`
	ParentShardID       string `json:"ParentShardId,omitempty"`
	SequenceNumberRange sequenceRange
}

type sequenceRange struct {
	StartingSequenceNumber string
	EndingSequenceNumber   string `json:",omitempty"`
}

func (s *streamShard) describe() shardDescription {
	d := shardDescription{
		ShardID: s.id, ParentShardID: s.parent,
		SequenceNumberRange: sequenceRange{StartingSequenceNumber: sequenceText(s.start)},
	}
	if !s.isOpen() {
		d.SequenceNumberRange.EndingSequenceNumber = sequenceText(s.end())
	}
	return d
}

// shardFilter selects the children of a single shard.
type shardFilter struct {
	Type    string
	ShardID string `json:"ShardId"`
}

func (f *shardFilter) check() error {
	if f == nil {
		return nil
	}
	if f.Type != "CHILD_SHARDS" {
		return notMember("shardFilter.type", f.Type, "CHILD_SHARDS")
	}
	return checkShardID("shardFilter.shardId", f.ShardID)
}

func (f *shardFilter) passes(s *streamShard) bool { return f == nil || s.parent == f.ShardID }

// checkShardID refuses a text without the form of DynamoDB's shard IDs.
func checkShardID(field, id string) error {
	const shortest, longest = 28, 65
	if len(id) < shortest || len(id) > longest || !strings.HasPrefix(id, "shardId-") {
		return validation("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: "+
			"Member must be a shard's id, of %d to %d characters", id, field, shortest, longest)
	}
	return nil
}

func (e *Engine) describeStream(c *call) ([]byte, error) {
	var in struct {
		StreamArn             string
		ExclusiveStartShardID string `json:"ExclusiveStartShardId"`
		Limit                 *int
		ShardFilter           *shardFilter
	}
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	limit, err := between(in.Limit, maxStreamPage)
	if err != nil {
		return nil, err
	}
	if err := in.ShardFilter.check(); err != nil {
		return nil, err
	}
	if in.ExclusiveStartShardID != "" {
		if err := checkShardID("exclusiveStartShardId", in.ExclusiveStartShardID); err != nil {
			return nil, err
		}
	}
	s := e.streams
	s.refresh(e.now())
	s.mu.RLock()
	defer s.mu.RUnlock()
	st, err := s.lookup(in.StreamArn)
	if err != nil {
		return nil, err
	}
	d := st.describe()
	for _, shard := range st.shards {
		// The shard to start behind may have been dropped since.
		if shard.number <= shardNumber(in.ExclusiveStartShardID) || !in.ShardFilter.passes(shard) {
			continue
		}
		if len(d.Shards) == limit {
			d.LastEvaluatedShardID = d.Shards[limit-1].ShardID
			break
		}
		d.Shards = append(d.Shards, shard.describe())
	}
	return mustJSON(map[string]any{"StreamDescription": d}), nil
}

func (st *stream) describe() streamDescription {
	d := streamDescription{
		StreamArn: st.arn, StreamLabel: st.label, StreamStatus: "ENABLED", StreamViewType: st.view, TableName: st.table,
		CreationRequestDateTime: epochSeconds(st.created), KeySchema: st.keys.describe(), Shards: []shardDescription{},
	}
	if !st.isOn() {
		d.StreamStatus = "DISABLED"
	}
	return d
}
