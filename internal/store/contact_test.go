package store_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/store"
)

// scripted answers calls with its status, or an error for 0, after it has done something.
type scripted struct {
	status int
	before func()
}

func (s *scripted) Do(*http.Request) (*http.Response, error) {
	s.before()
	if s.status == 0 {
		return nil, errors.New("no answer")
	}
	return &http.Response{StatusCode: s.status}, nil
}

func TestSilence(t *testing.T) {
	now := time.Hour
	contact := store.NewContact(func() time.Duration { return now })
	back := &scripted{before: func() { now += time.Second }}
	call := func(status int) {
		back.status = status
		_, _ = contact.Watch(back).Do(nil)
	}
	require.Zero(t, contact.Silence(now), "no call was made")
	call(0)
	require.Equal(t, time.Second, contact.Silence(now))
	now += time.Minute
	call(500)
	require.Equal(t, time.Minute+2*time.Second, contact.Silence(now), "since the first call without a reply")
	call(400)
	require.Zero(t, contact.Silence(now), "the store answers, whatever it says")
	call(200)
	require.Zero(t, contact.Silence(now))

	waiting := time.Duration(0)
	back.before = func() {
		now += time.Minute
		waiting = contact.Silence(now)
	}
	call(200)
	require.Equal(t, time.Minute, waiting, "a call that waits counts")
	require.Zero(t, contact.Silence(now))
}
