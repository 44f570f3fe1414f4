package config

import (
	"cmp"
	"slices"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Override converts a request's own limits. It returns them by name, and a
// fingerprint of them alone. The limits passed [api.Limit.Check] and have distinct
// names. Their order in the request does not matter.
func Override(limits []api.Limit) (by []bucket.Limit, fingerprint string) {
	by = BucketLimits(limits)
	slices.SortFunc(by, func(a, b bucket.Limit) int { return cmp.Compare(a.Name, b.Name) })
	return by, Fingerprint(&Resolved{Limits: by})
}

// With returns r with other limits, by name, in place of the stored limits.
// Cascade, parent and policy stay; the bucket item expires.
func (r Resolved) With(limits []bucket.Limit) Resolved {
	r.Limits, r.Permanent = limits, false
	r.Fingerprint = Fingerprint(&r)
	return r
}
