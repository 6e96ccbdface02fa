package crdoracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// explained reports whether a difference comes from the values and formats in branches alone. Kubernetes takes 0.5
// for 0 in an enum or a bound, and accepts texts of some formats that we refuse, see TestIntended. In a branch, this
// decides which of the others holds, so the causes tell nothing about it. Without these keywords in branches, both
// sides must say the same.
func explained(document map[string]any, same func(document map[string]any) bool) bool {
	without, _ := withoutValues(document, false).(map[string]any)
	return same(without)
}

// withoutValues returns a schema without the keywords below branches that compare values or formats.
func withoutValues(v any, inBranch bool) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = withoutValues(item, inBranch)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			switch name {
			case "default", "enum":
				out[name] = member
			case "properties":
				properties := map[string]any{}
				for field, s := range member.(map[string]any) {
					properties[field] = withoutValues(s, inBranch)
				}
				out[name] = properties
			default:
				out[name] = withoutValues(member, inBranch || slices.Contains([]string{"allOf", "anyOf", "oneOf", "not"}, name))
			}
		}
		if inBranch {
			for _, name := range []string{"enum", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} {
				delete(out, name)
			}
		}
		return out
	}
	return v
}

// withoutDefaults returns a schema without the defaults of its fields.
func withoutDefaults(document map[string]any) map[string]any {
	out := maps.Clone(document)
	delete(out, "default")
	for _, keyword := range []string{"items", "additionalProperties"} {
		if s, ok := out[keyword].(map[string]any); ok {
			out[keyword] = withoutDefaults(s)
		}
	}
	if properties, ok := out["properties"].(map[string]any); ok {
		fields := map[string]any{}
		for name, s := range properties {
			fields[name] = withoutDefaults(s.(map[string]any))
		}
		out["properties"] = fields
	}
	return out
}

// createdAlike returns a function that reports whether both sides say the same about a new object.
func createdAlike(object map[string]any) func(document map[string]any) bool {
	return func(document map[string]any) bool {
		theirs, ours, ok := sides(document)
		if !ok {
			return false
		}
		missing, added := compare(theirs.create(object), ours.create(object))
		return len(missing)+len(added) == 0
	}
}

// updatedAlike is createdAlike for updates.
func updatedAlike(old, next stored) func(document map[string]any) bool {
	return func(document map[string]any) bool {
		theirs, ours, ok := sides(document)
		if !ok {
			return false
		}
		missing, added := compareUpdate(theirs, ours, document, old, next)
		return len(missing)+len(added) == 0
	}
}

// sides returns both sides for objects that have their defaults already. A default that fits values in branches may be
// wrong without them, and one of a key of a list must be there.
func sides(document map[string]any) (*kubernetes, *kindwright, bool) {
	for _, document := range []map[string]any{withoutDefaults(document), document} {
		text, err := json.Marshal(document)
		if err != nil {
			return nil, nil, false
		}
		theirs, problems, err := newKubernetes(text)
		if err != nil || len(problems) > 0 {
			continue
		}
		if ours, problems, err := newKindwright(text); err == nil && len(problems) == 0 {
			return theirs, ours, true
		}
	}
	return nil, nil, false
}

// nearestBranch returns a function that reports whether a cause lies in a value for which no branch holds. Both sides
// name what is wrong with the nearest branch. In an update, Kubernetes counts for this what applies to the whole value,
// and we count what has changed; if nothing has changed that a branch refuses, it holds (0007). As a new value, both
// refuse it.
func nearestBranch(theirs, ours, created []cause) func(cause) bool {
	var places []string
	for _, c := range theirs {
		if path, ok := c.branchOf(); ok && slices.ContainsFunc(slices.Concat(ours, created), func(o cause) bool { return sameBranch(path, c, intended(o)) }) {
			places = append(places, path)
		}
	}
	return func(c cause) bool {
		_, isBranch := c.branchOf()
		return !isBranch && belowAny(places, c.field)
	}
}

// inUnkeyed reports whether a field lies in a keyed list whose items repeat a key or have none that fits. Kubernetes
// then finds no earlier item for any of them, so it reports what was wrong with unchanged items, too.
func inUnkeyed(field string, document map[string]any, old, next any) bool {
	for _, name := range strings.Split(field, ".") {
		name, index, isItem := strings.Cut(name, "[")
		properties, _ := document["properties"].(map[string]any)
		if described, ok := properties[name].(map[string]any); ok {
			document = described
		} else {
			document, _ = document["additionalProperties"].(map[string]any)
		}
		before, _ := old.(map[string]any)
		after, _ := next.(map[string]any)
		old, next = before[name], after[name]
		if !isItem {
			continue
		}
		was, _ := old.([]any)
		is, _ := next.([]any)
		if names, ok := document["x-kubernetes-list-map-keys"].([]any); ok && (!keyed(was, names) || !keyed(is, names)) {
			return true
		}
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || i >= len(is) {
			return false
		}
		document, _ = document["items"].(map[string]any)
		old, next = nil, is[i]
	}
	return false
}

// keyed reports whether all items of a list have keys, and each its own.
func keyed(items []any, names []any) bool {
	seen := map[string]bool{}
	for _, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return false
		}
		key := ""
		for _, name := range names {
			switch v := object[name.(string)].(type) {
			case string, int64, bool:
				key += fmt.Sprintf("%T %v,", v, v)
			default:
				return false
			}
		}
		if seen[key] {
			return false
		}
		seen[key] = true
	}
	return true
}

// A comparison looks through what is meant to be different, and through nothing else.
func TestExplained(t *testing.T) {
	conditions := func(branches string) map[string]any {
		return decoded(t, `{"type":"object","properties":{"v":{"type":"number","anyOf":[`+branches+`]}}}`)
	}
	fraction := createdAlike(map[string]any{"v": 1.5})
	require.False(t, fraction(conditions(`{"enum":[1]},{"maximum":1,"exclusiveMaximum":true}`)), "1.5 is 1 for Kubernetes")
	require.True(t, explained(conditions(`{"enum":[1]},{"maximum":1,"exclusiveMaximum":true}`), fraction))
	require.Equal(t, map[string]any{"not": map[string]any{"required": []any{"a"}}, "enum": []any{1.5}},
		withoutValues(decoded(t, `{"not":{"required":["a"],"enum":[{}]},"enum":[1.5]}`), false))

	list := decoded(t, `{"properties":{"l":{"x-kubernetes-list-map-keys":["k"],"items":{"properties":{"n":{}}}}}}`)
	whole, twice := decoded(t, `{"l":[{"k":"a","n":1},{"k":"b"}]}`), decoded(t, `{"l":[{"k":"a","n":1},{"k":"a"}]}`)
	require.True(t, inUnkeyed("l[0].n", list, whole, twice))
	require.True(t, inUnkeyed("l[0].n", list, twice, whole))
	require.False(t, inUnkeyed("l[0].n", list, whole, whole))
	require.False(t, inUnkeyed("m", list, twice, twice))
}

func decoded(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	return out
}
