package api

import "math"

// rule says which values a field of an admin request takes. A field names its rule in the
// struct tag `rule`; ",required" after the name refuses a request without the field.
type rule struct {
	text            func(string) error // of a string
	code            Code               // refuses a number that is not whole, or out of range
	lowest, highest int64              // of a number
	absent          any                // the value of a field that the request leaves out; nil: zero
}

func text(check func(string) error) rule { return rule{text: check} }

func number(code Code, lowest, highest int64) rule {
	return rule{code: code, lowest: lowest, highest: highest}
}

// ruleOf returns the rule of that name; a field without a rule takes any value of its type.
func ruleOf(name string) rule {
	switch name {
	case "entity":
		return text(CheckEntity)
	case "resource":
		return text(CheckResource)
	case "namespace":
		return text(CheckNamespace)
	case "manifest":
		return text(CheckManifest)
	case "limit_name":
		return text(CheckLimitName)
	case "policy":
		return text(checkPolicy)
	case "policy_or_unset":
		return text(checkPolicyOrUnset)
	case "action":
		return text(func(s string) error { return AuditAction(s).Check() })
	case "window":
		return rule{text: func(s string) error { return Window(s).Check() }, absent: WindowHourly}
	case "page":
		return rule{code: CodeInvalidAmount, lowest: 1, highest: MaxPage, absent: int64(DefaultPage)}
	case "level_version": // 0 for a level that is not stored
		return number(CodeInvalidAmount, 0, math.MaxInt64)
	case "version":
		return number(CodeInvalidVersion, 1, math.MaxInt64)
	case "time":
		return number(CodeInvalidTime, 1, math.MaxInt64)
	case "days":
		return number(CodeInvalidPolicy, 0, MaxAuditRetentionDays)
	case "tokens":
		return number(CodeInvalidLimit, 1, MaxAmount)
	case "seconds":
		return number(CodeInvalidLimit, 1, MaxPeriodSeconds)
	}
	return rule{}
}
