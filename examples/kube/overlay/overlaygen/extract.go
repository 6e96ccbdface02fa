package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// writeExtract writes the published schemas of some names, a schema a line, without what is only for readers: the whole is
// ten times as long.
func writeExtract(file, dir string, names map[string]bool) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	all := map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var document struct {
			Components struct{ Schemas map[string]any }
		}
		if err := json.Unmarshal(text, &document); err != nil {
			return err
		}
		maps.Copy(all, document.Components.Schemas)
	}
	var b bytes.Buffer
	b.WriteString("{")
	for i, name := range slices.Sorted(maps.Keys(names)) {
		text, err := json.Marshal(terse(all[name]))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s\n%q: %s", separator(i), name, text)
	}
	b.WriteString("\n}\n")
	return os.WriteFile(file, b.Bytes(), 0o644) //nolint:gosec // it is committed
}

// terse leaves out descriptions, what only tells of kinds and unions, and defaults that Go has anyway.
func terse(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			if name == "properties" {
				properties := map[string]any{}
				for field, property := range member.(map[string]any) {
					properties[field] = terse(property)
				}
				out[name] = properties
				continue
			}
			switch {
			case name == "description", name == "x-kubernetes-group-version-kind", name == "x-kubernetes-unions", name == "x-kubernetes-v2-schema":
			case name == "default" && saysNothing(member):
			default:
				out[name] = terse(member)
			}
		}
		if refs, ok := out["allOf"].([]any); ok && len(refs) == 1 { // a reference with words of its own beside it
			delete(out, "allOf")
			maps.Copy(out, refs[0].(map[string]any))
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = terse(item)
		}
		return out
	}
	return v
}
