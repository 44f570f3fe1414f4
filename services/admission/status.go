package admission

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

// status answers how limits stand, from consistent reads, and spends nothing.
func (s *Service) status(ctx context.Context, r *request) {
	req, err := api.DecodeStatus(r.body)
	if err != nil {
		r.refuse(asError(err))
		return
	}
	var reply *api.StatusReply
	if req.Resource != "" {
		reply, err = s.balances.bucket(ctx, r.namespaceID, req)
	} else {
		reply, err = s.balances.entity(ctx, r.namespaceID, req)
	}
	if err != nil {
		r.refuse(s.storeError(ctx, "read the status of entity "+req.Entity, err))
		return
	}
	r.respondJSON(reply)
}
