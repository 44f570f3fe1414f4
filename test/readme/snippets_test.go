package readme_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// complete spends one request and an estimate of its tokens, calls the model,
// and settles the difference. If the call fails, everything is given back.
func complete(ctx context.Context, client *tidegate.Client, call func(context.Context) (used int64, err error)) error {
	const estimate = 500
	err := client.Do(ctx, "api-key-123", "gpt-4", tidegate.Consume{"rpm": 1, "tpm": estimate},
		func(ctx context.Context, lease *tidegate.Lease) error {
			used, err := call(ctx)
			if err != nil {
				return err
			}
			return lease.Adjust(ctx, tidegate.Deltas{"tpm": used - estimate})
		})
	var denied *tidegate.DeniedError
	if errors.As(err, &denied) && !denied.Never {
		return fmt.Errorf("try again in %v: %w", denied.Jittered(), err)
	}
	return err
}

// Go in the documents is Go of this package's tests, so that it compiles.
func TestSnippetsAreCompiled(t *testing.T) {
	source := ""
	for _, file := range []string{"snippets_test.go", "integrating_test.go", "observing_test.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		source += string(text)
	}
	snippets := 0
	for _, d := range documents(t) {
		for _, f := range d.fences(t) {
			if f.language == "go" {
				snippets++
				require.Contains(t, source, "\n"+f.text+"\n", "%s:%d", d.name, f.line)
			}
		}
	}
	require.Positive(t, snippets)
}

// The snippet does what it says: it settles, gives back, and says when to come
// again.
func TestSnippetWorks(t *testing.T) {
	s := share(t, "snippets")
	output, code := s.shell(t, "tidegate limits set --resource gpt-4 rpm=2/week tpm=2000/week")
	require.Zero(t, code, output)
	client, err := tidegate.New(s.connect(t), tidegate.WithNamespace(s.namespace))
	require.NoError(t, err)
	balances := func() string {
		reply, err := client.Status(t.Context(), "api-key-123", "gpt-4", nil)
		require.NoError(t, err)
		var all []string
		for _, l := range reply.Limits {
			all = append(all, fmt.Sprintf("%s=%d", l.Name, l.Available))
		}
		return strings.Join(all, " ")
	}
	costs := func(used int64, err error) func(context.Context) (int64, error) {
		return func(context.Context) (int64, error) { return used, err }
	}

	require.NoError(t, complete(t.Context(), client, costs(730, nil)))
	require.Equal(t, "rpm=1 tpm=1270", balances())

	errModel := errors.New("the model is down")
	require.ErrorIs(t, complete(t.Context(), client, costs(0, errModel)), errModel)
	require.Equal(t, "rpm=1 tpm=1270", balances())

	require.NoError(t, complete(t.Context(), client, costs(20, nil)))
	require.Equal(t, "rpm=0 tpm=1250", balances())

	var denied *tidegate.DeniedError
	err = complete(t.Context(), client, costs(0, errors.New("nobody calls it")))
	require.ErrorAs(t, err, &denied)
	require.ErrorContains(t, err, "try again in ")
}
