package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"github.com/tidegate/tidegate/engine/attr"
)

// table is a table with its items. name and keys never change; Engine.mu guards all
// other fields.
type table struct {
	name string
	keys keySchema

	arn, id    string
	created    time.Time
	kinds      []attributeDefinition
	indexes    []*index // in order of creation; replaced, never changed
	billing    string
	throughput throughput
	stream     streamSpecification
	changes    *stream // the newest, perhaps disabled; nil: the table never had a stream
	protected  bool
	tags       []tag  // by key; replaced, never changed
	ttl        string // attribute; empty: items do not expire

	rows btree.Map[string, *row]
	size int64 // bytes of all items
}

// find returns the item at a storage key; nil if it is absent. The caller holds mu.
func (t *table) find(key string) *image {
	if r, ok := t.rows.Get(key); ok {
		return r.now
	}
	return nil
}

func (t *table) index(name string) *index {
	for _, x := range t.indexes {
		if x.name == name {
			return x
		}
	}
	return nil
}

// addIndex makes an index and fills it from the existing items. As in DynamoDB, items
// whose index keys have the wrong type are not in the index.
func (t *table) addIndex(x *index) {
	t.indexes = append(slices.Clone(t.indexes), x)
	t.rows.Scan(func(key string, r *row) bool {
		x.apply(x.plan(t, key, nil, r.now.item), r)
		return true
	})
}

const (
	billingOnDemand    = "PAY_PER_REQUEST"
	billingProvisioned = "PROVISIONED"
	statusActive       = "ACTIVE"
	maxIndexes         = 20
	maxIncluded        = 20  // NonKeyAttributes of an index
	maxDefinedName     = 255 // bytes of a key's name, or of an included attribute's
)

func (e *Engine) createTable(c *call) ([]byte, error) {
	var in createTableInput
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	t, err := in.table()
	if err == nil {
		err = in.checkThroughputs(t.billing)
	}
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.tables[t.name]; ok {
		return nil, &apiError{name: typeInUse, message: "Table already exists: " + t.name}
	}
	t.created = e.now()
	t.arn = e.tableARN(t.name)
	t.id = e.requests.next()
	if t.stream.StreamEnabled {
		t.changes = e.streams.begin(t, t.stream.StreamViewType, e.sequence, t.created)
	}
	e.tables[t.name] = t
	e.recordTable(t)
	return mustJSON(map[string]any{"TableDescription": t.describe(statusActive)}), nil
}

func (e *Engine) tableARN(name string) string {
	return "arn:aws:dynamodb:" + e.region + ":" + e.account + ":table/" + name
}

// table checks a definition and makes an empty table.
func (in *createTableInput) table() (*table, error) {
	if err := checkTableName(in.TableName); err != nil {
		return nil, err
	}
	if len(in.LocalSecondaryIndexes) > 0 {
		return nil, unsupported("LocalSecondaryIndexes", "use a global secondary index")
	}
	if err := checkStream(in.StreamSpecification); err != nil {
		return nil, err
	}
	keys, err := schemaOf(in.KeySchema, in.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	t := &table{
		name: in.TableName, keys: keys, kinds: in.AttributeDefinitions,
		stream: in.StreamSpecification, protected: in.DeletionProtectionEnabled, tags: in.Tags,
	}
	if err := t.setBilling(in.BillingMode, in.ProvisionedThroughput); err != nil {
		return nil, err
	}
	if err := in.checkIndexCount(); err != nil {
		return nil, err
	}
	for i := range in.GlobalSecondaryIndexes {
		x, err := in.GlobalSecondaryIndexes[i].index(t)
		if err != nil {
			return nil, err
		}
		t.indexes = append(t.indexes, x)
	}
	return t, t.checkDefinitions()
}

// checkIndexCount refuses an empty list and a list that is too long. Unlike in
// UpdateTable, this is a wrong request, not an exceeded limit.
func (in *createTableInput) checkIndexCount() error {
	switch n := len(in.GlobalSecondaryIndexes); {
	case in.GlobalSecondaryIndexes != nil && n == 0:
		return validation("One or more parameter values were invalid: List of GlobalSecondaryIndexes is empty")
	case n > maxIndexes:
		return validation("One or more parameter values were invalid: "+
			"GlobalSecondaryIndex count exceeds the per-table limit of %d", maxIndexes)
	}
	return nil
}

// checkThroughputs checks the throughput of the request's indexes, which a table does
// not keep.
func (in *createTableInput) checkThroughputs(billing string) error {
	for i := range in.GlobalSecondaryIndexes {
		if err := in.GlobalSecondaryIndexes[i].checkThroughput(billing); err != nil {
			return err
		}
	}
	return nil
}

// checkThroughput refuses units of an index that its table cannot have. Valid units
// have no effect, because the engine does not throttle.
func (d *indexDefinition) checkThroughput(billing string) error {
	u := d.ProvisionedThroughput
	switch {
	case u == nil && billing == billingProvisioned:
		return validation("One or more parameter values were invalid: ProvisionedThroughput must be specified for index: %s",
			d.IndexName)
	case u != nil && billing == billingOnDemand:
		return validation("One or more parameter values were invalid: ProvisionedThroughput should not be specified "+
			"for index: %s when BillingMode is PAY_PER_REQUEST", d.IndexName)
	case u != nil && (u.ReadCapacityUnits < 1 || u.WriteCapacityUnits < 1):
		return validation("One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits "+
			"of index %s must be 1 or more", d.IndexName)
	}
	return nil
}

// setBilling checks the billing mode; the default is provisioned.
func (t *table) setBilling(mode string, units *throughput) error {
	switch mode {
	case billingOnDemand:
		if units != nil && (units.ReadCapacityUnits != 0 || units.WriteCapacityUnits != 0) {
			return validation("One or more parameter values were invalid: Neither ReadCapacityUnits nor " +
				"WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
		}
		t.billing, t.throughput = mode, throughput{}
	case "", billingProvisioned:
		if units == nil || units.ReadCapacityUnits < 1 || units.WriteCapacityUnits < 1 {
			return validation("One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits " +
				"must both be specified, 1 or more, when BillingMode is PROVISIONED")
		}
		t.billing, t.throughput = billingProvisioned, *units
	default:
		return notMember("billingMode", mode, "PROVISIONED, PAY_PER_REQUEST")
	}
	return nil
}

// checkDefinitions requires definitions of exactly the attributes that keys use.
func (t *table) checkDefinitions() error {
	for i, d := range t.kinds {
		if slices.ContainsFunc(t.kinds[:i], func(o attributeDefinition) bool { return o.AttributeName == d.AttributeName }) {
			return validation("Duplicate AttributeName in AttributeDefinitions: %s", d.AttributeName)
		}
		used := t.keys.has(d.AttributeName)
		for _, x := range t.indexes {
			used = used || x.keys.has(d.AttributeName)
		}
		if !used {
			return validation("One or more parameter values were invalid: Some AttributeDefinitions are not used. "+
				"AttributeDefinitions: %s is in no key", d.AttributeName)
		}
	}
	return nil
}

// index checks an index's definition against its table.
func (d *indexDefinition) index(t *table) (*index, error) {
	if err := checkTableName(d.IndexName); err != nil {
		return nil, err
	}
	if t.index(d.IndexName) != nil {
		return nil, validation("One or more parameter values were invalid: Duplicate index name: %s", d.IndexName)
	}
	if len(t.indexes) >= maxIndexes {
		return nil, &apiError{name: typeLimit, message: fmt.Sprintf("a table has at most %d global secondary indexes", maxIndexes)}
	}
	keys, err := schemaOf(d.KeySchema, t.kinds)
	if err != nil {
		return nil, err
	}
	x := &index{name: d.IndexName, keys: keys}
	switch d.Projection.ProjectionType {
	case "ALL":
		x.project = projectAll
	case "KEYS_ONLY":
		x.project = projectKeys
	case "INCLUDE":
		x.project, x.include = projectInclude, d.Projection.NonKeyAttributes
		if err := checkIncluded(x.include); err != nil {
			return nil, err
		}
	default:
		return nil, validation("One or more parameter values were invalid: Unknown ProjectionType: %s",
			orNull(d.Projection.ProjectionType))
	}
	if x.project != projectInclude && len(d.Projection.NonKeyAttributes) > 0 {
		return nil, validation("One or more parameter values were invalid: ProjectionType is %s, "+
			"but NonKeyAttributes is specified", d.Projection.ProjectionType)
	}
	return x, nil
}

// checkIncluded checks the NonKeyAttributes of an index that has them.
func checkIncluded(names []string) error {
	switch sorted := slices.Sorted(slices.Values(names)); {
	case len(names) == 0:
		return validation("One or more parameter values were invalid: ProjectionType is INCLUDE, " +
			"but NonKeyAttributes is not specified")
	case len(names) > maxIncluded:
		return validation("1 validation error detected: Value at 'nonKeyAttributes' failed to satisfy constraint: "+
			"Member must have length less than or equal to %d", maxIncluded)
	case len(slices.Compact(sorted)) < len(names):
		return validation("One or more parameter values were invalid: Duplicate AttributeName in NonKeyAttributes")
	}
	for _, name := range names {
		if err := checkAttributeName(name); err != nil {
			return err
		}
	}
	return nil
}

// checkAttributeName checks the name of an attribute in a table's definition.
func checkAttributeName(name string) error {
	if len(name) < 1 || len(name) > maxDefinedName {
		return validation("1 validation error detected: Value '%s' at 'attributeName' failed to satisfy constraint: "+
			"Member must have length between 1 and %d", name, maxDefinedName)
	}
	return nil
}

// schemaOf reads a key: a HASH attribute, and optionally a RANGE attribute.
func schemaOf(elements []keyElement, kinds []attributeDefinition) (keySchema, error) {
	var k keySchema
	if len(elements) < 1 || len(elements) > 2 {
		return k, validation("1 validation error detected: Value at 'keySchema' failed to satisfy constraint: " +
			"Member must have length between 1 and 2")
	}
	for i, e := range elements {
		role, part := "HASH", &k.part
		if i == 1 {
			role, part = "RANGE", &k.sort
		}
		if e.KeyType != role {
			return k, validation("Invalid KeySchema: The %s KeySchemaElement is not a %s key type",
				[]string{"first", "second"}[i], role)
		}
		if err := checkAttributeName(e.AttributeName); err != nil {
			return k, err
		}
		kind, err := kindOf(e.AttributeName, kinds)
		if err != nil {
			return k, err
		}
		*part = keyPart{name: e.AttributeName, kind: kind}
	}
	if k.part.name == k.sort.name {
		return k, validation("Both the Hash Key and the Range Key element in the KeySchema have the same name")
	}
	return k, nil
}

func kindOf(name string, kinds []attributeDefinition) (attr.Kind, error) {
	for _, d := range kinds {
		if d.AttributeName != name {
			continue
		}
		switch d.AttributeType {
		case "S":
			return attr.KindS, nil
		case "N":
			return attr.KindN, nil
		case "B":
			return attr.KindB, nil
		}
		return 0, notMember("attributeType", d.AttributeType, "B, N, S")
	}
	return 0, validation("One or more parameter values were invalid: Some index key attributes are not defined in "+
		"AttributeDefinitions. Key: %q", name)
}

func checkStream(s streamSpecification) error {
	switch {
	case !s.StreamEnabled && s.StreamViewType != "":
		return validation("One or more parameter values were invalid: StreamViewType is given, but StreamEnabled is false")
	case !s.StreamEnabled:
		return nil
	}
	switch s.StreamViewType {
	case "NEW_AND_OLD_IMAGES", "NEW_IMAGE", "OLD_IMAGE", "KEYS_ONLY":
		return nil
	}
	return notMember("streamViewType", s.StreamViewType, "NEW_IMAGE, OLD_IMAGE, NEW_AND_OLD_IMAGES, KEYS_ONLY")
}

// checkTableName checks a table's or an index's name.
func checkTableName(name string) error {
	bad := strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	})
	if bad || len(name) < 3 || len(name) > 255 {
		return validation("Invalid table or index name %q: 3 to 255 characters of a-z, A-Z, 0-9, '_', '-' and '.'", name)
	}
	return nil
}

// notMember refuses the value of an enumeration, with DynamoDB's message.
func notMember(field, got, members string) error {
	return validation("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: "+
		"Member must satisfy enum value set: [%s]", got, field, members)
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return s
}
