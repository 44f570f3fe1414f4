package admission

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// waitsUntil reads from the headers until when the caller waits. The error is the
// refusal: a header is malformed, or the caller has given up already.
//
// A timeout counts from receipt, and leaves out how long the request was under way. A
// deadline includes it, and keeps a request no longer than a timeout could.
func (r *request) waitsUntil(h nats.Header) error {
	timeout, err := api.ParseTimeout(h.Get(api.HeaderTimeout))
	if err != nil {
		return err
	}
	unixMs, told, err := api.ParseDeadline(h.Get(api.HeaderDeadline))
	if err != nil {
		return err
	}
	if told && h.Get(api.HeaderTimeout) == "" {
		timeout = api.MaxTimeout
	}
	r.deadline = r.received + timeout
	if !told {
		return nil
	}
	r.expires = bucket.Instant(max(1, unixMs-bucket.EpochUnixMs)) // 0 means unknown, and both are long ago
	now, err := r.service.clock.Now()
	if err != nil {
		return nil //nolint:nilerr // without the store's time the timeout decides, until a write needs the time
	}
	if r.asker().expired(now) {
		return tooLate(now, unixMs)
	}
	if left := int64(r.expires - now); left < timeout.Milliseconds() {
		r.deadline = r.received + time.Duration(left)*time.Millisecond
	}
	return nil
}

// wrongUnit is the lateness from which a deadline in another unit, or by another clock, is
// likelier than a caller that waited in vain.
const wrongUnit = time.Hour

// tooLate returns the refusal of a request that came after its deadline.
func tooLate(now bucket.Instant, unixMs int64) *api.Error {
	late := now.Time().UnixMilli() - unixMs
	if late < wrongUnit.Milliseconds() {
		return api.Errorf(api.CodeDeadlineExceeded, "", "the caller's time was up %d ms before the request arrived: nothing was spent", late)
	}
	return api.Errorf(api.CodeDeadlineExceeded, "", "%s is %d, which is %d ms ago: it has to be in milliseconds since 1970, by the time that %s tells; nothing was spent",
		api.HeaderDeadline, unixMs, late, api.HeaderTime)
}

// timeTold returns the store's time for the header of the reply. A node that does not
// know it well enough to spend does not tell it.
func (r *request) timeTold() (at string, tells bool) {
	if !r.tellsTime {
		return "", false
	}
	now, err := r.service.clock.Now()
	return api.FormatTime(now.Time()), err == nil
}
