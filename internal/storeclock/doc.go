// Package storeclock tells a process the store's time: what every balance is
// counted by, whoever writes it.
//
//	clock := storeclock.New(source)              // the machine's own clock
//	cfg.HTTPClient = clock.Watch(cfg.HTTPClient) // each reply of the store is a bound
//	now, err := clock.Now()                      // fails before the first one
package storeclock
