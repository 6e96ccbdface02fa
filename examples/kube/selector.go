package kube

import (
	"maps"
	"slices"
	"strings"
)

// labelText writes labels as selectors are written.
func labelText(v any) string {
	labels, _ := v.(map[string]any)
	if len(labels) == 0 {
		return "<none>"
	}
	return strings.Join(equalities(labels), ",")
}

func equalities(labels map[string]any) []string {
	out := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, name+"="+word(labels[name]))
	}
	return out
}

// selectorText writes a selector with matchLabels and matchExpressions as text.
func selectorText(v any) string {
	if v == nil {
		return "<none>"
	}
	terms := map[string]string{} // by label, as the text is ordered
	labels, _ := at(v, "matchLabels").(map[string]any)
	for name, value := range labels {
		terms[name+"\x00"] = name + "=" + word(value)
	}
	for i, e := range list(at(v, "matchExpressions")) {
		name, values := word(at(e, "key")), words(at(e, "values"))
		slices.Sort(values)
		var term string
		switch word(at(e, "operator")) {
		case "In":
			term = name + " in (" + strings.Join(values, ",") + ")"
		case "NotIn":
			term = name + " notin (" + strings.Join(values, ",") + ")"
		case "Exists":
			term = name
		case "DoesNotExist":
			term = "!" + name
		default:
			return "<error>"
		}
		terms[name+"\x00"+string(rune('a'+i))] = term
	}
	if len(terms) == 0 {
		return "<none>"
	}
	out := make([]string, 0, len(terms))
	for _, key := range slices.Sorted(maps.Keys(terms)) {
		out = append(out, terms[key])
	}
	return strings.Join(out, ",")
}
