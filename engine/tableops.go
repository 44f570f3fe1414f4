package engine

import (
	"maps"
	"slices"
)

type tableNameInput struct {
	TableName string
}

func (e *Engine) describeTable(c *call) ([]byte, error) {
	var in tableNameInput
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	t, err := e.lookup(in.TableName)
	if err != nil && asAPIError(err).name == typeNotFound {
		return nil, &apiError{name: typeNotFound, message: "Requested resource not found: Table: " + in.TableName + " not found"}
	}
	if err != nil {
		return nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return mustJSON(map[string]any{"Table": t.describe(statusActive)}), nil
}

func (e *Engine) deleteTable(c *call) ([]byte, error) {
	var in tableNameInput
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	t, err := e.lookup(in.TableName)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.still(t); err != nil {
		return nil, err
	}
	if t.protected {
		return nil, validation("Resource cannot be deleted as it is currently protected against deletion. " +
			"Disable deletion protection first.")
	}
	now := e.now()
	delete(e.tables, t.name)
	e.streams.end(t.changes, now)
	e.record(func(b []byte) []byte { return appendDrop(b, t.name, now) })
	return mustJSON(map[string]any{"TableDescription": t.describe("DELETING")}), nil
}

func (e *Engine) listTables(c *call) ([]byte, error) {
	in := struct {
		ExclusiveStartTableName string
		Limit                   int
	}{Limit: 100}
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	if in.Limit < 1 || in.Limit > 100 {
		return nil, validation("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: "+
			"Member must be between 1 and 100", in.Limit)
	}
	e.mu.RLock()
	names := slices.Sorted(maps.Keys(e.tables))
	e.mu.RUnlock()
	if in.ExclusiveStartTableName != "" {
		at, found := slices.BinarySearch(names, in.ExclusiveStartTableName)
		if found {
			at++
		}
		names = names[at:]
	}
	out := struct {
		TableNames             []string
		LastEvaluatedTableName string `json:",omitempty"`
	}{TableNames: append([]string{}, names[:min(in.Limit, len(names))]...)}
	if len(names) > in.Limit {
		out.LastEvaluatedTableName = names[in.Limit-1]
	}
	return mustJSON(out), nil
}

// updateTable changes a table's settings, or adds or removes an index. It makes all
// checks before any change.
func (e *Engine) updateTable(c *call) ([]byte, error) {
	var in updateTableInput
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	t, err := e.lookup(in.TableName)
	if err != nil && asAPIError(err).name != typeNotFound {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.still(t); err != nil {
		return nil, err
	}
	draft := table{name: t.name, keys: t.keys, kinds: t.kinds, indexes: t.indexes, billing: t.billing, throughput: t.throughput}
	if in.BillingMode != "" || in.ProvisionedThroughput != nil {
		mode := in.BillingMode
		if mode == "" {
			mode = t.billing
		}
		if err := draft.setBilling(mode, in.ProvisionedThroughput); err != nil {
			return nil, err
		}
	}
	if err := t.checkStreamUpdate(in.StreamSpecification); err != nil {
		return nil, err
	}
	added, removed, err := in.indexUpdate(&draft)
	if err != nil {
		return nil, err
	}
	t.billing, t.throughput, t.kinds = draft.billing, draft.throughput, draft.kinds
	if s := in.StreamSpecification; s != nil {
		t.stream = *s
		if s.StreamEnabled {
			t.changes = e.streams.begin(t, s.StreamViewType, e.sequence, e.now())
		} else {
			e.streams.end(t.changes, e.now())
		}
	}
	if in.DeletionProtectionEnabled != nil {
		t.protected = *in.DeletionProtectionEnabled
	}
	if removed != "" {
		t.indexes = slices.DeleteFunc(slices.Clone(t.indexes), func(x *index) bool { return x.name == removed })
	}
	if added != nil {
		t.addIndex(added)
	}
	e.recordTable(t)
	return mustJSON(map[string]any{"TableDescription": t.describe(statusActive)}), nil
}

// check refuses an update without a change that this engine supports.
func (in *updateTableInput) check() error {
	switch {
	case len(in.ReplicaUpdates) > 0:
		return unsupported("ReplicaUpdates", "this engine has no replicas")
	case in.BillingMode == "" && in.ProvisionedThroughput == nil && in.StreamSpecification == nil &&
		in.DeletionProtectionEnabled == nil && len(in.GlobalSecondaryIndexUpdates) == 0:
		return validation("At least one of ProvisionedThroughput, BillingMode, StreamSpecification, " +
			"DeletionProtectionEnabled or GlobalSecondaryIndexUpdates is required")
	}
	return nil
}

func (t *table) checkStreamUpdate(s *streamSpecification) error {
	if s == nil {
		return nil
	}
	if s.StreamEnabled == t.stream.StreamEnabled {
		state := "already disabled"
		if s.StreamEnabled {
			state = "already enabled"
		}
		return validation("Table stream is %s", state)
	}
	return checkStream(*s)
}

// indexUpdate checks the index to add or remove; as in DynamoDB, an update changes at
// most a single index. It updates the draft's attribute definitions.
func (in *updateTableInput) indexUpdate(draft *table) (added *index, removed string, err error) {
	for _, d := range in.AttributeDefinitions {
		i := slices.IndexFunc(draft.kinds, func(known attributeDefinition) bool { return known.AttributeName == d.AttributeName })
		if i < 0 {
			draft.kinds = append(slices.Clone(draft.kinds), d)
		} else if draft.kinds[i] != d {
			return nil, "", validation("One or more parameter values were invalid: the type of %s cannot change", d.AttributeName)
		}
	}
	switch {
	case len(in.GlobalSecondaryIndexUpdates) == 0:
		draft.kinds = keptKinds(draft)
		return nil, "", nil
	case len(in.GlobalSecondaryIndexUpdates) > 1:
		return nil, "", &apiError{name: typeLimit, message: "Only 1 online index can be created or deleted simultaneously per table"}
	}
	u := in.GlobalSecondaryIndexUpdates[0]
	switch {
	case u.Create != nil:
		if added, err = u.Create.index(draft); err == nil {
			err = u.Create.checkThroughput(draft.billing)
		}
		if err != nil {
			return nil, "", err
		}
		draft.indexes = append(slices.Clone(draft.indexes), added)
	case u.Delete != nil:
		removed = u.Delete.IndexName
		if draft.index(removed) == nil {
			return nil, "", &apiError{name: typeNotFound, message: "Requested resource not found"}
		}
		draft.indexes = slices.DeleteFunc(slices.Clone(draft.indexes), func(x *index) bool { return x.name == removed })
		draft.kinds = keptKinds(draft)
	default:
		return nil, "", unsupported("GlobalSecondaryIndexUpdates.Update", "an index here has no throughput of its own")
	}
	return added, removed, draft.checkDefinitions()
}

// keptKinds returns the attribute definitions that the draft's keys use.
func keptKinds(draft *table) []attributeDefinition {
	return slices.DeleteFunc(slices.Clone(draft.kinds), func(d attributeDefinition) bool {
		return !draft.keys.has(d.AttributeName) &&
			!slices.ContainsFunc(draft.indexes, func(x *index) bool { return x.keys.has(d.AttributeName) })
	})
}
