package apply_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// A scenario is a sequence of writes to one object and the expected object and owners.
type scenario struct {
	Name  string `json:"name"`
	Steps []step `json:"steps"`
	// Want is the object without apiVersion, kind, name and managedFields.
	Want map[string]any `json:"want"`
	// Owners has the key "manager operation [subresource] [version, if not v1]" and the paths as value.
	Owners map[string][]string `json:"owners"`
	// Times gives, for some owners, the step that set their time, counted from 1.
	Times map[string]int `json:"times"`
}

// A step is one write. One of the first four fields names the manager.
type step struct {
	Apply  string         `json:"apply"`  // applies Config
	Update string         `json:"update"` // replaces the object by Object
	Patch  string         `json:"patch"`  // applies the merge patch in Object
	Create string         `json:"create"` // like Update, with Entries as managedFields
	Config map[string]any `json:"config"`
	Object map[string]any `json:"object"`

	Sub     string `json:"sub"`
	Version string `json:"version"`
	Force   bool   `json:"force"`
	Entries []any  `json:"entries"` // sent as managedFields
	Untrack bool   `json:"untrack"` // afterwards, removes the managedFields of the object

	Conflicts []string `json:"conflicts"` // "manager path" of each expected conflict
	Error     int      `json:"error"`     // another expected error code
	NoChange  bool     `json:"nochange"`  // the write changes nothing but times
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.yaml")
	require.NoError(t, err)
	count := 0
	names := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			for _, s := range readScenarios(t, file) {
				require.False(t, names[s.Name], "two scenarios are called %q", s.Name)
				names[s.Name] = true
				count++
				t.Run(s.Name, func(t *testing.T) { s.run(t) })
			}
		})
	}
	require.GreaterOrEqual(t, count, 150, "scenarios")
}

func readScenarios(t testing.TB, file string) []scenario {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	text, err := yaml.ToJSON(data, 1<<20)
	require.NoError(t, err, file)
	list, err := json.DecodeTree(text, json.TreeOptions{})
	require.NoError(t, err)
	var out []scenario
	for _, item := range list.([]any) {
		var s scenario
		require.NoError(t, json.FromTree(item, &s), file)
		require.NotEmpty(t, s.Steps, s.Name)
		s.trees(item.(map[string]any))
		out = append(out, s)
	}
	return out
}

// trees restores the original trees, with exact numbers, after decoding into Go values.
func (s *scenario) trees(item map[string]any) {
	s.Want, _ = item["want"].(map[string]any)
	for i, raw := range item["steps"].([]any) {
		from := raw.(map[string]any)
		s.Steps[i].Config, _ = from["config"].(map[string]any)
		s.Steps[i].Object, _ = from["object"].(map[string]any)
		s.Steps[i].Entries, _ = from["entries"].([]any)
	}
}

// start is the time of the first step. Steps are one minute apart.
func start() time.Time { return time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC) }

func (s scenario) run(t *testing.T) {
	fields := widgetFields(t)
	var live map[string]any
	version := "v1"
	for i, st := range s.Steps {
		v := st.version()
		if live != nil && v != version {
			var err error
			live, err = convertWidget(live, group+v)
			require.NoError(t, err)
		}
		version = v
		r := apply.Request{
			Live: live, APIVersion: group + v, Subresource: st.Sub, Force: st.Force, Manager: st.manager(),
			Time: meta.NewTime(start().Add(time.Duration(i+1) * time.Minute)),
		}
		next, err := st.write(fields, &r)
		unmoved(t, fields, r, st, next, err)
		if st.fails(t, i, err) {
			continue
		}
		if st.NoChange {
			require.NotNil(t, live, "step %d", i+1)
			require.True(t, apply.EqualButTimes(live, next), "step %d changed the object from %s to %s", i+1, print(live), print(next))
		}
		live = widgetSchema(t, v).Default(next)
		if st.Untrack {
			live = withEntries(live, nil)
		}
	}
	s.check(t, live)
}

func (st step) version() string {
	if st.Version == "" {
		return "v1"
	}
	return st.Version
}

func (st step) manager() string { return st.Apply + st.Update + st.Patch + st.Create }

// write runs the step.
func (st step) write(fields *apply.Fields, r *apply.Request) (map[string]any, error) {
	switch {
	case st.Apply != "":
		r.New = object(st.version(), st.Config)
		return fields.Apply(*r)
	case st.Patch != "":
		r.New = mergePatch(r.Live, st.Object).(map[string]any)
	default:
		r.New = withEntries(object(st.version(), st.Object), entries(r.Live))
	}
	r.New = widgetSchemas[st.version()].Default(r.New)
	if st.Entries != nil {
		r.New = withEntries(r.New, st.Entries)
	}
	return fields.Update(*r)
}

// unmoved checks the invariants of every step: the request is unchanged, the result is readable,
// and applying the same configuration again changes nothing, on both paths.
func unmoved(t *testing.T, fields *apply.Fields, r apply.Request, st step, next map[string]any, err error) {
	t.Helper()
	if err != nil {
		return
	}
	require.NoError(t, apply.Check(next))
	for _, e := range entries(next) {
		e := e.(map[string]any)
		text, err := json.AppendTree(nil, e["fieldsV1"])
		require.NoError(t, err)
		var set fieldpath.Set
		require.NoError(t, set.FromJSON(strings.NewReader(string(text))))
		require.False(t, set.Empty(), "%s owns nothing", e["manager"])
	}
	if st.Apply == "" || entries(next) == nil {
		return // without owners, the next apply counts as the first
	}
	r.Live, r.Force = widgetSchema(t, st.version()).Default(next), false
	again, err := fields.Apply(r)
	require.NoError(t, err, "the same again")
	require.True(t, apply.EqualButTimes(r.Live, again), "the same again changed %s to %s", print(r.Live), print(again))
}

// fails checks the error of a step and reports whether one was expected.
func (st step) fails(t *testing.T, i int, err error) bool {
	t.Helper()
	if st.Error == 0 && st.Conflicts == nil {
		require.NoError(t, err, "step %d", i+1)
		return false
	}
	require.Error(t, err, "step %d", i+1)
	if st.Error != 0 {
		require.Equal(t, st.Error, status.CodeOf(err), "step %d: %v", i+1, err)
		return true
	}
	require.True(t, status.IsConflict(err), "step %d: %v", i+1, err)
	var got []string
	for _, c := range status.From(err).Status().Details.Causes {
		require.Equal(t, meta.CauseFieldManagerConflict, c.Type)
		got = append(got, strings.TrimPrefix(c.Message, "conflict with ")+" "+c.Field)
	}
	require.ElementsMatch(t, st.Conflicts, got, "step %d", i+1)
	return true
}

func (s scenario) check(t *testing.T, live map[string]any) {
	t.Helper()
	got := map[string]any{}
	for name, v := range live {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			got[name] = v
		}
	}
	metadata := map[string]any{}
	for name, v := range live["metadata"].(map[string]any) {
		if name != "name" && name != "managedFields" {
			metadata[name] = v
		}
	}
	if len(metadata) > 0 {
		got["metadata"] = metadata
	}
	require.Equal(t, print(s.Want), print(got), "the object")
	owners, times := ownersOf(t, live)
	want := map[string][]string{}
	for name, paths := range s.Owners {
		want[name] = slices.Sorted(slices.Values(paths))
	}
	require.Equal(t, want, owners, "the owners")
	for name, i := range s.Times {
		require.Equal(t, start().Add(time.Duration(i)*time.Minute).Format(time.RFC3339), times[name], "the time of %s", name)
	}
}

// ownersOf returns the owners of an object in the form of a scenario, and the times of their
// entries.
func ownersOf(t testing.TB, tree map[string]any) (map[string][]string, map[string]string) {
	owners, times := map[string][]string{}, map[string]string{}
	for _, e := range entries(tree) {
		e := e.(map[string]any)
		require.Equal(t, "FieldsV1", e["fieldsType"])
		name := fmt.Sprint(e["manager"], " ", strings.ToLower(fmt.Sprint(e["operation"])))
		if sub, ok := e["subresource"]; ok && sub != "" {
			name += " " + fmt.Sprint(sub)
		}
		if v := strings.TrimPrefix(e["apiVersion"].(string), group); v != "v1" {
			name += " " + v
		}
		require.NotContains(t, owners, name, "two entries of one owner")
		paths := pathsOf(t, "", e["fieldsV1"].(map[string]any))
		sort.Strings(paths)
		owners[name] = paths
		times[name], _ = e["time"].(string)
	}
	return owners, times
}

// pathsOf lists the members of a set of fields. It does not use the package that encoded it.
func pathsOf(t testing.TB, prefix string, set map[string]any) []string {
	out := []string{}
	for name, below := range set {
		if name == "." {
			continue
		}
		path := prefix
		switch kind, rest, _ := strings.Cut(name, ":"); kind {
		case "f":
			path += "." + rest
		case "v":
			path += "[=" + rest + "]"
		case "k":
			tree, err := json.DecodeTree([]byte(rest), json.TreeOptions{})
			require.NoError(t, err)
			var keys []string
			for k, v := range tree.(map[string]any) {
				keys = append(keys, k+"="+print(v))
			}
			slices.Sort(keys)
			path += "[" + strings.Join(keys, ",") + "]"
		default:
			t.Fatalf("an element of another kind: %s", name)
		}
		children := below.(map[string]any)
		if _, self := children["."]; self || len(children) == 0 {
			out = append(out, path)
		}
		out = append(out, pathsOf(t, path, children)...)
	}
	return out
}

func print(tree any) string {
	text, err := json.AppendTree(nil, tree)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

const group = "example.dev/"

var widgetSchemas = map[string]*openapi.Schema{"v1": readWidget("size"), "v2": readWidget("length")}

// readWidget reads the schema of widgets. The field size may have another name.
func readWidget(size string) *openapi.Schema {
	data, err := os.ReadFile("testdata/widget.yaml")
	if err != nil {
		panic(err)
	}
	s, errs := openapi.FromTree(tree(strings.Replace(string(data), "size:", size+":", 1)))
	if len(errs) > 0 {
		panic(errs[0].String())
	}
	return s
}

func widgetSchema(t testing.TB, version string) *openapi.Schema {
	s := widgetSchemas[version]
	require.NotNil(t, s, version)
	return s
}

// widgetFields returns the rules of widgets: two versions, of which v2 calls the size length, and a
// status subresource.
func widgetFields(t testing.TB, options ...apply.Option) *apply.Fields {
	reach := map[string]apply.Reach{
		"":       {Except: []apply.Path{{"status"}}},
		"status": {Except: []apply.Path{{"metadata"}, {"spec"}}},
	}
	f, err := apply.New([]apply.Version{
		{APIVersion: group + "v1", Schema: widgetSchema(t, "v1"), Reach: reach},
		{APIVersion: group + "v2", Schema: widgetSchema(t, "v2"), Reach: reach},
	}, convertWidget, options...)
	require.NoError(t, err)
	return f
}

func convertWidget(tree map[string]any, to string) (map[string]any, error) {
	names := map[string]string{group + "v1": "size", group + "v2": "length"}
	out := json.Clone(tree).(map[string]any)
	from := names[tree["apiVersion"].(string)]
	out["apiVersion"] = to
	if spec, ok := out["spec"].(map[string]any); ok {
		if v, ok := spec[from]; ok {
			delete(spec, from)
			spec[names[to]] = v
		}
	}
	return out, nil
}

// object makes a whole widget from the fields in a scenario.
func object(version string, fields map[string]any) map[string]any {
	out := json.Clone(fields).(map[string]any)
	if out == nil {
		out = map[string]any{}
	}
	if _, ok := out["apiVersion"]; !ok {
		out["apiVersion"] = group + version
	}
	out["kind"] = "Widget"
	metadata, _ := out["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"] = "a"
	out["metadata"] = metadata
	return out
}

func entries(tree map[string]any) []any {
	metadata, _ := tree["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	return list
}

// withEntries returns a copy with managedFields, or without the field if there are no entries.
func withEntries(tree map[string]any, list []any) map[string]any {
	out := json.Clone(tree).(map[string]any)
	metadata, _ := out["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		out["metadata"] = metadata
	}
	delete(metadata, "managedFields")
	if list != nil {
		metadata["managedFields"] = list
	}
	return out
}

// mergePatch implements RFC 7386.
func mergePatch(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, _ := target.(map[string]any)
	out := map[string]any{}
	for k, v := range t {
		out[k] = v
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = mergePatch(out[k], v)
		}
	}
	return out
}
