package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
)

// A namespace is lost from the first step of its purge on, and not before: then also
// when it is gone, and when another has its name.
func TestALostNamespaceStaysLost(t *testing.T) {
	b, o := newNamespaceOperator(t)
	made, err := o.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	fill(t, b, made.ID, purgeItems+1)
	lost, err := NewPurgedNamespaces(NewNamespaces(b.DB, b.Table))
	require.NoError(t, err)
	look := func(id string) bool {
		fresh, err := NewPurgedNamespaces(NewNamespaces(b.DB, b.Table))
		require.NoError(t, err)
		found, err := fresh.Check(t.Context(), id)
		require.NoError(t, err)
		again, err := lost.Check(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, found, again, "it makes no difference what was known before")
		require.Equal(t, found, fresh.Known(id))
		return found
	}
	require.False(t, look(made.ID))
	_, err = o.Delete(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	require.False(t, look(made.ID), "it can be recovered")
	_, err = o.Purge(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	require.True(t, look(made.ID))
	finish(t, o)
	require.True(t, look(made.ID))
	again, err := o.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	require.True(t, look(made.ID))
	require.False(t, look(again.ID))
	require.True(t, look("AAAAAAAAAAE"), "there never was one")
}

// What cannot be found out is an error, and is not remembered.
func TestALookThatFailsSaysNothing(t *testing.T) {
	b, o := newNamespaceOperator(t)
	made, err := o.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	lost, err := NewPurgedNamespaces(NewNamespaces(b.DB, b.Table))
	require.NoError(t, err)
	for range 2 {
		b.Fail("GetItem", fault.InternalError())
		_, err = lost.Check(t.Context(), made.ID)
		require.Error(t, err)
		require.False(t, lost.Known(made.ID))
		found, err := lost.Check(t.Context(), made.ID)
		require.NoError(t, err)
		require.False(t, found)
	}
}
