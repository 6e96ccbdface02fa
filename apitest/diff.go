package apitest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/meta"
)

// Equal reports whether got is as the test wants it. If not, it fails the test and shows the
// differences; see [Diff].
func Equal(t testing.TB, want, got any) bool {
	t.Helper()
	diff := Diff(want, got)
	if diff != "" {
		t.Errorf("apitest: the object is not as it should be:\n%s", diff)
	}
	return diff == ""
}

// Diff describes the differences between two objects, with the path of each:
//
//	spec.size: want 4, got 3
//	status: want {"phase":"Ready"}, got nothing
//
// It returns "" if they are equal as JSON. An object is any value that encodes as JSON, or a string
// with JSON or YAML. Metadata that servers set, such as uid and resourceVersion, counts only if
// want has it.
func Diff(want, got any) string {
	wantTree, err := treeOf(want)
	if err != nil {
		return fmt.Sprintf("  want is not a valid object: %v\n", err)
	}
	gotTree, err := treeOf(got)
	if err != nil {
		return fmt.Sprintf("  got is not a valid object: %v\n", err)
	}
	var d differ
	d.compare(nil, wantTree, withoutBookkeeping(gotTree, wantTree))
	return d.out.String()
}

func treeOf(v any) (any, error) {
	text, ok := v.(string)
	if !ok {
		return json.TreeOf(v)
	}
	data, err := yaml.ToJSON([]byte(text), len(text))
	if err != nil {
		return nil, err
	}
	return json.DecodeTree(data, json.TreeOptions{})
}

// withoutBookkeeping removes metadata that servers set and other does not have.
func withoutBookkeeping(tree, other any) any {
	object, ok := tree.(map[string]any)
	metadata, has := object["metadata"].(map[string]any)
	if !ok || !has {
		return tree
	}
	wanted, _ := other.(map[string]any)
	wantedMetadata, _ := wanted["metadata"].(map[string]any)
	object, metadata = maps.Clone(object), maps.Clone(metadata)
	for _, name := range meta.MetadataFields(meta.Bookkeeping) {
		if _, wants := wantedMetadata[name]; !wants {
			delete(metadata, name)
		}
	}
	object["metadata"] = metadata
	return object
}

// differ collects differences.
type differ struct{ out strings.Builder }

// nothing stands for a missing value.
type nothing struct{}

func (d *differ) compare(path []json.Step, want, got any) {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			d.members(path, want, got)
			return
		}
	case []any:
		if got, ok := got.([]any); ok {
			d.items(path, want, got)
			return
		}
	}
	if !json.Equal(want, got) {
		fmt.Fprintf(&d.out, "  %s: want %s, got %s\n", cmp.Or(json.FormatPath(path), "all of it"), shown(want), shown(got))
	}
}

func (d *differ) members(path []json.Step, want, got map[string]any) {
	names := slices.Collect(maps.Keys(want))
	for name := range got {
		if _, both := want[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		d.compare(append(slices.Clip(path), json.Name(name)), value(want, name), value(got, name))
	}
}

func value(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return nothing{}
}

func (d *differ) items(path []json.Step, want, got []any) {
	for i := range max(len(want), len(got)) {
		var w, g any = nothing{}, nothing{}
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		d.compare(append(slices.Clip(path), json.Item(i)), w, g)
	}
}

// lineBytes is the longest value that is shown within a line.
const lineBytes = 80

// shown formats a value: as JSON if it is short, else as YAML below.
func shown(v any) string {
	if v == (nothing{}) {
		return "nothing"
	}
	text, err := json.AppendTree(nil, v)
	if err != nil {
		return err.Error()
	}
	if len(text) <= lineBytes {
		return string(text)
	}
	if block, err := yaml.FromJSON(text); err == nil {
		return "\n" + strings.TrimSuffix(indent(indent(string(block))), "\n")
	}
	return string(text)
}

// readable formats an object as YAML, without managed fields and secrets.
func readable(object []byte) string {
	v, err := json.DecodeTree(object, json.TreeOptions{})
	if err != nil {
		return string(object)
	}
	if t, ok := v.(map[string]any); ok {
		if metadata, ok := t["metadata"].(map[string]any); ok {
			delete(metadata, "managedFields") // the tree is a copy
		}
	}
	text, err := json.AppendTree(nil, withoutSecrets(v))
	if err != nil {
		return err.Error()
	}
	block, err := yaml.FromJSON(text)
	if err != nil {
		return string(text)
	}
	return string(block)
}

func indent(text string) string {
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		b.WriteString("    ")
		b.WriteString(line)
	}
	return b.String()
}
