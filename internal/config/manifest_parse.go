package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// ParseManifest reads a manifest; problems name the file. It returns all problems,
// by line; with problems there is no manifest.
func ParseManifest(file string, data []byte) (*Manifest, []ManifestProblem) {
	b := manifestBuilder{yamlReader: yamlReader{file: file}, policies: map[api.LimitsTarget]declaredPolicy{}}
	if doc := b.document(data); doc != nil {
		b.top(doc)
	}
	if len(b.problems) > 0 {
		return nil, b.sorted()
	}
	for i := range b.Levels {
		b.Levels[i].OnUnavailable = b.policies[b.Levels[i].LimitsTarget].is
	}
	sortLevels(b.Levels)
	return &b.Manifest, nil
}

// manifestBuilder is a manifest under construction.
type manifestBuilder struct {
	yamlReader
	Manifest
	policies map[api.LimitsTarget]declaredPolicy
}

// policy is a declared policy.
type declaredPolicy struct {
	is   api.Policy
	line int
}

const (
	fixTop     = "a manifest has namespace, manifest, limits and on_unavailable"
	fixSection = "there are system, resources and entities"
	fixLimit   = "write amount/period or amount/period:burst, such as 100/min or 10000/min:20000"
)

// top reads the document.
func (b *manifestBuilder) top(doc *yaml.Node) {
	seen := map[string]bool{}
	for _, e := range b.entries(doc, "the manifest", doc.Line) {
		seen[e.key] = true
		switch e.key {
		case "namespace":
			b.Namespace = b.name(e, api.CheckNamespace)
		case "manifest":
			b.Name = b.name(e, api.CheckManifest)
		case "limits":
			b.sections(e, b.limits)
		case "on_unavailable":
			b.sections(e, b.policy)
		default:
			b.problem(e.line, fixTop, "there is no %q in a manifest", shorten(e.key))
		}
	}
	for _, key := range []string{"namespace", "manifest", "limits"} {
		if !seen[key] && len(seen) > 0 {
			b.problem(1, "add it: "+fixTop, "the manifest has no %s", key)
		}
	}
	declared := make(map[api.LimitsTarget]bool, len(b.Levels))
	for _, l := range b.Levels {
		declared[l.LimitsTarget] = true
	}
	for target, policy := range b.policies {
		if !declared[target] {
			b.problem(policy.line, "add limits for it, or remove the policy", "the policy of %s is of a level without limits", TargetName(target))
		}
	}
	if len(b.Levels) > MaxManifestLevels {
		b.problem(1, fmt.Sprintf("split it: a manifest has at most %d", MaxManifestLevels), "the manifest has %d levels", len(b.Levels))
	}
}

// name reads a checked name.
func (b *manifestBuilder) name(e yamlEntry, check func(string) error) string {
	text, ok := b.text(e, e.key)
	if !ok {
		return ""
	}
	b.checked(e.line, text, check)
	return text
}

// checked reports whether a name passes a check, and adds a problem if it does not.
func (b *manifestBuilder) checked(line int, text string, check func(string) error) bool {
	err := check(text)
	if err == nil {
		return true
	}
	fix := err.Error()
	var refusal *api.Error
	if errors.As(err, &refusal) {
		_, rule, found := strings.Cut(refusal.Message, ": ")
		if fix = refusal.Message; found {
			fix = rule
		}
	}
	b.problem(line, fix, "%q cannot be used here", shorten(text))
	return false
}

// sections reads system, resources and entities. It calls leaf for each level.
func (b *manifestBuilder) sections(e yamlEntry, leaf func(yamlEntry, api.LimitsTarget)) {
	for _, section := range b.entries(e.value, e.key, e.line) {
		switch section.key {
		case "system":
			leaf(section, api.LimitsTarget{System: true})
		case "resources":
			for _, resource := range b.entries(section.value, "resources", section.line) {
				if b.checked(resource.line, resource.key, api.CheckResource) {
					leaf(resource, api.LimitsTarget{Resource: resource.key})
				}
			}
		case "entities":
			for _, entity := range b.entries(section.value, "entities", section.line) {
				if b.checked(entity.line, entity.key, api.CheckEntity) {
					b.entity(entity, leaf)
				}
			}
		default:
			b.problem(section.line, fixSection, "there is no %q in %s", shorten(section.key), e.key)
		}
	}
}

func (b *manifestBuilder) entity(entity yamlEntry, leaf func(yamlEntry, api.LimitsTarget)) {
	for _, resource := range b.entries(entity.value, "entity "+entity.key, entity.line) {
		target := api.LimitsTarget{Entity: entity.key}
		if resource.key != keys.DefaultResource {
			if !b.checked(resource.line, resource.key, api.CheckResource) {
				continue
			}
			target.Resource = resource.key
		}
		leaf(resource, target)
	}
}

// limits reads the limits of a level.
func (b *manifestBuilder) limits(level yamlEntry, target api.LimitsTarget) {
	entries := b.entries(level.value, TargetName(target), level.line)
	if isMapping(level.value) && len(level.value.Content) == 0 {
		b.problem(level.line, "name at least one, or remove the level", "%s has no limits", TargetName(target))
	}
	if len(entries) > api.MaxLimits {
		b.problem(level.line, fmt.Sprintf("a level has at most %d", api.MaxLimits), "%s has %d limits", TargetName(target), len(entries))
	}
	l := ManifestLevel{LimitsTarget: target, Line: level.line}
	for _, e := range entries {
		if !b.checked(e.line, e.key, api.CheckLimitName) {
			continue
		}
		text, ok := b.text(e, "the limit "+e.key)
		if !ok {
			continue
		}
		limit, err := api.ParseLimit(e.key + "=" + text)
		if err != nil {
			b.badLimit(e, text, err)
			continue
		}
		l.Limits = append(l.Limits, limit)
	}
	slices.SortFunc(l.Limits, func(a, b api.Limit) int { return strings.Compare(a.Name, b.Name) })
	b.Levels = append(b.Levels, l)
}

// badLimit adds the problem of a limit that is malformed or out of bounds.
func (b *manifestBuilder) badLimit(e yamlEntry, text string, err error) {
	fix := fixLimit
	var refusal *api.Error
	if errors.As(err, &refusal) && refusal.Field != "" {
		fix = refusal.Message
	}
	b.problem(e.line, fix, "%q is no limit for %s", shorten(text), e.key)
}

// policy reads the policy of a level.
func (b *manifestBuilder) policy(e yamlEntry, target api.LimitsTarget) {
	text, ok := b.text(e, "the policy of "+TargetName(target))
	if !ok {
		return
	}
	is := api.Policy(text)
	if text == "" || is.Check() != nil {
		b.problem(e.line, `write "block" or "allow"`, "%q is no policy", shorten(text))
		return
	}
	b.policies[target] = declaredPolicy{is: is, line: e.line}
}

// shorten limits the length of a text that a problem quotes.
func shorten(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
