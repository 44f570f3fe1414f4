package sharder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// byResource is the index of buckets, GSI2.
	byResource = 2
	// surveyRows is how many rows are read at once: a page of 1,000 keys costs about
	// 25 read units, and at a page per surveyPause the survey takes a tenth of
	// the capacity of a partition.
	surveyRows  = 1000
	surveyPause = 100 * time.Millisecond
	// surveyRetry is how long a survey that failed waits until it goes on.
	surveyRetry = 5 * time.Second
	surveyCall  = 5 * time.Second
)

// survey looks for divided buckets at once, and then every now and then, until ctx
// ends.
func (s *Sharder) survey(ctx context.Context) {
	for {
		if s.surveyOnce(ctx) != nil {
			return
		}
		if !pause(ctx, s.cfg.Tuning.Survey) {
			return
		}
	}
}

// surveyOnce looks through the index of buckets. Each divided bucket has a shard 1,
// and no other has. A failure is tried again; the error is ctx's.
func (s *Sharder) surveyOnce(ctx context.Context) error {
	var from table.Item
	for {
		next, err := s.surveyPage(ctx, from)
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			s.metrics.surveysFailed.Inc()
			s.cfg.Log.WarnContext(ctx, "the survey of divided buckets waits", "error", err)
			if !pause(ctx, surveyRetry) {
				return ctx.Err()
			}
			continue
		case len(next) == 0:
			s.metrics.surveys.Inc()
			return nil
		}
		from = next
		if !pause(ctx, surveyPause) {
			return ctx.Err()
		}
	}
}

// surveyPage looks through a page, and returns where the next page begins.
func (s *Sharder) surveyPage(ctx context.Context, from table.Item) (next table.Item, err error) {
	call, cancel := context.WithTimeout(ctx, surveyCall)
	defer cancel()
	page, err := s.client.Scan(call, &dynamodb.ScanInput{
		TableName: &s.cfg.Table, IndexName: aws.String(table.IndexName(byResource)),
		Limit: aws.Int32(surveyRows), ExclusiveStartKey: from,
	})
	if err != nil {
		return nil, fmt.Errorf("list buckets: %w", err)
	}
	for _, row := range page.Items {
		key, err := table.BucketKey(row)
		if err != nil {
			s.cfg.Log.WarnContext(ctx, "a row of the index of buckets cannot be understood", "error", err)
			continue
		}
		if bucket := bucketOf(key); key.Shard == 1 && !s.tracker.knows(bucket) {
			if err := s.meet(ctx, bucket); isOutage(err) {
				return nil, err
			} else if err != nil { // only people can mend it, and the others are not to wait for them
				s.cfg.Log.WarnContext(ctx, "a divided bucket cannot be understood", "bucket", bucket.Key().PK, "error", err)
			}
		}
	}
	return page.LastEvaluatedKey, nil
}

// meet gets to know a bucket. The index may list buckets that are gone.
func (s *Sharder) meet(ctx context.Context, key keys.Bucket) error {
	call, cancel := context.WithTimeout(ctx, surveyCall)
	defer cancel()
	tree, err := s.shards.Read(call, key, 0)
	if err != nil {
		return err
	}
	s.tracker.read(key, tree, s.applied(call, tree), s.nowMs())
	return nil
}

// isOutage reports whether the store gave no answer, as opposed to a refusal.
func isOutage(err error) bool {
	var call *smithy.OperationError
	return errors.As(err, &call) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// pause waits, and reports whether it came to its end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
