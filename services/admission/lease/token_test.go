package lease

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

const testNow bucket.Instant = 60 * 1000 * 1000 * 1000

func testLease() *Lease {
	return &Lease{
		ID: "q8ZbT1xA.2o", Epoch: 2, Number: 1, Namespace: "AAAAAAAAAAA", At: testNow,
		Levels: []Level{{
			Entity: "api-key-123", Resource: "gpt-4",
			Held: []Held{{Limit: "rpm", Tokens: 1}, {Limit: "tpm", Tokens: 500}},
		}},
	}
}

func testSigningKey(b byte) *signingKey {
	return newSigningKey(table.SigningKeyID{b}, []byte{b, 1, 2, 3})
}

func only(k *signingKey) func(table.SigningKeyID) *signingKey {
	return func(id table.SigningKeyID) *signingKey {
		if id == k.id {
			return k
		}
		return nil
	}
}

func TestLeaseRoundTrip(t *testing.T) {
	k := testSigningKey(1)
	token, err := k.seal(testLease())
	require.NoError(t, err)
	got, err := open(token, only(k))
	require.NoError(t, err)
	require.Equal(t, testLease(), got)
	require.Less(t, len(token), 160)
}

// No token but one that was signed opens, whichever character is altered.
func TestAlteredLeasesAreRefused(t *testing.T) {
	k := testSigningKey(1)
	token, err := k.seal(testLease())
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(token)-1).Draw(t, "at")
		b := []byte(token)
		b[i] = rapid.SampledFrom([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+ ")).Draw(t, "becomes")
		if string(b) == token {
			return
		}
		_, err := open(string(b), only(k))
		require.ErrorIs(t, err, errForged)
	})
	for name, forged := range map[string]string{
		"empty": "", "short": token[:20], "cut": token[:len(token)-1], "longer": token + "AAAA", "not base64": "%%%" + token,
	} {
		_, err := open(forged, only(k))
		require.ErrorIs(t, err, errForged, name)
	}
	_, err = open(token, only(testSigningKey(2)))
	require.ErrorIs(t, err, errForged, "an unknown key")
	impostor := newSigningKey(k.id, []byte("another secret"))
	forged, err := impostor.seal(testLease())
	require.NoError(t, err)
	_, err = open(forged, only(k))
	require.ErrorIs(t, err, errForged, "the right key id, another secret")
}

func FuzzOpenLease(f *testing.F) {
	k := testSigningKey(1)
	token, err := k.seal(testLease())
	require.NoError(f, err)
	f.Add(token)
	f.Add("AQAAAAAA")
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := open(s, only(k)); s != token {
			require.ErrorIs(t, err, errForged)
		}
	})
}

func TestTheNextTokenSaysNoAmounts(t *testing.T) {
	next := testLease().next(2)
	require.EqualValues(t, 2, next.Number)
	require.Equal(t, []Held{{Limit: "rpm"}, {Limit: "tpm"}}, next.Levels[0].Held)
	require.EqualValues(t, 500, testLease().Levels[0].Held[1].Tokens)
}

func TestSettlementHashIgnoresOrderAlone(t *testing.T) {
	a := settlementHash(api.VerbAdjust, api.Amounts{{Name: "tpm", Tokens: 1}, {Name: "rpm", Tokens: 2}})
	require.Equal(t, a, settlementHash(api.VerbAdjust, api.Amounts{{Name: "rpm", Tokens: 2}, {Name: "tpm", Tokens: 1}}))
	require.NotEqual(t, a, settlementHash(api.VerbAdjust, api.Amounts{{Name: "rpm", Tokens: 1}, {Name: "tpm", Tokens: 2}}))
	require.NotEqual(t, a, settlementHash(api.VerbRelease, nil))
}
