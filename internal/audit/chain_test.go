package audit_test

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// item reads an item as it is stored.
func (w *world) item(key keys.Item) table.Item {
	w.t.Helper()
	out, err := w.Direct.GetItem(w.t.Context(), table.ReadInput(w.Table, key.Key()))
	require.NoError(w.t, err)
	require.NotEmpty(w.t, out.Item)
	return out.Item
}

func (w *world) put(item table.Item) {
	w.t.Helper()
	_, err := w.Direct.PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: &w.Table, Item: item})
	require.NoError(w.t, err)
}

// rewrite makes the last n events again, with other content: it sets the namespace's
// counter back and removes the events, so that the seals of the new ones are valid. It
// returns the items that were there before, the newest first.
func (w *world) rewrite(all []api.AuditEvent, n int) (before []table.Item) {
	w.t.Helper()
	for i := range all[:n] {
		before = append(before, w.item(keyOf(&all[i])))
	}
	w.remove(all[:n]...)
	last, head := w.item(keyOf(&all[n])), keys.AuditSeq{Namespace: ns}
	w.setItem(head, "sequence", number(all[n].Sequence))
	w.setItem(head, "at_ms", number(all[n].AtMs))
	w.setItem(head, "mac", last["mac"])
	w.now = time.UnixMilli(all[n].AtMs)
	for i := n - 1; i >= 0; i-- {
		w.now = time.UnixMilli(all[i].AtMs)
		w.changeOf(ns, all[i].Target, api.AuditPolicySet, "rewritten")
	}
	return before
}

// Events that are intact and numbered without a gap are no trail where one was not
// written after the other. Only the chain of seals tells.
func TestAChainThatWasCutIsNamed(t *testing.T) {
	unchained := func(findings []api.AuditFinding) (sequences []int64) {
		for _, f := range findings {
			require.Equal(t, api.AuditUnchained, f.Kind, "%v", f)
			require.Contains(t, f.Detail, "was written after another one")
			sequences = append(sequences, f.First)
		}
		return sequences
	}
	for name, c := range map[string]struct {
		restored []int // which of the rewritten events are replaced by the ones of before; 0 is the newest
		want     []int64
	}{
		"the newest":               {[]int{0}, []int64{20, 19}}, // the counter knows another one
		"in the middle":            {[]int{2}, []int64{18, 17}},
		"the oldest rewritten":     {[]int{4}, []int64{16}},
		"all but the newest":       {[]int{1, 2, 3, 4}, []int64{19}},
		"all, and not the counter": {[]int{0, 1, 2, 3, 4}, []int64{20}},
		"one and one":              {[]int{1, 3}, []int64{19, 18, 17, 16}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.change(20)
			before := w.rewrite(w.stored(), 5)
			_, findings := w.verify(api.AuditVerifyRequest{})
			require.Empty(t, findings, "what is there is whole again")
			rewritten := w.stored()
			for _, i := range c.restored {
				w.remove(rewritten[i])
				w.put(before[i])
			}
			checked, findings := w.verify(api.AuditVerifyRequest{})
			require.EqualValues(t, 20, checked)
			require.Equal(t, c.want, unchained(findings))
		})
	}
	t.Run("in the archive", func(t *testing.T) {
		w := newWorld(t)
		w.change(20)
		all := w.stored()
		w.rewrite(all, 5)
		rewritten := w.stored()
		w.copyOut(1, all[3], rewritten[4])
		w.copyOut(3, rewritten[5:]...)
		w.remove(rewritten[3:]...)
		checked, findings := w.verify(api.AuditVerifyRequest{})
		require.EqualValues(t, 20, checked)
		require.Equal(t, []int64{17, 16}, unchained(findings))
	})
}

// A chain that is cut where one part of a verification ends and the next begins is
// named: the cursor has the seal that comes next.
func TestAChainThatWasCutBetweenPartsIsNamed(t *testing.T) {
	w := newWorld(t)
	w.change(api.MaxPage + 5)
	all := w.stored()
	before := w.rewrite(all, api.MaxPage+4)
	rewritten := w.stored()
	part, err := w.reader.Verify(t.Context(), ns, api.AuditVerifyRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, part.Cursor)
	w.remove(rewritten[part.Checked])
	w.put(before[part.Checked])
	_, findings := w.verify(api.AuditVerifyRequest{})
	require.NotEmpty(t, findings)
	require.Equal(t, api.AuditUnchained, findings[0].Kind)
	require.Equal(t, all[part.Checked].Sequence, findings[0].First, "the first of the second part")
}

// Two events that change places are both altered, with or without their times.
func TestSwappedEventsAreNamed(t *testing.T) {
	for _, pair := range [][2]int{{4, 6}, {4, 5}, {0, 1}, {8, 9}} {
		w := newWorld(t)
		w.change(10)
		all := w.stored()
		one, other := w.item(keyOf(&all[pair[0]])), w.item(keyOf(&all[pair[1]]))
		for _, attribute := range []string{"PK", "SK", "GSI1PK", "GSI1SK", "GSI4PK", "GSI4SK"} {
			one[attribute], other[attribute] = other[attribute], one[attribute]
		}
		w.put(one)
		w.put(other)
		_, findings := w.verify(api.AuditVerifyRequest{})
		require.Len(t, findings, 2)
		for i, f := range findings {
			require.Equal(t, api.AuditAltered, f.Kind)
			require.Equal(t, all[pair[i]].Sequence, f.First)
		}
	}
}

// An event of another namespace, whose seal is as good as any, is no event of this one:
// in the table, in the archive, and in the place of one that was removed.
func TestAnEventOfAnotherNamespaceIsNamed(t *testing.T) {
	const other = "AAAAAAAAAAE"
	foreign := func(w *world) (item table.Item, at int) {
		for range 5 {
			w.now = w.now.Add(time.Hour)
			w.changeOf(other, "alice", api.AuditLimitsSet, nil)
		}
		reply, err := w.log.List(t.Context(), other, api.AuditListRequest{})
		require.NoError(t, err)
		return w.item(keyOf(&reply.Events[0])), 5
	}
	rename := func(item table.Item) {
		for name, v := range item {
			if s, ok := v.(*types.AttributeValueMemberS); ok {
				item[name] = text(strings.ReplaceAll(s.Value, other, ns))
			}
		}
	}
	t.Run("table", func(t *testing.T) {
		w := newWorld(t)
		item, number := foreign(w)
		w.now = w.now.Add(-10 * time.Hour)
		w.change(10)
		rename(item)
		w.put(item)
		_, findings := w.verify(api.AuditVerifyRequest{})
		require.Len(t, findings, 1, "%v", findings)
		require.Equal(t, api.AuditAltered, findings[0].Kind)
		require.EqualValues(t, number, findings[0].First)
	})
	t.Run("archive", func(t *testing.T) {
		w := newWorld(t)
		all := w.moved(20, 10)
		foreign(w)
		reply, err := w.log.List(t.Context(), other, api.AuditListRequest{})
		require.NoError(t, err)
		victim := w.objectOf(&all[14]) // number 6, with others
		lines := w.Lines(t, victim)
		w.copyOut(1, reply.Events[0])
		found, err := w.archive.Find(t.Context(), other, positionOf(&reply.Events[0]))
		require.NoError(t, err)
		strange := w.Lines(t, found[0].Key)
		w.Overwrite(t, victim, lines+strange)
		_, findings := w.verify(api.AuditVerifyRequest{})
		require.Len(t, findings, 1, "%v", findings)
		require.Equal(t, api.AuditUnreadable, findings[0].Kind)
		require.Equal(t, victim, findings[0].Where)

		moved := path.Dir(victim) + "/" + path.Base(found[0].Key) // the whole object
		w.Overwrite(t, victim, lines)
		w.Overwrite(t, moved, strange)
		_, findings = w.verify(api.AuditVerifyRequest{})
		require.Len(t, findings, 1, "%v", findings)
		require.Equal(t, moved, findings[0].Where)
	})
}
