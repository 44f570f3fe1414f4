package admin

import (
	"context"
	"encoding/json"

	"github.com/tidegate/tidegate/pkg/api"
)

// maxPrincipal bounds what is kept of the names of a user and its account, in
// bytes.
const maxPrincipal = 256

// PrincipalOf reads the header [api.HeaderRequestInfo]. The NATS server writes it
// for requests that come through a service import, over what the requester may
// have written; within the service's own account it writes none, and anybody who
// may publish there can. So only an operator can say that it is to be trusted.
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

func (a *Admin) auditList(ctx context.Context, ns Namespace, q api.AuditListRequest) (api.AuditListReply, error) {
	return a.trail.List(ctx, ns.ID, q)
}

func (a *Admin) auditShow(ctx context.Context, ns Namespace, q api.AuditShowRequest) (api.AuditShowReply, error) {
	return a.trail.Show(ctx, ns.ID, q)
}

func (a *Admin) auditVerify(ctx context.Context, ns Namespace, q api.AuditVerifyRequest) (api.AuditVerifyReply, error) {
	return a.trail.Verify(ctx, ns.ID, q)
}
