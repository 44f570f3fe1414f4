package table

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/pkg/keys"
)

// ErrDamaged says that an item is malformed, or not an item of Tidegate.
var ErrDamaged = errors.New("damaged item")

// ItemKey reads the typed key of an item or of its row in an index; the error is
// ErrDamaged.
func ItemKey(item Item) (keys.Item, error) {
	k, err := KeyOf(item)
	if err != nil {
		return nil, err
	}
	parsed, err := keys.Parse(k)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return parsed, nil
}

// KeyOf returns the key of an item or of its row in an index, of any kind; the
// error is ErrDamaged.
func KeyOf(item Item) (keys.Key, error) {
	d := decoder{item: item}
	k := keys.Key{PK: d.text(attrPK), SK: d.text(attrSK)}
	if d.err == nil && (k.PK == "" || k.SK == "") {
		d.fail(attrPK, "there")
	}
	if d.err != nil {
		return keys.Key{}, fmt.Errorf("%w: %w", ErrDamaged, d.err)
	}
	return k, nil
}
