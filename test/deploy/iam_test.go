package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// oneOrMore is what IAM writes as a text or as a list.
type oneOrMore []string

func (l *oneOrMore) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		*l = make(oneOrMore, 1)
		return json.Unmarshal(b, &(*l)[0])
	}
	return json.Unmarshal(b, (*[]string)(l))
}

type statement struct {
	Sid, Effect      string
	Action, Resource oneOrMore
	Condition        map[string]map[string]oneOrMore
}

// leadingKeys is the condition of IAM that looks at partition keys.
const leadingKeys = "dynamodb:LeadingKeys"

// denies reports whether a statement denies an access.
func (s statement) denies(a access) bool {
	matches := func(patterns oneOrMore, of string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return allows(pattern, of) })
	}
	return s.Effect == "Deny" && matches(s.Action, "dynamodb:"+a.action) && matches(s.Resource, a.resource) &&
		a.leading != "" && matches(s.Condition["ForAnyValue:StringLike"][leadingKeys], a.leading)
}

// allows reports whether a statement allows an action on what matches a pattern.
func allows(pattern, resource string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(resource)
}

// readPolicy reads a policy of deploy/aws.
func readPolicy(t *testing.T, name string) []statement {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "aws", name))
	require.NoError(t, err)
	var policy struct {
		Version   string
		Statement []statement
	}
	require.NoError(t, json.Unmarshal(text, &policy))
	require.Equal(t, "2012-10-17", policy.Version)
	for _, s := range policy.Statement {
		require.Contains(t, []string{"Allow", "Deny"}, s.Effect)
	}
	return policy.Statement
}

// Services that only count and shard reach no signing key, whatever they ask for, and every
// item of a tenant.
func TestSigningKeysAreOutOfReach(t *testing.T) {
	const onTable = "arn:aws:dynamodb:us-east-1:000000000000:table/" + table.DefaultName
	for _, role := range []string{aggregatorUser, sharderUser} {
		policy := readPolicy(t, role+"-policy.json")
		for leading, want := range map[string]bool{
			keys.LeaseKey{ID: "k"}.Key().PK: true, keys.AuditKey{ID: "k"}.Key().PK: true, keys.NamespaceName{Name: "acme"}.Key().PK: true,
			keys.Bucket{Namespace: "_AAAAAAAAAA", Entity: "e", Resource: "r"}.Key().PK: false,
		} {
			for _, action := range []string{"GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"} {
				denied := slices.ContainsFunc(policy, func(s statement) bool { return s.denies(access{action, onTable, leading}) })
				require.Equal(t, want, denied, "%s %s %s", role, action, leading)
			}
		}
	}
}

// requireExact: a policy allows what was asked for, each of its lines is needed,
// and it is for the default table alone.
func requireExact(t *testing.T, name string, asked map[access]bool) {
	t.Helper()
	policy := readPolicy(t, name)
	used := map[access]bool{}
	for a := range asked {
		allowed := false
		for _, s := range policy {
			if s.Effect == "Deny" {
				require.False(t, s.denies(a), "%s denies %s on %s of %s", name, a.action, a.leading, a.resource)
				continue
			}
			require.Empty(t, s.Condition, "a condition that this test does not know")
			for _, resource := range s.Resource {
				action := a.action
				if !strings.Contains(action, ":") {
					action = "dynamodb:" + action
				}
				if slices.Contains(s.Action, action) && allows(resource, a.resource) {
					allowed, used[access{action, resource, ""}] = true, true
				}
			}
		}
		require.True(t, allowed, "%s lacks %s on %s", name, a.action, a.resource)
	}
	for _, s := range policy {
		if s.Effect == "Deny" {
			continue
		}
		for _, action := range s.Action {
			for _, resource := range s.Resource {
				require.True(t, used[access{action, resource, ""}], "%s allows %s on %s, which nobody needs", name, action, resource)
			}
		}
	}
}
