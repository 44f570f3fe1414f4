package admission

import (
	"fmt"
	"math"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// itemID names an item of the explorer's table, writeID a write. Equal content has the
// same name, so that states which differ in nothing are the same state.
type (
	itemID  uint16
	writeID uint32
)

// noItem names a missing item, noWrite no write.
const (
	noItem  itemID  = 0
	noWrite writeID = 0
)

// storedItem is an item as the table has it, and as a node decodes it. Its counters are 0:
// the ledger compares what each write adds to them.
type storedItem struct {
	bucket *table.Bucket
	item   attr.Item
	plain  itemID // the same item without the nonce of its last writer
}

// action is a write of an item, as the real form spells it.
type action struct {
	shard     int
	condition *expr.Condition
	update    *expr.Update
	put       attr.Item
	remove    bool
}

// formOf is the plan that a write carries out; the ledger repeats it in its own words.
type formOf struct {
	entries []entryOf // of a commit or a create, in order
	commit  *table.Commit
	create  *table.Create
	sync    *table.Sync
	multi   *table.MultiSpend
	split   *table.Split
	merge   *table.Merge
	parts   [shardsExplored][limitsExplored]int64 // millitokens that a lease of the multi-shard spend holds
}

// storedWrite is a write that a node, or the sharder, sends.
type storedWrite struct {
	actions  []action
	form     formOf
	settings int
	at       int   // the instant that it was planned for
	shard    int   // of a write of a single item
	ops      uint8 // the operations that are part of it
	outcomes map[[shardsExplored]itemID]*effect
}

// effect is the outcome of a write on the items that it meets.
type effect struct {
	applied bool
	items   [shardsExplored]itemID // with the writer's nonce
	wrong   string
}

// catalog names items and writes, and carries writes out by the engine's expressions.
type catalog struct {
	parser  expr.Parser
	items   []storedItem
	itemIDs map[string]itemID
	writes  []*storedWrite
	ids     map[string]writeID
}

func newCatalog() *catalog {
	return &catalog{items: make([]storedItem, 1), itemIDs: map[string]itemID{}, writes: make([]*storedWrite, 1), ids: map[string]writeID{}}
}

// item returns the name of an item.
func (c *catalog) item(b *table.Bucket) itemID {
	clean := *b
	clean.WriteUnits, clean.Acquires = 0, 0
	clean.Limits = append([]table.Limit(nil), b.Limits...)
	for i := range clean.Limits {
		clean.Limits[i].Consumed = 0
	}
	text := fmt.Sprintf("%+v", clean)
	if id, ok := c.itemIDs[text]; ok {
		return id
	}
	if len(c.items) > math.MaxUint16 {
		panic("more items than names")
	}
	id := itemID(len(c.items)) //nolint:gosec // checked
	c.itemIDs[text] = id
	stored := storedItem{bucket: &clean, item: engineItem(table.EncodeBucket(&clean)), plain: id}
	c.items = append(c.items, stored)
	if clean.LastWrite != "" {
		plain := clean
		plain.LastWrite = ""
		c.items[id].plain = c.item(&plain)
	}
	return id
}

func (c *catalog) bucket(id itemID) *table.Bucket { return c.items[id].bucket }

// write returns the name of a write.
func (c *catalog) write(w *storedWrite, inputs ...any) writeID {
	text := fmt.Sprint(w.settings, w.at, w.shard, w.ops, w.form.entries, w.form.parts)
	for _, in := range inputs {
		text += c.parse(w, in)
	}
	if id, ok := c.ids[text]; ok {
		return id
	}
	w.outcomes = map[[shardsExplored]itemID]*effect{}
	id := writeID(len(c.writes)) //nolint:gosec // memory ends before
	c.writes, c.ids[text] = append(c.writes, w), id
	return id
}

// parse adds the actions of a request to a write, and returns the request as text.
func (c *catalog) parse(w *storedWrite, input any) string {
	add := func(key map[string]types.AttributeValue, names map[string]string, values map[string]types.AttributeValue, condition, update *string) *action {
		env := c.parser.Env(names, engineItem(values))
		b, err := table.BucketKey(key)
		must(err)
		a := action{shard: b.Shard}
		if condition != nil {
			a.condition, err = env.Condition(*condition)
			must(err)
		}
		if update != nil {
			a.update, err = env.Update(*update)
			must(err)
		}
		w.actions = append(w.actions, a)
		return &w.actions[len(w.actions)-1]
	}
	switch in := input.(type) {
	case *dynamodb.UpdateItemInput:
		add(in.Key, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, in.UpdateExpression)
		return spell(in.Key, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, in.UpdateExpression)
	case *dynamodb.PutItemInput:
		add(in.Item, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, nil).put = engineItem(in.Item)
		return spell(in.Item, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, nil)
	case []types.TransactWriteItem:
		var text strings.Builder
		for i := range in {
			text.WriteString(c.parsePart(&in[i], add))
		}
		return text.String()
	}
	panic(fmt.Sprintf("a request of type %T", input))
}

type addAction = func(key map[string]types.AttributeValue, names map[string]string, values map[string]types.AttributeValue, condition, update *string) *action

func (c *catalog) parsePart(part *types.TransactWriteItem, add addAction) string {
	switch {
	case part.Update != nil:
		in := part.Update
		add(in.Key, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, in.UpdateExpression)
		return spell(in.Key, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, in.UpdateExpression)
	case part.Put != nil:
		in := part.Put
		add(in.Item, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, nil).put = engineItem(in.Item)
		return spell(in.Item, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, nil)
	case part.Delete != nil:
		in := part.Delete
		add(in.Key, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, nil).remove = true
		return spell(in.Key, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, nil)
	}
	in := part.ConditionCheck
	add(in.Key, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, nil)
	return spell(in.Key, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, nil)
}

// spell returns a request as text, in which maps are sorted.
func spell(key map[string]types.AttributeValue, names map[string]string, values map[string]types.AttributeValue, texts ...*string) string {
	var out strings.Builder
	_, _ = fmt.Fprint(&out, engineItem(key), names, engineItem(values))
	for _, t := range texts {
		out.WriteString(aws.ToString(t) + ";")
	}
	return out.String()
}

// carryOut returns the effect of a write on items. All of its actions read the items as
// they were before.
func (c *catalog) carryOut(w *storedWrite, before [shardsExplored]itemID) *effect {
	if known, ok := w.outcomes[before]; ok {
		return known
	}
	e := &effect{applied: true, items: before}
	w.outcomes[before] = e
	for i := range w.actions {
		a := &w.actions[i]
		if a.condition == nil {
			continue
		}
		holds, err := a.condition.Eval(c.items[before[a.shard]].item)
		must(err)
		e.applied = e.applied && holds
	}
	if !e.applied {
		return e
	}
	var after [shardsExplored]*table.Bucket
	for i := range before {
		after[i] = c.bucket(before[i])
	}
	for i := range w.actions {
		a := &w.actions[i]
		old := c.items[before[a.shard]].item
		switch {
		case a.remove:
			after[a.shard] = nil
			continue
		case a.put != nil:
			old = a.put
		case a.update != nil:
			updated, err := a.update.Apply(old)
			must(err)
			old = updated
		default:
			continue
		}
		b, wrong := decodeExactly(old)
		if wrong != "" {
			e.wrong = wrong
			return e
		}
		after[a.shard] = b
	}
	e.wrong = c.audit(w, before, after)
	for i, b := range after {
		if b == nil {
			e.items[i] = noItem
			continue
		}
		e.items[i] = c.item(b)
	}
	return e
}

// decodeExactly decodes an item, and says if it has attributes that the codec does not know.
func decodeExactly(item attr.Item) (b *table.Bucket, wrong string) {
	b, err := table.DecodeBucket(sdkItem(item))
	if err != nil {
		return nil, fmt.Sprintf("a write left %v: %v", item, err)
	}
	if again := engineItem(table.EncodeBucket(b)); fmt.Sprint(again) != fmt.Sprint(item) {
		return nil, fmt.Sprintf("a write left attributes of no limit: %v is encoded as %v", item, again)
	}
	return b, ""
}

// tree returns the bucket that items are.
func (c *catalog) tree(items [shardsExplored]itemID) shards.Tree {
	var tree shards.Tree
	for _, id := range items {
		if id != noItem {
			tree = append(tree, c.bucket(id))
		}
	}
	return tree
}

// allowDelay enters the refill of shard 1 between the moment that a merge was planned for
// and its write: like a clock that is behind, a merge that is late takes the overflow of
// that time for tokens.
func (x *explorer) allowDelay(s *state, w *storedWrite) {
	if w.form.merge == nil {
		return
	}
	for n := range x.most {
		l := &x.most[n]
		late := int64(exploredInstants[s.now] - exploredInstants[w.at])
		milli := late * l.Refill / l.Period / shardsExplored
		s.given[n][s.now] += uint8((milli + bucket.Milli - 1) / bucket.Milli) //nolint:gosec // few tokens
	}
}

// forgetNonces removes nonces that no node waits for.
func (x *explorer) forgetNonces(s *state) {
	for i, id := range s.items {
		if id == noItem {
			continue
		}
		nonce := x.catalog.bucket(id).LastWrite
		keep := false
		for n := range x.nodes {
			keep = keep || s.nodes[n].lost && nonce == nonceOf(n)
		}
		if !keep {
			s.items[i] = x.catalog.items[id].plain
		}
	}
}

func engineItem(item table.Item) attr.Item {
	converted := make(attr.Item, len(item))
	for name, v := range item {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			converted[name] = attr.Str(v.Value)
		case *types.AttributeValueMemberN:
			n, err := attr.ParseNumber(v.Value)
			must(err)
			converted[name] = attr.Num(n)
		case *types.AttributeValueMemberBOOL:
			converted[name] = attr.Bool(v.Value)
		default:
			panic(fmt.Sprintf("an attribute of type %T", v))
		}
	}
	return converted
}

func sdkItem(item attr.Item) table.Item {
	converted := make(table.Item, len(item))
	for name, v := range item {
		switch v.Kind() {
		case attr.KindS:
			converted[name] = &types.AttributeValueMemberS{Value: v.Text()}
		case attr.KindN:
			converted[name] = &types.AttributeValueMemberN{Value: v.Number().String()}
		default:
			converted[name] = &types.AttributeValueMemberBOOL{Value: v.Bool()}
		}
	}
	return converted
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
