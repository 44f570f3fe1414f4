package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// streamStore reads the table's streams. Nothing it does changes anything, so whatever
// failed is asked again.
type streamStore struct {
	client  *dynamodbstreams.Client
	table   string
	timeout time.Duration // of a call
}

// newStore makes a single attempt per call: readers wait and try again by themselves,
// and have to know that it failed.
func newStore(cfg aws.Config, table string, timeout time.Duration) *streamStore {
	client := dynamodbstreams.NewFromConfig(cfg, func(o *dynamodbstreams.Options) { o.Retryer = aws.NopRetryer{} })
	return &streamStore{client: client, table: table, timeout: timeout}
}

// streams returns the table's streams, the oldest first. They include streams that were
// disabled, and the streams of a former table of that name, as long as DynamoDB keeps
// their records.
func (s *streamStore) streams(ctx context.Context) ([]stream, error) {
	var all []stream
	for from := (*string)(nil); ; {
		call, cancel := context.WithTimeout(ctx, s.timeout)
		out, err := s.client.ListStreams(call, &dynamodbstreams.ListStreamsInput{TableName: &s.table, ExclusiveStartStreamArn: from})
		cancel()
		if err != nil {
			return nil, fmt.Errorf("list the streams of table %s: %w", s.table, err)
		}
		for _, one := range out.Streams {
			all = append(all, stream{arn: aws.ToString(one.StreamArn), label: aws.ToString(one.StreamLabel)})
		}
		if from = out.LastEvaluatedStreamArn; from == nil {
			break
		}
	}
	// Labels are times in the same format, so that they sort as text.
	slices.SortFunc(all, func(a, b stream) int { return cmp.Compare(a.label, b.label) })
	for i := range all {
		if err := s.describe(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// describe fills in a stream's shards; it leaves them empty if the stream is gone.
func (s *streamStore) describe(ctx context.Context, st *stream) error {
	for from := (*string)(nil); ; {
		call, cancel := context.WithTimeout(ctx, s.timeout)
		out, err := s.client.DescribeStream(call, &dynamodbstreams.DescribeStreamInput{StreamArn: &st.arn, ExclusiveStartShardId: from})
		cancel()
		var gone *types.ResourceNotFoundException
		switch {
		case errors.As(err, &gone):
			return nil
		case err != nil:
			return fmt.Errorf("describe stream %s: %w", st.label, err)
		case out.StreamDescription.StreamViewType != types.StreamViewTypeNewAndOldImages:
			return fmt.Errorf("stream %s of table %s shows %s: enable it anew with %s",
				st.label, s.table, out.StreamDescription.StreamViewType, types.StreamViewTypeNewAndOldImages)
		}
		for _, one := range out.StreamDescription.Shards {
			st.shards = append(st.shards, streamShard{id: aws.ToString(one.ShardId), parent: aws.ToString(one.ParentShardId)})
		}
		if from = out.StreamDescription.LastEvaluatedShardId; from == nil {
			return nil
		}
	}
}

// iterator is a place in a stream shard: behind a sequence number, or at the
// oldest record there is where that is empty.
func (s *streamStore) iterator(ctx context.Context, at source, behind string) (*string, error) {
	in := &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &at.arn, ShardId: &at.shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	}
	if behind != "" {
		in.ShardIteratorType, in.SequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &behind
	}
	call, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := s.client.GetShardIterator(call, in)
	if err != nil {
		return nil, fmt.Errorf("find a place in the stream shard: %w", err)
	}
	return out.ShardIterator, nil
}

// page reads on from an iterator. The page's own iterator is nil at the end of a
// shard that is closed.
func (s *streamStore) page(ctx context.Context, iterator *string, limit int) (*dynamodbstreams.GetRecordsOutput, error) {
	call, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := s.client.GetRecords(call, &dynamodbstreams.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(int32(limit))}) //nolint:gosec // 999 at most
	if err != nil {
		return nil, fmt.Errorf("read the stream shard: %w", err)
	}
	return out, nil
}

// isTrimmed reports whether records that were to be read next are kept no longer.
func isTrimmed(err error) bool {
	var trimmed *types.TrimmedDataAccessException
	return errors.As(err, &trimmed)
}

// isExpired reports whether an iterator is older than DynamoDB honours.
func isExpired(err error) bool {
	var expired *types.ExpiredIteratorException
	return errors.As(err, &expired)
}
