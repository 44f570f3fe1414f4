package audit_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

func TestATrailThatIsWholeHasNoFindings(t *testing.T) {
	w := newWorld(t)
	events, findings := w.verify(api.AuditVerifyRequest{})
	require.Zero(t, events)
	require.Empty(t, findings)
	all := w.moved(60, 40)
	w.copyOut(7, all[15:30]...) // in both, and twice in the archive
	events, findings = w.verify(api.AuditVerifyRequest{})
	require.EqualValues(t, 60, events)
	require.Empty(t, findings)
	events, findings = w.verify(api.AuditVerifyRequest{FromMs: all[50].AtMs, ToMs: all[10].AtMs})
	require.EqualValues(t, 41, events)
	require.Empty(t, findings)
}

// Whatever is altered in an event, in the table or in the archive, is found, and the
// finding names the event and where it is. Nothing else is said to be wrong.
func TestAlteredEventsAreNamed(t *testing.T) {
	for attribute, v := range map[string]types.AttributeValue{
		"action": text("limits.set"), "nats_user": text("mallory"), "verified": &types.AttributeValueMemberBOOL{Value: true}, "before": text(`{"n":1}`),
		"after": text("not even JSON"), "mac": &types.AttributeValueMemberB{Value: []byte{1}}, "previous_mac": &types.AttributeValueMemberB{Value: []byte{1}},
	} {
		t.Run("table "+attribute, func(t *testing.T) {
			w := newWorld(t)
			all := w.moved(20, 10)
			w.set(&all[4], attribute, v)
			if attribute == "action" {
				w.set(&all[4], attribute, text("policy.set"))
			}
			_, findings := w.verify(api.AuditVerifyRequest{})
			require.Equal(t, []api.AuditFinding{{Kind: api.AuditAltered, First: 16, Last: 16, ID: all[4].ID, Where: "table"}}, findings)
			shown, err := w.reader.Show(t.Context(), ns, api.AuditShowRequest{ID: all[4].ID})
			require.NoError(t, err)
			require.False(t, shown.Intact)
		})
	}
	for name, change := range map[string]*strings.Replacer{
		"who":     strings.NewReplacer(`"who":{`, `"who":{"user":"mallory",`),
		"after":   strings.NewReplacer(`"after":{"n":4}`, `"after":{"n":5}`),
		"target":  strings.NewReplacer(`"target":"alice"`, `"target":"bob"`),
		"mac":     strings.NewReplacer(`"mac":"`, `"mac":"A`),
		"no mac":  strings.NewReplacer(`"mac":"`, `"mac":"!`),
		"its key": strings.NewReplacer(`"key_id":"`, `"key_id":"AA`),
	} {
		t.Run("archive "+name, func(t *testing.T) {
			w := newWorld(t)
			w.change(20)
			all := w.stored()
			w.copyOut(1, all[10:]...)
			w.remove(all[10:]...)
			victim := &all[15] // number 5
			key := w.objectOf(victim)
			before := w.Lines(t, key)
			require.NotEqual(t, before, change.Replace(before))
			w.Overwrite(t, key, change.Replace(before))
			_, findings := w.verify(api.AuditVerifyRequest{})
			require.Equal(t, []api.AuditFinding{{Kind: api.AuditAltered, First: 5, Last: 5, ID: victim.ID, Where: key}}, findings)
		})
	}
}

// A copy that was altered is found also where another one is intact, which is shown.
func TestAnAlteredCopyIsNamed(t *testing.T) {
	w := newWorld(t)
	all := w.moved(20, 10)
	w.set(&all[8], "nats_user", text("mallory"))
	w.copyOut(1, all[8])
	_, findings := w.verify(api.AuditVerifyRequest{})
	require.Equal(t, []api.AuditFinding{{Kind: api.AuditAltered, First: 12, Last: 12, ID: all[8].ID, Where: "table"}}, findings)
	shown, err := w.reader.Show(t.Context(), ns, api.AuditShowRequest{ID: all[8].ID})
	require.NoError(t, err)
	require.True(t, shown.Intact)
}

// What was taken out of table or archive is found by its number: in the middle, at
// either end, and several in a row.
func TestRemovedEventsAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ first, last int64 }{
		"newest": {20, 20}, "some of the newest": {17, 20}, "in the table": {13, 15}, "across": {9, 12}, "in the archive": {4, 4}, "oldest": {1, 3}, "all": {1, 20},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.change(20)
			all := w.stored()
			w.copyOut(1, all[10:]...)
			w.remove(all[10:]...)
			for i := range all {
				if all[i].Sequence < c.first || all[i].Sequence > c.last {
					continue
				}
				if i < 10 {
					w.remove(all[i])
				} else {
					w.Remove(t, w.objectOf(&all[i]))
				}
			}
			events, findings := w.verify(api.AuditVerifyRequest{})
			require.Equal(t, []api.AuditFinding{{Kind: api.AuditMissing, First: c.first, Last: c.last}}, findings)
			require.Equal(t, 20-(c.last-c.first+1), events)
		})
	}
}

// What is missing at the older end of a time is found too: by the number of the event
// before it, or, where there is none, by the time of the last one.
func TestWhatIsMissingAtTheBeginningOfATimeIsNamed(t *testing.T) {
	from := func(first, last int64, left ...int64) []api.AuditFinding {
		w := newWorld(t)
		w.change(20)
		all := w.stored()
		for _, e := range all {
			kept := e.Sequence > last || slices.Contains(left, e.Sequence)
			if kept && e.Sequence <= 10 {
				w.copyOut(1, e)
			}
			if !kept || e.Sequence <= 10 {
				w.remove(e)
			}
		}
		_, findings := w.verify(api.AuditVerifyRequest{FromMs: all[20-first].AtMs})
		return findings
	}
	missing := func(first, last int64) []api.AuditFinding {
		return []api.AuditFinding{{Kind: api.AuditMissing, First: first, Last: last}}
	}
	require.Empty(t, from(12, 0))
	require.Empty(t, from(12, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), "they are older")
	require.Equal(t, missing(12, 14), from(12, 14, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
	require.Equal(t, missing(12, 20), from(12, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
	require.Empty(t, from(12, 10), "who keeps less is told of nothing older")
	require.Equal(t, missing(20, 20), from(12, 20), "of the last one the time is known")
}

// A line that is gone from an object, or one of which the object is damaged, too.
func TestDamagedObjectsAreNamed(t *testing.T) {
	w := newWorld(t)
	all := w.moved(20, 10)
	key := w.objectOf(&all[15])
	lines := strings.SplitAfter(w.Lines(t, key), "\n")
	require.Greater(t, len(lines), 3)
	w.Overwrite(t, key, lines[0]+strings.Join(lines[2:], ""))
	_, findings := w.verify(api.AuditVerifyRequest{})
	require.Len(t, findings, 1)
	require.Equal(t, api.AuditMissing, findings[0].Kind)
	require.Equal(t, findings[0].First, findings[0].Last)

	w.Replace(t, key, []byte("no gzip"))
	_, findings = w.verify(api.AuditVerifyRequest{})
	require.Equal(t, api.AuditUnreadable, findings[0].Kind)
	require.Equal(t, key, findings[0].Where)
	missing := int64(0)
	for _, f := range findings[1:] {
		require.Equal(t, api.AuditMissing, f.Kind)
		missing += f.Last - f.First + 1
	}
	require.EqualValues(t, len(lines)-1, missing)
}

// An object that was given another lane's name, so that lists of one target would pass
// it by, is named.
func TestARenamedObjectIsNamed(t *testing.T) {
	w := newWorld(t)
	all := w.moved(20, 10)
	key := w.objectOf(&all[15])
	folder, name := path.Split(key)
	_, rest, _ := strings.Cut(name, "-")
	other := folder + fmt.Sprintf("%d-", (events.Lane(keyOf(&all[15]))+1)%events.Lanes) + rest
	w.Overwrite(t, other, w.Lines(t, key))
	w.Remove(t, key)
	checked, findings := w.verify(api.AuditVerifyRequest{})
	require.EqualValues(t, 20, checked)
	require.Len(t, findings, 1)
	require.Equal(t, api.AuditUnreadable, findings[0].Kind)
	require.Equal(t, other, findings[0].Where)
	require.Contains(t, findings[0].Detail, "by its name, it has nothing of")
}

// An item that is damaged is named, and what is behind it checked.
func TestADamagedItemIsNamed(t *testing.T) {
	w := newWorld(t)
	all := w.moved(20, 10)
	w.set(&all[4], "action", number(1))
	w.remove(all[7])
	_, findings := w.verify(api.AuditVerifyRequest{})
	require.Len(t, findings, 2)
	require.Equal(t, api.AuditAltered, findings[0].Kind)
	require.Equal(t, all[4].ID, findings[0].ID)
	require.Contains(t, findings[0].Detail, "action")
	require.Equal(t, api.AuditFinding{Kind: api.AuditMissing, First: 13, Last: 13}, findings[1])
}

// A counter that was set back, so that numbers are given twice, is found: by the
// archive, which has what was there before.
func TestANumberThatWasGivenTwiceIsNamed(t *testing.T) {
	w := newWorld(t)
	all := w.moved(20, 15)
	w.copyOut(5, all[:5]...)
	w.remove(all[:5]...)
	head := keys.AuditSeq{Namespace: ns}
	w.setItem(head, "sequence", number(18))
	_, findings := w.verify(api.AuditVerifyRequest{})
	require.Len(t, findings, 1)
	require.Equal(t, api.AuditUnchained, findings[0].Kind)
	require.Equal(t, all[0].ID, findings[0].ID)
	require.Contains(t, findings[0].Detail, "set back")

	w.change(2) // numbers 19 and 20 once more
	_, findings = w.verify(api.AuditVerifyRequest{})
	kinds := map[api.AuditFindingKind]int{}
	for _, f := range findings {
		kinds[f.Kind]++
	}
	require.Equal(t, 2, kinds[api.AuditDoubled], "%v", findings)
}

// Events that are made while a verification runs are no finding.
func TestEventsOfMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.moved(10, 5)
	w.Before("Query", func() { w.change(3) })
	w.reader = w.through()
	events, findings := w.verify(api.AuditVerifyRequest{})
	require.Empty(t, findings)
	require.GreaterOrEqual(t, events, int64(10))
}

// What somebody puts into the table beside the events is an alteration, and hides
// nothing.
func TestAForgedEventIsNamed(t *testing.T) {
	for _, sequence := range []int64{5, 15, 99} {
		w := newWorld(t)
		all := w.moved(20, 10)
		forged := all[0]
		forged.Sequence, forged.Target = sequence, "carol"
		item := table.EncodeAuditEvent(&table.AuditEvent{Key: keyOf(&forged), Action: forged.Action, MAC: []byte{1}})
		_, err := w.Direct.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &w.Table, Item: item})
		require.NoError(t, err)
		events, findings := w.verify(api.AuditVerifyRequest{})
		require.EqualValues(t, 21, events)
		require.Len(t, findings, 1, "%v", findings)
		require.Equal(t, api.AuditAltered, findings[0].Kind)
		require.Equal(t, sequence, findings[0].First)
	}
}
