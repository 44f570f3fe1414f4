package feed

import "github.com/tidegate/tidegate/pkg/events"

// Decoding makes a member one of another release, which reads events otherwise.
// It is called before Run.
func (g *Group) Decoding(decode func([]byte) (*events.Event, error)) { g.decode = decode }

// LanesOf shows tests who should have which lanes.
func LanesOf(self string, living []string) map[int]bool { return lanesOf(self, living) }

// Defaults are the tuning of a member that asks for none.
func Defaults() Tuning { return Tuning{}.withDefaults() }

// KeysOf lists the keys of a bucket of members.
var KeysOf = keysOf
