package api

import (
	"unicode"
	"unicode/utf8"
)

// The longest names, in bytes.
const (
	maxIdentifier = 256 // entities and resources
	maxLimitName  = 64
	maxNamespace  = 63
)

// ReservedLimit is the limit name under which Tidegate counts write units. Users'
// limits must not have it.
const ReservedLimit = "wcu"

// reservedResource stands in manifests and keys for all resources of an entity.
const reservedResource = "_default_"

// CheckEntity fails with invalid_entity unless id is an entity id: printable UTF-8, at most
// 256 bytes. Ids are compared byte by byte: case and Unicode normal forms count.
func CheckEntity(id string) error {
	if identifies(id) {
		return nil
	}
	return Errorf(CodeInvalidEntity, "", "%s: an entity id has 1 to %d bytes of printable UTF-8", shown(id), maxIdentifier)
}

// CheckResource fails with invalid_resource unless name is a resource: printable UTF-8, at
// most 256 bytes, and not "_default_". Names are compared byte by byte.
func CheckResource(name string) error {
	switch {
	case name == reservedResource:
		return Errorf(CodeInvalidResource, "", "%q is reserved: choose another resource", name)
	case identifies(name):
		return nil
	}
	return Errorf(CodeInvalidResource, "", "%s: a resource has 1 to %d bytes of printable UTF-8", shown(name), maxIdentifier)
}

// identifies reports whether id has 1 to maxIdentifier bytes and no character that
// a terminal or a log would not show: no control and no formatting character, no invalid
// UTF-8.
func identifies(id string) bool {
	if id == "" || len(id) > maxIdentifier || !utf8.ValidString(id) {
		return false
	}
	for _, c := range id {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}

// CheckLimitName fails with invalid_limit_name unless name is a limit's:
// letters, digits and "_.-", beginning with a letter, at most 64, and not
// ReservedLimit.
func CheckLimitName(name string) error {
	if name == ReservedLimit {
		return Errorf(CodeInvalidLimitName, "", "%q is reserved: choose another limit name", name)
	}
	if fits(name, maxLimitName, func(c byte) bool { return alphanumeric(c) || c == '_' || c == '.' || c == '-' }) &&
		letter(name[0]) {
		return nil
	}
	return Errorf(CodeInvalidLimitName, "", "%s: a limit name has at most %d letters, digits and _ . -, and begins with a letter", shown(name), maxLimitName)
}

// CheckNamespace fails with invalid_namespace unless name is a namespace's:
// small letters, digits and "-", not beginning with "-", at most 63.
func CheckNamespace(name string) error {
	if fits(name, maxNamespace, func(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' }) &&
		name[0] != '-' {
		return nil
	}
	return Errorf(CodeInvalidNamespace, "", "%s: a namespace has at most %d small letters, digits and -, and does not begin with -", shown(name), maxNamespace)
}

// CheckManifest fails with invalid_manifest unless name is a manifest's: small
// letters, digits and "-", not beginning with "-", at most 63.
func CheckManifest(name string) error {
	if CheckNamespace(name) == nil {
		return nil
	}
	return Errorf(CodeInvalidManifest, "", "%s: a manifest's name has at most %d small letters, digits and -, and does not begin with -", shown(name), maxNamespace)
}

// Check fails with invalid_policy unless the policy is empty, PolicyBlock or PolicyAllow.
func (p Policy) Check() error {
	switch p {
	case "", PolicyBlock, PolicyAllow:
		return nil
	case PolicyUnset: // never stored
	}
	return Errorf(CodeInvalidPolicy, "", "%s: the policy is %q or %q", shown(string(p)), PolicyBlock, PolicyAllow)
}

// Check fails with invalid_limit_name or invalid_limit unless the name is good,
// all numbers are above 0 and within MaxAmount and MaxPeriodSeconds, and the
// limit refills no faster than MaxRate. The error's field is relative to the
// limit.
func (l Limit) Check() error {
	if err := CheckLimitName(l.Name); err != nil {
		return within("name", err)
	}
	for _, n := range []struct {
		field          string
		value, highest int64
	}{
		{"capacity", l.Capacity, MaxAmount},
		{"refill_amount", l.RefillAmount, MaxAmount},
		{"refill_period_seconds", l.RefillPeriodSeconds, MaxPeriodSeconds},
	} {
		if n.value < 1 || n.value > n.highest {
			return Errorf(CodeInvalidLimit, n.field, "%d must be a whole number from 1 to %d", n.value, n.highest)
		}
	}
	if l.RefillAmount > MaxRate*l.RefillPeriodSeconds {
		return Errorf(CodeInvalidLimit, "refill_amount",
			"%d in %d s is faster than %d tokens per second", l.RefillAmount, l.RefillPeriodSeconds, MaxRate)
	}
	return nil
}

// Check fails unless the target names a single config level, by well-formed
// names.
func (t LimitsTarget) Check() error {
	switch {
	case t == LimitsTarget{}:
		return Errorf(CodeMissingField, "", "name a level: system, resource, entity, or entity and resource")
	case t.System && (t.Entity != "" || t.Resource != ""):
		return Errorf(CodeUnknownField, "system", "the system level has neither entity nor resource")
	}
	if t.Entity != "" {
		if err := CheckEntity(t.Entity); err != nil {
			return within("entity", err)
		}
	}
	if t.Resource != "" {
		if err := CheckResource(t.Resource); err != nil {
			return within("resource", err)
		}
	}
	return nil
}

// fits reports whether name has 1 to longest characters, all of them allowed.
func fits(name string, longest int, allowed func(byte) bool) bool {
	if name == "" || len(name) > longest {
		return false
	}
	for i := range len(name) {
		if !allowed(name[i]) {
			return false
		}
	}
	return true
}

func letter(c byte) bool       { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func alphanumeric(c byte) bool { return letter(c) || '0' <= c && c <= '9' }
