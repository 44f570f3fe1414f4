package config

import (
	"cmp"
	"slices"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Override is what a request's own limits come to: the limits by name, and a
// fingerprint of them alone. They passed [api.Limit.Check], and no name is in
// them twice. The order in which a request names them makes no difference.
func Override(limits []api.Limit) (by []bucket.Limit, fingerprint string) {
	by = BucketLimits(limits)
	slices.SortFunc(by, func(a, b bucket.Limit) int { return cmp.Compare(a.Name, b.Name) })
	return by, Fingerprint(&Resolved{Limits: by})
}

// With is r with other limits, by name, in place of the stored ones. Cascade,
// parent and policy stay those of the entity; the bucket item expires.
func (r Resolved) With(limits []bucket.Limit) Resolved {
	r.Limits, r.Permanent = limits, false
	r.Fingerprint = Fingerprint(&r)
	return r
}
