package config_test

import (
	"errors"
	"flag"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	ns      = "AAAAAAAAAAA"
	otherNs = "AAAAAAAAAAE"
)

func by() api.Principal { return api.Principal{User: "ops"} }

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// requireCode requires an *api.Error of a code and returns it.
func requireCode(t testing.TB, want api.Code, err error) *api.Error {
	t.Helper()
	var refusal *api.Error
	if !errors.As(err, &refusal) {
		require.Failf(t, "not an api.Error", "want %s, got %v", want, err)
	}
	require.Equal(t, want, refusal.Code, "%v", err)
	return refusal
}
