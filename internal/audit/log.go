package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	smithytime "github.com/aws/smithy-go/time"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// ErrOutcomeUnknown says that a change may or may not have been made, or may
// still be made: the store's answer was lost, and it could not be asked again.
var ErrOutcomeUnknown = errors.New("the outcome is unknown: read what is there before changing it again")

const (
	// changeAttempts bounds the attempts of a change that loses against concurrent
	// changes.
	changeAttempts = 50
	// longestPause bounds the pauses between them, as an attempt for
	// [store.Pause]: 40 ms, a few times the duration of a transaction.
	longestPause = 3
	// writeAttempts bounds the attempts of a transaction because its answer
	// was lost or the store was too busy for it.
	writeAttempts = 20
	// writeTimeout bounds a single write, so that time remains for a retry if the
	// answer never comes.
	writeTimeout = 750 * time.Millisecond

	// defaultRetention is how many days events are kept where the system's config
	// does not say.
	defaultRetention = 90
	secondsPerDay    = 86400
)

// Log makes changes with their audit events, and reads the events. It is safe
// for concurrent use, by any number of nodes.
type Log struct {
	client *dynamodb.Client
	table  string
	now    func() (time.Time, error)
	lag    time.Duration // of the table's indexes
	sealer sealer
	turns  turns
}

// Option changes a setting of a Log.
type Option func(*Log)

// IndexLag sets how far the table's indexes may be behind the table. The default is
// [table.IndexLag].
func IndexLag(lag time.Duration) Option { return func(l *Log) { l.lag = lag } }

// NewLog returns the log of a table. The clock tells the store's time; its error
// stops changes from being made.
func NewLog(client *dynamodb.Client, tableName string, now func() (time.Time, error), options ...Option) *Log {
	l := &Log{
		client: client, table: tableName, now: now, lag: table.IndexLag,
		sealer: sealer{client: client, table: tableName, now: now},
		turns:  turns{open: map[string]*turn{}},
	}
	for _, set := range options {
		set(l)
	}
	return l
}

// AwaitIndex waits until the table's indexes show every write made before the call. The
// error is the context's.
func (l *Log) AwaitIndex(ctx context.Context) error { return smithytime.SleepWithContext(ctx, l.lag) }

// Change is an administrative change to make.
type Change struct {
	Namespace string // id, or keys.Registry
	By        api.Principal
	Action    api.AuditAction
	Target    string // an entity, keys.AuditSystem, or a keys.AuditResource
	// Plan reads the current state and returns the writes. Its error ends the change,
	// and nothing is written. It is called again where the plan was outdated.
	Plan func(ctx context.Context) (Plan, error)
}

// Plan holds the writes of a change: at most 98 items, each at most once.
type Plan struct {
	// Writes are refused as a whole unless everything is as the plan relies on.
	Writes []types.TransactWriteItem
	// Before and After become JSON in the event; nil is nothing.
	Before, After any
}

// Apply makes a change, with its event, or does nothing. The error is that of
// Plan; or has the code conflict where others kept changing the same items; or
// is ErrOutcomeUnknown; after every other error, nothing was changed.
func (l *Log) Apply(ctx context.Context, c Change) error {
	turn, err := l.turns.enter(ctx, c.Namespace)
	if err != nil {
		return fmt.Errorf("wait for other changes of the namespace: %w", err)
	}
	defer l.turns.leave(c.Namespace, turn)
	err = l.apply(ctx, turn, c)
	if err != nil || c.Target == keys.AuditSystem { // which may have changed the retention
		turn.known = false
	}
	return err
}

func (l *Log) apply(ctx context.Context, turn *turn, c Change) error {
	plan, err := c.Plan(ctx)
	if err != nil {
		return err
	}
	for n := range changeAttempts {
		if !turn.known {
			if err := l.readHead(ctx, turn, c.Namespace); err != nil {
				return err
			}
		}
		event, err := l.next(ctx, turn, &c, plan)
		if err != nil {
			return err
		}
		refused, err := l.write(ctx, turn.head, event, plan)
		switch {
		case err != nil:
			return err
		case refused == nil:
			turn.head.Sequence, turn.head.AtMs, turn.head.MAC = event.Key.Sequence, event.Key.AtMs, event.MAC
			return nil
		}
		if err := store.Pause(ctx, min(n, longestPause)); err != nil {
			return fmt.Errorf("others change the namespace at the same time: %w", err)
		}
		if err := turn.moved(refused); err != nil {
			return err
		}
		if refused.outdated(len(plan.Writes)) {
			if plan, err = c.Plan(ctx); err != nil {
				return err
			}
		}
	}
	return api.Errorf(api.CodeConflict, "", "others kept changing the same at the same time: read what is there, and try again if need be")
}

// readHead reads the last event's number and how long events are kept.
func (l *Log) readHead(ctx context.Context, turn *turn, namespace string) error {
	seq, config := keys.AuditSeq{Namespace: namespace}, keys.SystemConfig{Namespace: namespace}
	items, err := store.BatchRead(ctx, l.client, l.table, []keys.Key{seq.Key(), config.Key()})
	if err != nil {
		return fmt.Errorf("read the audit sequence: %w", err)
	}
	turn.head, turn.retention = table.AuditHead{Key: seq}, defaultRetention
	for _, item := range items {
		key, err := table.ItemKey(item)
		if err != nil {
			return err
		}
		if key == keys.Item(seq) {
			if turn.head, err = table.DecodeAuditHead(seq, item); err != nil {
				return err
			}
			continue
		}
		config, err := table.DecodeConfig(item)
		if err != nil {
			return err
		}
		if config.RetentionDays > 0 {
			turn.retention = config.RetentionDays
		}
	}
	turn.known = true
	return nil
}

// next is the event of a change that follows the turn's head.
func (l *Log) next(ctx context.Context, turn *turn, c *Change, plan Plan) (*table.AuditEvent, error) {
	now, err := l.now()
	if err != nil {
		return nil, fmt.Errorf("date an audit event: %w", err)
	}
	key, err := l.sealer.newest(ctx)
	if err != nil {
		return nil, err
	}
	e := &table.AuditEvent{
		Key: keys.Audit{
			Namespace: c.Namespace, ID: c.Target,
			AtMs:     max(now.UnixMilli(), turn.head.AtMs), // nodes' clocks differ, and the order must not
			Sequence: turn.head.Sequence + 1,
		},
		Action: c.Action, By: c.By, Previous: turn.head.MAC, KeyID: key.ID,
	}
	if e.Before, err = shown(plan.Before); err != nil {
		return nil, err
	}
	if e.After, err = shown(plan.After); err != nil {
		return nil, err
	}
	e.TTL = e.Key.AtMs/1000 + turn.retention*secondsPerDay
	e.MAC = macOf(key, e)
	return e, nil
}

func shown(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write an audit event: %w", err)
	}
	return string(b), nil
}

// moved takes the head from a refusal, if the head was in the way.
func (l *turn) moved(r refusal) (err error) {
	head := r[len(r)-2]
	if aws.ToString(head.Code) == conditionFailed {
		l.known = len(head.Item) > 0
		l.head, err = table.DecodeAuditHead(l.head.Key, head.Item)
	}
	return err
}
