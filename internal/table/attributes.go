package table

// Attribute names of the table's items. A limit's attributes are made of
// bucketPrefix, the limit's name and one of the field suffixes.
const (
	attrPK         = "PK"
	attrSK         = "SK"
	attrTTL        = "ttl"
	attrLevel      = "shard_count"
	attrWant       = "want"
	attrPrint      = "cfg"
	attrCascade    = "cascade"
	attrParent     = "parent_id"
	attrLastWrite  = "lw"
	attrAcquires   = "an"
	attrWriteUnits = "b_wcu_tc"

	bucketPrefix  = "b_"
	fieldDrawn    = "_dr"
	fieldCapacity = "_cp"
	fieldRefill   = "_ra"
	fieldPeriod   = "_rp"
	fieldConsumed = "_tc"
)

// drawnOf and the functions below return the name of a limit's field.
func drawnOf(limit string) string    { return bucketPrefix + limit + fieldDrawn }
func capacityOf(limit string) string { return bucketPrefix + limit + fieldCapacity }
func refillOf(limit string) string   { return bucketPrefix + limit + fieldRefill }
func periodOf(limit string) string   { return bucketPrefix + limit + fieldPeriod }
func consumedOf(limit string) string { return bucketPrefix + limit + fieldConsumed }
