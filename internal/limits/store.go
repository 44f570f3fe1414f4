package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Store reads and changes stored limits. It is safe for concurrent use, by any
// number of nodes.
//
// Namespaces are ids (11 characters), entities and resources names that passed
// the checks of package api. An error that is an *api.Error is the caller's and
// final; every other one says that the store did not do its part.
type Store struct {
	client *dynamodb.Client
	table  string
}

// NewStore returns a store on a table. Reads are retried as the client says;
// writes are repeated by the store itself.
func NewStore(client *dynamodb.Client, tableName string) *Store {
	return &Store{client: client, table: tableName}
}

// Get reads one level; it fails with the code not_found where nothing is
// stored. A level that holds a policy alone has no limits.
func (s *Store) Get(ctx context.Context, ns string, target api.LimitsTarget) (api.LimitsLevel, error) {
	if err := target.Check(); err != nil {
		return api.LimitsLevel{}, err
	}
	c, err := s.read(ctx, itemOf(ns, target))
	if err != nil {
		return api.LimitsLevel{}, err
	}
	if c == nil {
		return api.LimitsLevel{}, notFound(target)
	}
	return levelOf(c), nil
}

// Set replaces all limits of a level, and its policy where one is given, and
// returns the level as it is then. Bounds are checked before any I/O; the
// error's field names the limit, such as "limits.rpm.capacity". The code
// conflict says that others kept changing the level, [ErrOutcomeUnknown] that
// the change may or may not have been made.
func (s *Store) Set(ctx context.Context, ns string, req api.LimitsSetRequest) (api.LimitsLevel, error) {
	limits, err := checked(req)
	if err != nil {
		return api.LimitsLevel{}, err
	}
	key := itemOf(ns, req.LimitsTarget)
	after, err := s.apply(ctx, change{
		key: key,
		write: func(ctx context.Context, known *table.Config, nonce string) (*table.Config, error) {
			return s.update(ctx, &table.SetConfig{
				Key: key, Known: known, Limits: limits, OnUnavailable: req.OnUnavailable, Nonce: nonce,
			})
		},
	})
	if err != nil {
		return api.LimitsLevel{}, fmt.Errorf("set the limits of %s: %w", describe(req.LimitsTarget), err)
	}
	return levelOf(after), nil
}

// Delete takes all limits from a level, so that the next one wins. A policy
// stays, as do settings of later releases; where there is none, nothing is left
// of the level. It fails with the code not_found where there are no limits, and
// otherwise as Set does.
func (s *Store) Delete(ctx context.Context, ns string, target api.LimitsTarget) error {
	if err := target.Check(); err != nil {
		return err
	}
	key := itemOf(ns, target)
	write := func(ctx context.Context, known *table.Config, nonce string) (*table.Config, error) {
		switch {
		case known == nil || len(known.Limits) == 0:
			return nil, notFound(target)
		case known.OnlyLimits():
			_, err := s.client.DeleteItem(ctx, (&table.DeleteConfig{Known: known}).Input(s.table), once)
			return nil, err
		}
		return s.update(ctx, &table.SetConfig{Key: key, Known: known, Nonce: nonce})
	}
	_, err := s.apply(ctx, change{key: key, deletes: true, write: write})
	if err != nil {
		return fmt.Errorf("delete the limits of %s: %w", describe(target), err)
	}
	return nil
}

// read is a consistent read of one level; nil: nothing is stored.
func (s *Store) read(ctx context.Context, key keys.Item) (*table.Config, error) {
	out, err := s.client.GetItem(ctx, table.ReadInput(s.table, key.Key()))
	if err != nil {
		return nil, fmt.Errorf("read the limits of %s: %w", describe(targetOf(key)), err)
	}
	return decode(out.Item)
}

// decode reads a config item; nil for no item.
func decode(item table.Item) (*table.Config, error) {
	if len(item) == 0 {
		return nil, nil //nolint:nilnil // no item is an answer, not an error: a level without settings
	}
	return table.DecodeConfig(item)
}

func (s *Store) update(ctx context.Context, form *table.SetConfig) (*table.Config, error) {
	out, err := s.client.UpdateItem(ctx, form.Input(s.table), once)
	if err != nil {
		return nil, err
	}
	return table.DecodeConfig(out.Attributes)
}

// once makes the SDK try a single time: apply has to see every attempt's
// outcome to tell its own writes from those of others.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// checked returns the limits of a request in order, once everything about it is
// known to be good.
func checked(req api.LimitsSetRequest) ([]api.Limit, error) {
	if err := cmp.Or(req.Check(), req.OnUnavailable.Check()); err != nil {
		return nil, err
	}
	switch {
	case len(req.Limits) == 0:
		return nil, api.Errorf(api.CodeMissingField, "limits", "name at least one limit; to take all limits away, delete the level")
	case len(req.Limits) > bucket.MaxLimits:
		return nil, api.Errorf(api.CodeTooManyLimits, "limits", "a bucket has at most %d limits", bucket.MaxLimits)
	}
	limits := slices.SortedFunc(slices.Values(req.Limits), func(a, b api.Limit) int { return cmp.Compare(a.Name, b.Name) })
	for i, l := range limits {
		if err := checkLimit(l); err != nil {
			return nil, err
		}
		if i > 0 && limits[i-1].Name == l.Name {
			return nil, api.Errorf(api.CodeInvalidLimit, "limits."+l.Name, "%q is named twice", l.Name)
		}
	}
	return limits, nil
}

// checkLimit puts the field of a limit's error under the limit's name. A name
// that is not good is not repeated in it.
func checkLimit(l api.Limit) error {
	err := l.Check()
	var bad *api.Error
	if !errors.As(err, &bad) {
		return err
	}
	path := "limits." + bad.Field
	if bad.Code != api.CodeInvalidLimitName {
		path = "limits." + l.Name + "." + bad.Field
	}
	return &api.Error{Code: bad.Code, Field: path, Message: bad.Message}
}

// levelOf is a config as requests see it.
func levelOf(c *table.Config) api.LimitsLevel {
	limits := c.Limits
	if limits == nil {
		limits = []api.Limit{} // an array on the wire
	}
	return api.LimitsLevel{LimitsTarget: targetOf(c.Key), Limits: limits, OnUnavailable: c.OnUnavailable, Version: c.Version}
}

func notFound(target api.LimitsTarget) *api.Error {
	return api.Errorf(api.CodeNotFound, "", "no limits are stored for %s", describe(target))
}

// describe names a level in messages.
func describe(t api.LimitsTarget) string {
	switch {
	case t.Entity != "" && t.Resource != "":
		return "entity " + t.Entity + " and resource " + t.Resource
	case t.Entity != "":
		return "entity " + t.Entity
	case t.Resource != "":
		return "resource " + t.Resource
	}
	return "the system"
}
