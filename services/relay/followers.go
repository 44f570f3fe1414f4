package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
)

// followers are the durable consumers of the feed.
type followers []*jetstream.ConsumerInfo

// followers returns the consumers that the feed waits for: the durable consumers, and
// for each expected service without a consumer a stand-in that has seen nothing. So changes
// wait for it from the first relay on.
func (h *housekeeper) followers(ctx context.Context) (followers, error) {
	var all followers
	list := h.relay.feed.ListConsumers(ctx)
	registered := map[string]bool{}
	for c := range list.Info() {
		if c.Config.Durable != "" {
			all = append(all, c)
			registered[feed.ServiceOf(c.Name)] = true
		}
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list the services' consumers: %w", err)
	}
	for _, service := range h.relay.cfg.Expects {
		if registered[service] {
			continue
		}
		expected := &jetstream.ConsumerInfo{Name: service, NumPending: 1}
		for _, kind := range feed.KindsOf(service) {
			expected.Config.FilterSubjects = append(expected.Config.FilterSubjects, events.KindSubject(kind))
		}
		all = append(all, expected)
	}
	return all, nil
}

// of returns the consumers that follow a kind.
func (f followers) of(kind events.Kind) followers { return f.following(events.KindSubject(kind)) }

// following returns the consumers that follow a subject, which may have wildcards.
func (f followers) following(subject string) (those followers) {
	for _, c := range f {
		if slices.ContainsFunc(filtersOf(c), func(filter string) bool { return overlap(filter, subject) }) {
			those = append(those, c)
		}
	}
	return those
}

// overlap reports whether some subject matches both of two patterns.
func overlap(a, b string) bool {
	for {
		first, restA, moreA := strings.Cut(a, ".")
		other, restB, moreB := strings.Cut(b, ".")
		switch {
		case first == ">" || other == ">":
			return true
		case first != other && first != "*" && other != "*", moreA != moreB:
			return false
		case !moreA:
			return true
		}
		a, b = restA, restB
	}
}

// floorOf is the number in the feed up to which every consumer has acknowledged
// its records, given the number of the last message that all of them know of.
func floorOf(consumers []*jetstream.ConsumerInfo, last uint64) uint64 {
	if len(consumers) == 0 {
		return 0
	}
	floor := last
	for _, c := range consumers {
		if isBehind(c) {
			floor = min(floor, c.AckFloor.Stream)
		}
	}
	return floor
}

// isBehind reports whether a consumer has yet to acknowledge something.
func isBehind(c *jetstream.ConsumerInfo) bool { return c.NumPending > 0 || c.NumAckPending > 0 }

// behind returns the consumers that have yet to acknowledge something.
func (f followers) behind() (those followers) {
	for _, c := range f {
		if isBehind(c) {
			those = append(those, c)
		}
	}
	return those
}

// without names the services that have not acknowledged a message for them.
func (f followers) without(number uint64) (services []string) {
	for _, c := range f {
		if service := feed.ServiceOf(c.Name); c.AckFloor.Stream < number && !slices.Contains(services, service) {
			services = append(services, service)
		}
	}
	slices.Sort(services)
	return services
}

// exact returns the consumers of services that must see every change: all but
// sharders, which look at the table after a gap.
func (f followers) exact() (those followers) {
	for _, c := range f {
		if !feed.IsForgetful(feed.ServiceOf(c.Name)) {
			those = append(those, c)
		}
	}
	return those
}
