package limits

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// ErrOutcomeUnknown says that a change may or may not have been made, or may
// still be made: the store's answer was lost, and it could not be asked again.
var ErrOutcomeUnknown = errors.New("the outcome is unknown: read the level before changing it again")

const (
	// changeAttempts is how often a write is made anew because others were
	// faster, or repeated because its answer was lost.
	changeAttempts = 10
	// writeTimeout bounds one write, so that an answer which never comes leaves
	// time to look what became of it.
	writeTimeout = time.Second
)

// change is one change of one level under way.
type change struct {
	key     keys.Item
	deletes bool // it wants the limits gone, and is content whoever took them
	// write writes once, under the condition that the level is as known, and
	// leaves the nonce. It returns the level as written, nil for none; its
	// *api.Error says that there is nothing to write.
	write func(ctx context.Context, known *table.Config, nonce string) (*table.Config, error)

	nonce   string        // the same for all attempts
	known   *table.Config // what the next write relies on; nil: nothing is stored
	unknown bool          // the answer of an attempt was lost
}

// apply brings a change to its level and finds out what became of it.
func (s *Store) apply(ctx context.Context, c change) (*table.Config, error) {
	var err error
	if c.known, err = s.read(ctx, c.key); err != nil {
		return nil, err
	}
	c.nonce = rand.Text()
	for n := range changeAttempts {
		after, err := c.writeOnce(ctx)
		var nothing *api.Error
		switch {
		case err == nil:
			return after, nil
		case errors.As(err, &nothing) || final(err):
			return nil, err
		}
		seen, err := s.look(ctx, &c, err, n)
		if err != nil {
			return nil, err
		}
		if c.done(seen) {
			return seen, nil
		}
		if c.unknown && !same(seen, c.known) {
			return nil, c.conflict()
		}
		c.known = seen
	}
	if c.unknown {
		return nil, ErrOutcomeUnknown
	}
	return nil, c.conflict()
}

func (c *change) writeOnce(ctx context.Context) (*table.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return c.write(ctx, c.known, c.nonce)
}

// look returns the level as it is after attempt n failed: a refusal brings it
// along, everything else leaves the outcome open and takes a read.
func (s *Store) look(ctx context.Context, c *change, failure error, n int) (*table.Config, error) {
	var refused *types.ConditionalCheckFailedException
	isRefusal := errors.As(failure, &refused)
	c.unknown = c.unknown || !isRefusal
	err := table.Pause(ctx, n)
	if err == nil && isRefusal {
		return decode(refused.Item)
	}
	if err == nil {
		var seen *table.Config
		if seen, err = s.read(ctx, c.key); err == nil {
			return seen, nil
		}
	}
	if c.unknown {
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, errors.Join(failure, err))
	}
	return nil, err
}

// done reports whether an attempt whose answer was lost has done its work.
func (c *change) done(seen *table.Config) bool {
	switch {
	case !c.unknown:
		return false
	case seen == nil:
		return c.deletes
	}
	return seen.LastWrite == c.nonce || (c.deletes && len(seen.Limits) == 0)
}

func (c *change) conflict() *api.Error {
	return api.Errorf(api.CodeConflict, "", "others changed the limits of %s at the same time: read them, and set them again if need be",
		describe(targetOf(c.key)))
}

// same reports whether nobody wrote between two reads.
func same(a, b *table.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Version == b.Version && a.LastWrite == b.LastWrite
}

// final reports a refusal that repeating cannot change and that did not apply
// anything: an answer with a 4xx status that is neither a failed condition nor
// a throttle nor a transaction in the way.
func final(err error) bool {
	var answer *awshttp.ResponseError
	if !errors.As(err, &answer) || answer.HTTPStatusCode() < http.StatusBadRequest ||
		answer.HTTPStatusCode() >= http.StatusInternalServerError {
		return false // status 0: no answer at all
	}
	var refused *types.ConditionalCheckFailedException
	var busy *types.TransactionConflictException
	throttled := retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}.IsErrorThrottle(err) == aws.TrueTernary
	return !errors.As(err, &refused) && !errors.As(err, &busy) && !throttled
}
