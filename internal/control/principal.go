package control

import (
	"encoding/json"

	"github.com/tidegate/tidegate/pkg/api"
)

// maxPrincipal bounds the stored names of a user and its account, in bytes.
const maxPrincipal = 256

// PrincipalOf reads the header [api.HeaderRequestInfo]. For a request that comes through a
// service import, the NATS server writes the header; the caller of PrincipalOf has checked
// that it is the server's. Within the service's own account the server writes no header, and
// every publisher can. So only the operator can declare the header trusted.
func PrincipalOf(header string, trusted bool) api.Principal {
	var info struct {
		User    string `json:"user"`
		Account string `json:"acc"`
	}
	if err := json.Unmarshal([]byte(header), &info); err != nil || len(info.User) > maxPrincipal || len(info.Account) > maxPrincipal {
		return api.Principal{}
	}
	return api.Principal{
		User: info.User, Account: info.Account,
		Verified: trusted && (info.User != "" || info.Account != ""),
	}
}

// errUnnamed refuses a change whose sender is unknown.
var errUnnamed = api.Errorf(api.CodeForbidden, "",
	"nothing was changed: this node accepts changes only if the NATS server says who sent them; send the request through a service import "+
		"with share, with well-formed headers, without the header %s, and with few other headers", api.HeaderRequestInfo)
