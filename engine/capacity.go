package engine

import (
	"slices"
	"strconv"
	"strings"
)

// Sizes of DynamoDB's units, in bytes, and its limits.
const (
	writeUnit = 1 << 10
	readUnit  = 4 << 10

	// maxItemSize is the maximum size of an item, names and values together.
	maxItemSize = 400 << 10
	// maxPage is the maximum number of bytes that a Query or Scan reads.
	maxPage = 1 << 20
	// maxBatchRead is the maximum number of bytes that a BatchGetItem returns.
	maxBatchRead = 16 << 20
	// maxTransaction is the maximum number of bytes of a transaction's items.
	maxTransaction = 4 << 20
)

// units converts a number of bytes to capacity units, rounded up; 0 bytes cost a
// whole unit.
func units(size, unit int) float64 {
	return float64((max(size, 1) + unit - 1) / unit)
}

// readUnits returns the cost of reading size bytes; an eventually consistent read
// costs half.
func readUnits(size int, consistent bool) float64 {
	n := units(size, readUnit)
	if !consistent {
		n /= 2
	}
	return n
}

// capacityMode is the parameter ReturnConsumedCapacity.
type capacityMode uint8

const (
	capacityNone capacityMode = iota
	capacityTotal
	capacityIndexes
)

func decodeCapacityMode(raw []byte, into *capacityMode) error {
	var s string
	if err := decodeText(raw, &s); err != nil {
		return err
	}
	switch s {
	case "NONE":
		*into = capacityNone
	case "TOTAL":
		*into = capacityTotal
	case "INDEXES":
		*into = capacityIndexes
	default:
		return notMember("returnConsumedCapacity", s, "INDEXES, TOTAL, NONE")
	}
	return nil
}

// charge is the capacity that a request used on a table.
type charge struct {
	table       string
	read, write float64
	indexes     []indexCharge
}

type indexCharge struct {
	name        string
	read, write float64
}

func (c *charge) index(name string) *indexCharge {
	for i := range c.indexes {
		if c.indexes[i].name == name {
			return &c.indexes[i]
		}
	}
	c.indexes = append(c.indexes, indexCharge{name: name})
	return &c.indexes[len(c.indexes)-1]
}

func (c *charge) total() (read, write float64) {
	read, write = c.read, c.write
	for _, x := range c.indexes {
		read += x.read
		write += x.write
	}
	return read, write
}

// bill is the capacity that a request used, by table. It includes the cost of a
// failed condition, although DynamoDB's error does not show it.
type bill struct {
	charges []charge
}

func (b *bill) of(table string) *charge {
	for i := range b.charges {
		if b.charges[i].table == table {
			return &b.charges[i]
		}
	}
	b.charges = append(b.charges, charge{table: table})
	return &b.charges[len(b.charges)-1]
}

// summary returns the bill in the format of the reply header: write units of tables,
// read units, write units of indexes.
func (b *bill) summary() string {
	var read, write, index float64
	for i := range b.charges {
		r, w := b.charges[i].total()
		read += r
		write += b.charges[i].write
		index += w - b.charges[i].write
	}
	buf := make([]byte, 0, 24)
	buf = appendUnits(buf, write)
	buf = appendUnits(append(buf, ' '), read)
	buf = appendUnits(append(buf, ' '), index)
	return string(buf)
}

func appendUnits(b []byte, n float64) []byte {
	return strconv.AppendFloat(b, n, 'f', -1, 64)
}

// appendOne writes the ConsumedCapacity of an operation on a single table.
func (b *bill) appendOne(o *object, mode capacityMode) {
	if mode == capacityNone || len(b.charges) == 0 {
		return
	}
	o.field("ConsumedCapacity")
	o.b = b.charges[0].appendJSON(o.b, mode, false)
}

// appendAll writes the ConsumedCapacity of an operation on several tables.
// Transactions report read and write units separately.
func (b *bill) appendAll(o *object, mode capacityMode, transaction bool) {
	if mode == capacityNone {
		return
	}
	o.field("ConsumedCapacity")
	o.b = appendList(o.b, b.charges, func(dst []byte, c charge) []byte {
		return c.appendJSON(dst, mode, transaction)
	})
}

func (c *charge) appendJSON(b []byte, mode capacityMode, split bool) []byte {
	read, write := c.total()
	b = append(b, `{"TableName":`...)
	b = appendText(b, c.table)
	b = append(b, ',')
	b = appendCapacity(b, read, write, split)
	if mode == capacityIndexes {
		b = append(b, `,"Table":{`...)
		b = append(appendCapacity(b, c.read, c.write, split), '}')
		b = appendIndexCharges(b, c.indexes, split)
	}
	return append(b, '}')
}

func appendIndexCharges(b []byte, indexes []indexCharge, split bool) []byte {
	if len(indexes) == 0 {
		return b
	}
	slices.SortFunc(indexes, func(x, y indexCharge) int { return strings.Compare(x.name, y.name) })
	b = append(b, `,"GlobalSecondaryIndexes":{`...)
	for i, x := range indexes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, x.name), `:{`...)
		b = append(appendCapacity(b, x.read, x.write, split), '}')
	}
	return append(b, '}')
}

func appendCapacity(b []byte, read, write float64, split bool) []byte {
	b = append(b, `"CapacityUnits":`...)
	b = appendUnits(b, read+write)
	if split && read > 0 {
		b = appendUnits(append(b, `,"ReadCapacityUnits":`...), read)
	}
	if split && write > 0 {
		b = appendUnits(append(b, `,"WriteCapacityUnits":`...), write)
	}
	return b
}
