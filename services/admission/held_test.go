package admission

import (
	"context"
	"encoding/base64"
	"errors"
	"sync"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/lease"
)

const (
	recordsStream  = "KV_TIDEGATE_LEASES"
	recordSubject  = "$KV.TIDEGATE_LEASES."
	signatureBytes = 16 // at the end of a token
)

// seen holds the leases that tests of the package were given, by namespace and id:
// their records do not say which buckets they are of.
var seen sync.Map

// noteLease remembers the lease of a reply, if it has one that is new.
func noteLease(reply []byte) {
	raw, err := base64.RawURLEncoding.DecodeString(leaseOf(reply))
	if err != nil || len(raw) < 1+table.SigningKeyIDBytes+signatureBytes {
		return
	}
	l := new(lease.Lease)
	if cbor.Unmarshal(raw[1+table.SigningKeyIDBytes:len(raw)-signatureBytes], l) == nil && l.Number == 1 {
		seen.LoadOrStore(l.Namespace+"."+l.ID, l)
	}
}

// checkHeld requires that the leases of a world hold no more than its buckets have
// consumed, net: what was not drawn cannot be given back. Worlds whose buckets are
// removed, reset or merged say so by forgets: there, counters are lost.
func (w *world) checkHeld(t *testing.T) {
	t.Helper()
	if w.forgets || t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nc, err := nats.Connect(w.nats.ClientURL())
	if err != nil {
		return // the test has stopped the server
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(ctx, recordsStream)
	if err != nil {
		return // no node has run
	}
	held := map[keys.Bucket]map[string]int64{}
	seen.Range(func(key, value any) bool {
		l := value.(*lease.Lease) //nolint:forcetypeassert // nothing else is stored
		if l.Namespace != w.ns {
			return true
		}
		tokens := make([][]int64, len(l.Levels)) // until a record says otherwise, it holds all that was spent
		for i, level := range l.Levels {
			for _, h := range level.Held {
				tokens[i] = append(tokens[i], h.Tokens)
			}
		}
		if m, err := stream.GetLastMsgForSubject(ctx, recordSubject+key.(string)); err == nil { //nolint:forcetypeassert // as above
			var record []cbor.RawMessage
			require.NoError(t, cbor.Unmarshal(m.Data, &record))
			tokens = nil
			require.NoError(t, cbor.Unmarshal(record[0], &tokens))
		}
		for i, level := range l.Levels {
			b := keys.Bucket{Namespace: l.Namespace, Entity: level.Entity, Resource: level.Resource}
			if held[b] == nil {
				held[b] = map[string]int64{}
			}
			for n, h := range level.Held {
				held[b][h.Limit] += tokens[i][n]
			}
		}
		return true
	})
	for key, limits := range held {
		consumed, items := map[string]int64{}, 0
		for key.Shard = range 32 {
			out, err := w.client.GetItem(ctx, table.ReadInput(w.table, key.Key()))
			require.NoError(t, err)
			if len(out.Item) == 0 {
				continue
			}
			items++
			b, err := table.DecodeBucket(out.Item)
			if errors.Is(err, table.ErrDamaged) {
				return // the test has damaged it
			}
			require.NoError(t, err)
			for _, l := range b.Limits {
				consumed[l.Name] += l.Consumed
			}
		}
		for limit, tokens := range limits {
			if spent, ok := consumed[limit]; ok && items > 0 {
				require.LessOrEqual(t, tokens, bucket.Floor(spent), "leases of %s hold more of %s than was drawn", key.Entity, limit)
			}
		}
	}
}
