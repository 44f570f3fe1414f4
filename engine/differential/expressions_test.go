package differential

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// aliases are the placeholders of one request as it is drawn.
type aliases struct {
	t      *rapid.T
	names  object
	values object
}

var placeholder = regexp.MustCompile(`[#:]\w+`)

func newAliases(t *rapid.T) *aliases { return &aliases{t: t, names: object{}, values: object{}} }

// into adds to a request the placeholders that its expressions use, and rarely
// one that they do not.
func (a *aliases) into(request object) {
	used := map[string]bool{}
	for field, v := range request {
		if strings.HasSuffix(field, "Expression") {
			for _, alias := range placeholder.FindAllString(v.(string), -1) {
				used[alias] = true
			}
		}
	}
	unused := func(alias string, _ any) bool { return !used[alias] }
	maps.DeleteFunc(a.names, unused)
	maps.DeleteFunc(a.values, unused)
	if chance(a.t, "unused", 60) {
		a.values[":unused"] = number(1)
	}
	if len(a.names) > 0 {
		request["ExpressionAttributeNames"] = a.names
	}
	if len(a.values) > 0 {
		request["ExpressionAttributeValues"] = a.values
	}
}

// name is an attribute's name, or a placeholder for it.
func (a *aliases) name(name string) string {
	if !rapid.Bool().Draw(a.t, "alias") {
		return name
	}
	alias := "#" + name
	a.names[alias] = name
	return alias
}

func (a *aliases) value(v object) string {
	alias := fmt.Sprintf(":v%d", len(a.values))
	a.values[alias] = v
	return alias
}

// column draws a column of one of the kinds, or of any.
func (a *aliases) column(kinds ...string) column {
	var fit []column
	for _, c := range columns() {
		if len(kinds) == 0 || slices.Contains(kinds, c.kind) {
			fit = append(fit, c)
		}
	}
	return pick(a.t, "column", fit...)
}

// path is a column, or something inside of it.
func (a *aliases) path() string {
	c := a.column()
	path := a.name(c.name)
	deeper := c.kind == "M" || c.kind == "L" || chance(a.t, "senseless", 20)
	for deeper && rapid.Bool().Draw(a.t, "deeper") {
		if c.kind == "L" == (rapid.IntRange(0, 3).Draw(a.t, "step") > 0) {
			path += pick(a.t, "index", "[0]", "[1]", "[2]", "[7]")
		} else {
			path += "." + a.name(pick(a.t, "field", "x", "y", "z"))
		}
	}
	return path
}

// condition draws a condition of a few tests.
func (a *aliases) condition(depth int) string {
	if depth == 0 || rapid.Bool().Draw(a.t, "leaf") {
		return a.test()
	}
	left, right := a.condition(depth-1), a.condition(depth-1)
	switch pick(a.t, "join", "AND", "OR", "NOT", "and", "()") {
	case "AND":
		return left + " AND " + right
	case "OR":
		return "(" + left + " OR " + right + ") AND " + a.test()
	case "NOT":
		return "NOT " + left + " OR " + right
	case "and":
		return left + " and " + right
	}
	return "NOT (" + left + " OR " + right + ")"
}

func (a *aliases) test() string {
	c := a.column("S", "N", "B")
	if chance(a.t, "any column", 40) {
		c = a.column()
	}
	name := a.name(c.name)
	switch rapid.IntRange(0, 13).Draw(a.t, "test") {
	case 0:
		return "attribute_exists(" + a.path() + ")"
	case 1:
		return "attribute_not_exists(" + a.path() + ")"
	case 2:
		return "attribute_type(" + a.path() + ", " + a.value(str(pick(a.t, "type", "S", "N", "B", "SS", "M", "L", "NULL", "BOOL", "NS", "BS"))) + ")"
	case 3:
		c = a.column("S", "B")
		return "begins_with(" + a.name(c.name) + ", " + a.value(c.usual(a.t)) + ")"
	case 4:
		return "contains(" + a.path() + ", " + a.value(anyValue(a.t, 2)) + ")"
	case 5:
		return "size(" + a.path() + ") " + a.comparator() + " " + a.value(number(rapid.IntRange(0, 4).Draw(a.t, "size")))
	case 6:
		return name + " IN (" + a.value(c.content(a.t)) + ", " + a.value(c.content(a.t)) + ")"
	case 7:
		low := rapid.IntRange(-3, 12).Draw(a.t, "low")
		high := low + rapid.IntRange(0, 6).Draw(a.t, "more")
		if chance(a.t, "turned round", 20) {
			low, high = high, low-1
		}
		return name + " BETWEEN " + a.value(number(low)) + " AND " + a.value(number(high))
	case 8:
		return a.path() + " " + a.comparator() + " " + a.path()
	case 9:
		return a.value(c.usual(a.t)) + " " + a.comparator() + " " + name
	case 10, 11:
		c = a.column()
		return a.name(c.name) + pick(a.t, "equality", " = ", " <> ") + a.value(c.content(a.t))
	}
	return name + " " + a.comparator() + " " + a.value(c.usual(a.t))
}

func (a *aliases) comparator() string {
	return pick(a.t, "comparator", "=", "<>", "<", "<=", ">", ">=")
}

// update draws an update of up to three attributes.
func (a *aliases) update() string {
	sections := map[string][]string{}
	used := map[string]bool{}
	for range rapid.IntRange(1, 3).Draw(a.t, "actions") {
		verb, action, column := a.action()
		if used[column] && !chance(a.t, "overlap", 6) {
			continue
		}
		used[column] = true
		sections[verb] = append(sections[verb], action)
	}
	var out []string
	for _, verb := range []string{"SET", "REMOVE", "ADD", "DELETE"} {
		if len(sections[verb]) > 0 {
			out = append(out, verb+" "+strings.Join(sections[verb], ", "))
		}
	}
	return strings.Join(out, " ")
}

// action draws one change, and tells which column it changes.
func (a *aliases) action() (verb, action, changed string) {
	switch rapid.IntRange(0, 9).Draw(a.t, "action") {
	case 0, 1:
		c := a.column()
		return "SET", a.name(c.name) + " = " + a.value(c.content(a.t)), c.name
	case 2:
		c := a.column("M")
		return "SET", a.name(c.name) + "." + a.name(pick(a.t, "field", "x", "y")) + a.deeper() + " = " + a.value(anyValue(a.t, 2)), c.name
	case 3:
		c := a.column("L")
		return "SET", a.name(c.name) + pick(a.t, "index", "[0]", "[1]", "[5]") + a.deeper() + " = " + a.value(anyValue(a.t, 2)), c.name
	case 4:
		c := a.column("N")
		return "SET", a.name(c.name) + " = " + a.sum(c), c.name
	case 5:
		c := a.column("L")
		list, more := a.name(c.name), a.value(anyList(a.t, 2))
		return "SET", list + " = " + pick(a.t, "append", "list_append("+list+", "+more+")", "list_append("+more+", "+list+")",
			"list_append(if_not_exists("+list+", "+more+"), "+more+")"), c.name
	case 6:
		path := a.path()
		return "REMOVE", path, strings.TrimPrefix(strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' })[0], "#")
	case 7:
		c := a.column("N")
		return "ADD", a.name(c.name) + " " + a.value(number(anyNumber(a.t))), c.name
	case 8:
		c := a.column("SS", "NS", "BS")
		return "ADD", a.name(c.name) + " " + a.value(c.content(a.t)), c.name
	}
	c := a.column("SS", "NS", "BS")
	return "DELETE", a.name(c.name) + " " + a.value(c.content(a.t)), c.name
}

func (a *aliases) deeper() string { return pick(a.t, "deeper", "", "", "", ".x", "[0]") }

func (a *aliases) sum(c column) string {
	n, name := a.value(number(anyNumber(a.t))), a.name(c.name)
	return pick(a.t, "sum", name+" + "+n, name+" - "+n, n+" - "+name, "if_not_exists("+name+", "+n+") + "+n,
		"if_not_exists("+a.path()+", "+n+")", a.path())
}

func (a *aliases) projection() string {
	paths := make([]string, rapid.IntRange(1, 3).Draw(a.t, "paths"))
	for i := range paths {
		paths[i] = a.path()
	}
	return strings.Join(paths, ", ")
}

// keyCondition narrows a table's or an index's key.
func (a *aliases) keyCondition(part string, partValue object, sort string, sortValues []object) string {
	condition := a.name(part) + " = " + a.value(partValue)
	if sort == "" || rapid.Bool().Draw(a.t, "whole partition") {
		return condition
	}
	one := func() string { return a.value(pick(a.t, "bound", sortValues...)) }
	switch op := pick(a.t, "sort", "=", "<", "<=", ">", ">=", "BETWEEN", "begins_with"); op {
	case "BETWEEN":
		return condition + " AND " + a.name(sort) + " BETWEEN " + one() + " AND " + one()
	case "begins_with":
		return condition + " AND begins_with(" + a.name(sort) + ", " + one() + ")"
	default:
		return condition + " AND " + a.name(sort) + " " + op + " " + one()
	}
}
