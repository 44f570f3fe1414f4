package differential

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"
)

// object is a JSON object.
type object = map[string]any

// target is one of the two engines that a test compares.
type target struct {
	name   string
	url    string
	client *http.Client
}

// reply is what an engine answered. Two are the same if their codes are and,
// where there is no code, their bodies.
type reply struct {
	code    string // the error's type; empty: none
	message string
	why     []string // messages of a transaction's reasons
	body    object   // of an error: only what is compared
}

// call sends one request.
func (e *target) call(t require.TestingT, operation string, request object) reply {
	body, err := json.Marshal(request)
	require.NoError(t, err)
	req, err := http.NewRequest(http.MethodPost, e.url, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	// Nobody checks signatures here, but other engines want one to be there.
	req.Header.Set("X-Amz-Date", "20260301T120000Z")
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=tidegate/20260301/us-east-1/dynamodb/aws4_request, "+
		"SignedHeaders=host, Signature=0000000000000000000000000000000000000000000000000000000000000000")
	resp, err := e.client.Do(req)
	require.NoError(t, err, "%s: %s", e.name, operation)
	defer resp.Body.Close()
	d := json.NewDecoder(resp.Body)
	d.UseNumber()
	var got object
	require.NoError(t, d.Decode(&got), "%s: %s", e.name, operation)
	if resp.StatusCode == http.StatusOK {
		return reply{body: normal(got).(object)}
	}
	return refusal(got)
}

// refusal keeps of an error its type, the item that refused a condition, and a
// transaction's reasons without their messages.
func refusal(got object) reply {
	name, _ := got["__type"].(string)
	r := reply{code: name[strings.LastIndexByte(name, '#')+1:], body: object{}}
	r.message, _ = got["message"].(string)
	if m, ok := got["Message"].(string); ok {
		r.message = m
	}
	if item, ok := got["Item"]; ok {
		r.body["Item"] = normal(item)
	}
	reasons, _ := got["CancellationReasons"].([]any)
	var kept []any
	for _, reason := range reasons {
		one := object{"Code": reason.(object)["Code"]}
		if m, ok := reason.(object)["Message"].(string); ok {
			r.why = append(r.why, m)
		}
		if item, ok := reason.(object)["Item"]; ok && item != nil {
			one["Item"] = normal(item)
		}
		kept = append(kept, one)
	}
	if kept != nil {
		r.body["CancellationReasons"] = kept
	}
	return r
}
