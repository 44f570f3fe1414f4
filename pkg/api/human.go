package api

import (
	"strconv"
	"strings"
)

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
	week   = 7 * day
)

// ParseLimit parses the short form of a limit:
//
//	rpm=100/min             100 per minute, and a burst of 100
//	tpm=10000/min:20000     10000 per minute, and a burst (capacity) of 20000
//	slow=1/30s              1 per 30 seconds
//
// Periods are a unit with an optional whole number before it: s, sec, second;
// min, minute; h, hour; d, day; w, week. It refuses a limit out
// of range with the error of [Limit.Check].
func ParseLimit(text string) (Limit, error) {
	name, rest, ok := strings.Cut(text, "=")
	amount, period, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return Limit{}, badForm(text)
	}
	period, burst, hasBurst := strings.Cut(period, ":")
	l := Limit{Name: name}
	if l.RefillAmount, ok = parseWhole(amount); !ok {
		return Limit{}, badForm(text)
	}
	if l.RefillPeriodSeconds, ok = parsePeriod(period); !ok {
		return Limit{}, Errorf(CodeInvalidLimit, cut(name),
			"%s is no period: write a unit (s, min, h, day, week), or a number and a unit (30s)", shown(period))
	}
	l.Capacity = l.RefillAmount
	if hasBurst {
		if l.Capacity, ok = parseWhole(burst); !ok {
			return Limit{}, badForm(text)
		}
	}
	if err := l.Check(); err != nil {
		return Limit{}, within(name, err)
	}
	return l, nil
}

// FormatLimit returns the shortest form of a valid limit that ParseLimit parses
// to the same limit.
func FormatLimit(l Limit) string {
	dst := append(make([]byte, 0, 48), l.Name...)
	dst = append(dst, '=')
	dst = strconv.AppendInt(dst, l.RefillAmount, 10)
	dst = append(dst, '/')
	dst = appendPeriod(dst, l.RefillPeriodSeconds)
	if l.Capacity != l.RefillAmount {
		dst = append(dst, ':')
		dst = strconv.AppendInt(dst, l.Capacity, 10)
	}
	return string(dst)
}

// String returns FormatLimit of the limit.
func (l Limit) String() string { return FormatLimit(l) }

func badForm(text string) error {
	return Errorf(CodeInvalidLimit, "", "%s: write a limit as name=amount/period or name=amount/period:burst, such as rpm=100/min", shown(text))
}

// parseWhole reads digits.
func parseWhole(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil
}

func parsePeriod(text string) (seconds int64, ok bool) {
	unit := strings.TrimLeft(text, "0123456789")
	count := int64(1)
	if number := text[:len(text)-len(unit)]; number != "" {
		if count, ok = parseWhole(number); !ok {
			return 0, false
		}
	}
	switch unit {
	case "s", "sec", "second":
		seconds = 1
	case "min", "minute":
		seconds = minute
	case "h", "hour":
		seconds = hour
	case "d", "day":
		seconds = day
	case "w", "week":
		seconds = week
	default:
		return 0, false
	}
	// A count that would overflow int64 is capped just out of range: Check refuses it.
	return seconds * min(count, MaxPeriodSeconds+1), true
}

func appendPeriod(dst []byte, seconds int64) []byte {
	unit, length := "s", int64(1)
	switch {
	case seconds%week == 0:
		unit, length = "week", week
	case seconds%day == 0:
		unit, length = "day", day
	case seconds%hour == 0:
		unit, length = "h", hour
	case seconds%minute == 0:
		unit, length = "min", minute
	}
	if seconds != length {
		dst = strconv.AppendInt(dst, seconds/length, 10)
	}
	return append(dst, unit...)
}

// ParseAmounts parses amounts in the form of the command line, "rpm=1" and
// "tpm=500", and for deltas "tpm=+1500" and "tpm=-200". It fails if a name is
// ill-formed or repeated, or a number is not in [lowest, MaxAmount]; lowest is 0,
// or −MaxAmount for deltas.
func ParseAmounts(texts []string, lowest int64) (Amounts, error) {
	amounts := make(Amounts, 0, len(texts))
	for _, text := range texts {
		name, number, ok := strings.Cut(text, "=")
		if !ok {
			return nil, Errorf(CodeInvalidAmount, "", "%s: write an amount as name=tokens, such as tpm=500", shown(text))
		}
		if err := CheckLimitName(name); err != nil {
			return nil, within(name, err)
		}
		tokens, err := strconv.ParseInt(number, 10, 64)
		if err != nil || tokens < lowest || tokens > MaxAmount {
			return nil, Errorf(CodeInvalidAmount, cut(name), "%s must be a whole number from %d to %d", shown(number), lowest, int64(MaxAmount))
		}
		if _, twice := amounts.Get(name); twice {
			return nil, Errorf(CodeInvalidAmount, cut(name), "is named twice")
		}
		amounts = append(amounts, Amount{name, tokens})
	}
	return amounts, nil
}
