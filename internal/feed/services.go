package feed

import (
	"slices"
	"strings"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
)

// follower describes how a service of Tidegate follows the feed.
type follower struct {
	kinds []events.Kind
	// forgetful services have no use for records that they could not read at once: they look
	// at the table after a gap.
	forgetful bool
}

func services() map[string]follower {
	return map[string]follower{
		api.ServiceAggregator: {kinds: []events.Kind{events.KindBucket}},
		api.ServiceSharder:    {kinds: []events.Kind{events.KindBucket}, forgetful: true},
		api.ServiceArchiver:   {kinds: []events.Kind{events.KindAudit}},
	}
}

// KindsOf returns the kinds that a service of Tidegate follows in the feed, and nil for
// any other name.
func KindsOf(service string) []events.Kind { return services()[service].kinds }

// IsForgetful reports whether a service may miss changes.
func IsForgetful(service string) bool { return services()[service].forgetful }

// ServiceOf returns the service that a consumer of the feed belongs to: the name of
// the consumer without the lane.
func ServiceOf(consumer string) string {
	i := strings.LastIndexByte(consumer, '-')
	if i > 0 && len(consumer) == i+3 && !slices.ContainsFunc([]byte(consumer[i+1:]), func(c byte) bool { return c < '0' || c > '9' }) {
		return consumer[:i]
	}
	return consumer
}
