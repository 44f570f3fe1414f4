package engine

import (
	"maps"
	"slices"
	"strings"
)

type tag struct {
	Key, Value string
}

// maxTags is DynamoDB's limit for a table.
const maxTags = 50

// tagged finds the table of a ResourceArn.
func (e *Engine) tagged(arn string) (*table, error) {
	if !strings.HasPrefix(arn, arnPrefix) {
		return nil, validation("Invalid TableArn: Invalid ResourceArn provided as input %s", arn)
	}
	return e.lookup(arn)
}

func (e *Engine) listTagsOfResource(c *call) ([]byte, error) {
	var in struct{ ResourceArn string }
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	t, err := e.tagged(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return mustJSON(map[string]any{"Tags": append([]tag{}, t.tags...)}), nil
}

func (e *Engine) tagResource(c *call) ([]byte, error) {
	var in struct {
		ResourceArn string
		Tags        []tag
	}
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	if len(in.Tags) == 0 {
		return nil, missing("tags")
	}
	return e.retag(in.ResourceArn, func(tags map[string]string) {
		for _, x := range in.Tags {
			tags[x.Key] = x.Value
		}
	})
}

func (e *Engine) untagResource(c *call) ([]byte, error) {
	var in struct {
		ResourceArn string
		TagKeys     []string
	}
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	if len(in.TagKeys) == 0 {
		return nil, missing("tagKeys")
	}
	return e.retag(in.ResourceArn, func(tags map[string]string) {
		for _, key := range in.TagKeys {
			delete(tags, key)
		}
	})
}

// retag changes the tags of a table.
func (e *Engine) retag(arn string, change func(map[string]string)) ([]byte, error) {
	t, err := e.tagged(arn)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.still(t); err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for _, x := range t.tags {
		tags[x.Key] = x.Value
	}
	change(tags)
	if len(tags) > maxTags {
		return nil, validation("One or more parameter values were invalid: a table has at most %d tags", maxTags)
	}
	t.tags = nil
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		t.tags = append(t.tags, tag{Key: key, Value: tags[key]})
	}
	e.recordTable(t)
	return mustJSON(struct{}{}), nil
}

// describeContinuousBackups returns DynamoDB's reply for a table with the default
// settings.
func (e *Engine) describeContinuousBackups(c *call) ([]byte, error) {
	var in tableNameInput
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	if _, err := e.lookup(in.TableName); err != nil {
		if asAPIError(err).name == typeNotFound {
			return nil, &apiError{name: typeTableNotFound, message: "Table not found: " + in.TableName}
		}
		return nil, err
	}
	return mustJSON(map[string]any{"ContinuousBackupsDescription": map[string]any{
		"ContinuousBackupsStatus":        "ENABLED",
		"PointInTimeRecoveryDescription": map[string]string{"PointInTimeRecoveryStatus": "DISABLED"},
	}}), nil
}
