package story_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/test/sim/story"
)

func TestAStoryIsToldInTextAndAsAPicture(t *testing.T) {
	s := story.New()
	s.Add(story.Event{Step: 1, At: time.Millisecond, From: "caller-1.1", To: "nats", What: "acquire <1>"})
	s.Add(story.Event{Step: 2, At: 2 * time.Millisecond, From: "nats", To: "admission-1.1", What: "acquire"})
	s.Add(story.Event{Step: 3, At: 3 * time.Millisecond, From: "ledger", To: "ledger", What: "BROKEN P1"})
	text := s.Text(2)
	require.Equal(t, 2, strings.Count(text, "\n"))
	require.Contains(t, text, "nats             → admission-1.1    acquire")
	require.NotContains(t, text, "caller")

	picture := s.SVG(0)
	require.Contains(t, string(picture), "acquire &lt;1&gt;")
	require.Equal(t, 2, strings.Count(string(picture), "marker-end"))
	require.Contains(t, string(picture), `fill="#c00"`)
	decoder := xml.NewDecoder(strings.NewReader(string(picture)))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func TestALongStoryKeepsItsEnd(t *testing.T) {
	s := story.New()
	for i := range 25_000 {
		s.Add(story.Event{Step: i})
	}
	all := s.Last(0)
	require.Len(t, all, 20_000)
	require.Equal(t, 5_000, all[0].Step)
	require.Equal(t, 24_999, all[len(all)-1].Step)
	require.Equal(t, 24_998, s.Last(2)[0].Step)
}
