package admin

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// bucketKey is the bucket that a request names.
func bucketKey(ns Namespace, q api.BucketRequest) keys.Bucket {
	return keys.Bucket{Namespace: ns.ID, Entity: q.Entity, Resource: q.Resource}
}

func (a *Admin) bucketGet(ctx context.Context, ns Namespace, q api.BucketRequest) (api.BucketReply, error) {
	return a.shards.Describe(ctx, bucketKey(ns, q))
}

func (a *Admin) bucketReset(ctx context.Context, ns Namespace, q api.BucketRequest) (api.BucketResetReply, error) {
	shards, err := a.shards.Reset(ctx, ns.By, bucketKey(ns, q))
	return api.BucketResetReply{Shards: int64(shards)}, err
}
