package conformance

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

const cratePath = "/apis/shop.example.com/v1/namespaces/default/crates"

// Crate has one field of every kind that is defaulted, merged, or checked in its own way.
type Crate struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec   CrateSpec   `json:"spec,omitzero"`
	Status CrateStatus `json:"status,omitzero"`
}

// CrateSpec is the desired state of a crate.
type CrateSpec struct {
	Color    string            `json:"color,omitempty" default:"blue" enum:"red,green,blue"`
	Size     int32             `json:"size,omitempty" minimum:"1" maximum:"1000"`
	Weight   int64             `json:"weight,omitempty"`
	Load     float64           `json:"load,omitempty"`
	Owner    string            `json:"owner,omitempty" maxLength:"10" pattern:"^[a-z]*$"`
	Text     string            `json:"text,omitempty"`
	Parts    []Part            `json:"parts,omitempty" list:"map,key=name"`
	Ports    []Port            `json:"ports,omitempty" list:"map,key=port,key=protocol"`
	Tags     []string          `json:"tags,omitempty" list:"set"`
	Lines    []string          `json:"lines,omitempty"`
	Notes    map[string]string `json:"notes,omitempty"`
	Fixed    map[string]string `json:"fixed,omitempty" map:"atomic"`
	Optional *bool             `json:"optional,omitempty"`
	Null     *string           `json:"null,omitempty" nullable:""`
}

// Part is an item with a key.
type Part struct {
	Name  string   `json:"name"`
	Count int32    `json:"count,omitempty" default:"1"`
	Tags  []string `json:"tags,omitempty" list:"set"`
}

// Port is an item with two keys, one of which has a default.
type Port struct {
	Port     int32  `json:"port"`
	Protocol string `json:"protocol,omitempty" default:"TCP"`
	Name     string `json:"name,omitempty"`
}

// CrateStatus is the observed state of a crate.
type CrateStatus struct {
	Phase      string      `json:"phase,omitempty"`
	Conditions []Condition `json:"conditions,omitempty" list:"map,key=type"`
}

// Condition is one condition of a crate.
type Condition struct {
	Type   string `json:"type"`
	Status string `json:"status,omitempty"`
}

func crates() registry.Kind[Crate] {
	return registry.Kind[Crate]{Group: group, Version: "v1", Plural: "crates"}
}

// onCrates is onEach with crates.
func onCrates(t *testing.T, test func(t *testing.T, s *server), opts ...kindwright.Option) {
	t.Helper()
	onEach(t, test, append([]kindwright.Option{kindwright.Serve(crates())}, opts...)...)
}

func crateJSON(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":%q},"spec":{%s}}`, name, spec)
}

func (s *server) crate(name, spec string) *answer {
	s.t.Helper()
	return s.create(cratePath, crateJSON(name, spec))
}

// untouched requires that the requests in between change nothing: neither the collection nor the
// revision of the store.
func (s *server) untouched(path string, meanwhile func()) {
	s.t.Helper()
	before := s.get(path).is(200)
	meanwhile()
	require.Equal(s.t, string(before.body), string(s.get(path).is(200).body), "%s has changed", path)
}

// refuses requires that a write is rejected and changes nothing in its collection.
func (s *server) refuses(method, path, body, contentType string, code int, reason, text string) *answer {
	s.t.Helper()
	collection, _, _ := strings.Cut(path, "?")
	if method != "POST" {
		collection = collection[:strings.Index(collection, "/crates")+len("/crates")]
	}
	var got *answer
	s.untouched(collection, func() {
		got = s.do(method, path, body, "Content-Type", contentType).refused(code, reason, text)
	})
	return got
}

const jsonType = "application/json"

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestCREATE_01_TheStoredObjectIsReturned(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		empty := s.get(cratePath).version()
		got := s.crate("a", `"size":3,"parts":[{"name":"x"}]`)
		require.Equal(t, "Crate", got.at("kind"))
		require.Equal(t, "shop.example.com/v1", got.at("apiVersion"))
		require.Regexp(t, uuid, got.at("metadata", "uid"))
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, got.at("metadata", "creationTimestamp"))
		require.Equal(t, "blue", got.at("spec", "color"), "with defaults")
		require.InDelta(t, 1, at(got.at("spec", "parts").([]any)[0], "count"), 0, "in lists too")
		require.Equal(t, string(got.body), string(s.get(cratePath+"/a").is(200).body), "byte for byte")
		require.Equal(t, got.version(), s.get(cratePath).version())
		require.Equal(t, got.doc, s.get(cratePath).items()[0])
		w := s.watch(cratePath + "?watch=1&resourceVersion=" + empty)
		require.Equal(t, got.doc, w.expect("ADDED", "a").object)
	})
}

func TestCREATE_02_READ_20_TheAnswerIs201(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for path, body := range map[string]string{
			widgetPath:                 widgetJSON("a", "", "red", 1),
			widgetPath + "?dryRun=All": widgetJSON("b", "", "red", 1),
			zonePath:                   `{"metadata":{"generateName":"z-"}}`,
			zonePath + "?pretty=true":  `{"metadata":{"name":"z"}}`,
			"/api/v1/namespaces":       `{"metadata":{"name":"n"}}`,
			gauge2Path:                 `{"metadata":{"name":"g"},"depth":"1"}`,
			"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": `{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`,
		} {
			got := s.create(path, body)
			require.NotEqual(t, "Status", got.at("kind"), "%s", got)
		}
	})
}

func TestCREATE_03_ASecondCreateOfANameChangesNothing(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", `"size":3`)
		for _, query := range []string{"", "?dryRun=All", "?fieldManager=other"} {
			got := s.refuses("POST", cratePath+query, crateJSON("a", `"size":4`), jsonType, 409, "AlreadyExists", `crates.shop.example.com "a" already exists`)
			require.Equal(t, map[string]any{"name": "a", "group": group, "kind": "crates"}, got.at("details"))
		}
		// Validation errors come first: the name is only looked up later.
		s.refuses("POST", cratePath, crateJSON("a", `"size":0`), jsonType, 422, "Invalid", "spec.size")
	})
}

// Of concurrent creates of one name, exactly one succeeds.
func TestCREATE_03_OneOfManyWins(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		var wg sync.WaitGroup
		codes := make([]int, 20)
		for i := range codes {
			wg.Go(func() { codes[i] = s.do("POST", cratePath, crateJSON("a", fmt.Sprintf(`"size":%d`, i+1))).code })
		}
		wg.Wait()
		slices.Sort(codes)
		require.Equal(t, append([]int{201}, slices.Repeat([]int{409}, len(codes)-1)...), codes)
		require.Len(t, s.get(cratePath).items(), 1)
	})
}

func TestCREATE_04_P8_KindAndVersionOfTheBody(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		n := 0
		for _, head := range []string{``, `"kind":"Crate",`, `"apiVersion":"shop.example.com/v1",`, `"kind":"","apiVersion":"",`, `"kind":null,`} {
			n++
			got := s.create(cratePath, fmt.Sprintf(`{%s"metadata":{"name":"c%d"}}`, head, n))
			require.Equal(t, "Crate", got.at("kind"))
			require.Equal(t, "shop.example.com/v1", got.at("apiVersion"))
		}
		for head, texts := range map[string][]string{
			`"kind":"Widget"`: {`"Widget"`, "Crate"}, `"kind":"crate"`: {`"crate"`, "Crate"}, `"kind":"CrateList","items":[]`: {`"CrateList"`},
			`"apiVersion":"shop.example.com/v2"`: {`"shop.example.com/v2"`, "shop.example.com/v1"}, `"apiVersion":"v1"`: {`"v1"`},
			`"apiVersion":"other.example.com/v1","kind":"Crate"`: {`"other.example.com/v1"`}, `"kind":7`: {"Crate"}, `"apiVersion":{}`: {"shop.example.com/v1"},
			`"kind":"Crate","apiVersion":" shop.example.com/v1"`: {"shop.example.com/v1"},
		} {
			for _, query := range []string{"", "?dryRun=All", "?fieldValidation=Ignore"} {
				got := s.refuses("POST", cratePath+query, `{`+head+`,"metadata":{"name":"x"}}`, jsonType, 400, "BadRequest", "")
				for _, text := range texts {
					require.Contains(t, got.text("message"), text)
				}
			}
			s.refuses("PUT", cratePath+"/c1", `{`+head+`,"metadata":{"name":"c1"}}`, jsonType, 400, "BadRequest", texts[0])
		}
	})
}

func TestCREATE_05_B9_B17_UnsupportedMediaTypes(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		good := crateJSON("a", `"size":3`)
		for _, contentType := range []string{
			"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=utf-16",
			"application/cbor", "application/merge-patch+json", "application/json, application/yaml", "json", "/", "application/jsonx", "x;y;z",
		} {
			got := s.refuses("POST", cratePath, good, contentType, 415, "UnsupportedMediaType", "application/json")
			require.Contains(t, got.text("message"), "application/yaml", "what is accepted is listed")
		}
		for _, accept := range []string{"image/png", "text/plain", "application/json;q=0", "application/cbor"} {
			s.untouched(cratePath, func() {
				s.do("POST", cratePath, good, "Accept", accept).refused(406, "NotAcceptable", "application/json")
			})
		}
		for what, body := range map[string]string{
			"cut": good[:len(good)-1], "two": good + good, "more": good + " x", "list": "[" + good + "]", "null": "null", "text": `"x"`, "number": "7", "nothing": " ",
			"blanks": strings.Repeat(" ", 2<<20), "mark": "\xef\xbb\xbf" + good, "yaml": "kind: Crate", "comment": "{} // x", "quotes": "{'a':1}", "comma": `{"a":1,}`,
			"bytes": crateJSON("a", "\"owner\":\"\xff\xfe\""), "overlong": crateJSON("a", "\"owner\":\"\xc0\x80\""), "newline": "{\"a\":\"\n\"}",
			"NaN": crateJSON("a", `"load":NaN`), "nul": "{}\x00", "depth": strings.Repeat("[", 100000), "objects": strings.Repeat(`{"a":`, 100000),
			"deep but closed": `{"metadata":{"name":"a"},"x":` + strings.Repeat("[", 50000) + strings.Repeat("]", 50000) + `}`,
			"metadata":        `{"metadata":[]}`, "metadata text": `{"metadata":"a"}`,
		} {
			var got *answer
			s.untouched(cratePath, func() { got = s.do("POST", cratePath, body) })
			require.Equal(t, 400, got.code, "%s: %s", what, got)
			got.refused(400, "BadRequest", "")
			require.Less(t, len(got.body), 2<<10, "%s", what)
		}
		require.Empty(t, s.get(cratePath).items())
		s.do("POST", cratePath, good, "Content-Type", "application/json; charset=utf-8").is(201)
		s.do("POST", cratePath, "metadata:\n  name: b\nspec:\n  size: 4\n", "Content-Type", "application/yaml").is(201)
		require.InDelta(t, 4, s.get(cratePath+"/b").at("spec", "size"), 0)
	})
}

// The order of the steps of a create, and what each of them sees.
func TestCREATE_06_RULE_20_TheOrderOfSteps(t *testing.T) {
	var seen []string
	note := func(what string, color, owner any) { seen = append(seen, fmt.Sprint(what, " ", color, " ", owner)) }
	kind := crates()
	kind.Plural, kind.Names.Kind = "boxes", "Box"
	kind.Rules.Default = func(_ context.Context, c *Crate) {
		note("default", c.Spec.Color, c.Spec.Owner)
		if c.Spec.Owner == "" {
			c.Spec.Owner = "nobody"
		}
	}
	kind.Rules.Validate = func(_ context.Context, c *Crate, f *status.Fields) {
		note("validate", c.Spec.Color, c.Spec.Owner)
		if c.Spec.Text == "bad" {
			f.At("spec", "text").Invalid("bad", "must be good")
			f.At("spec", "lines").Required("text needs lines")
		}
	}
	plugin := admission.Plugin{
		Name: "both",
		Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
			note("mutate", at(r.Object, "spec", "color"), at(r.Object, "spec", "owner"))
			require.Nil(t, at(r.Object, "metadata", "uid"), "metadata is set later")
			return admission.Patched(r, admission.Set("green", "spec", "color"))
		}),
		Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			note("admit", at(r.Object, "spec", "color"), at(r.Object, "spec", "owner"))
			require.NotNil(t, at(r.Object, "metadata", "uid"), "exactly what is stored")
			return nil
		}),
	}
	const path = "/apis/shop.example.com/v1/namespaces/default/boxes"
	onEach(t, func(t *testing.T, s *server) {
		seen = nil
		got := s.create(path, `{"metadata":{"name":"a"},"spec":{}}`)
		require.Equal(t, []string{"default blue ", "mutate blue nobody", "default green nobody", "validate green nobody", "admit green nobody"}, seen)
		require.Equal(t, "green", got.at("spec", "color"))
		seen = nil
		s.untouched(path, func() {
			refusal := s.do("POST", path, `{"metadata":{"name":"A_","labels":{"-":"x"}},"spec":{"size":2000,"text":"bad","tags":["x","x"]}}`).refused(422, "Invalid", `Box.shop.example.com "A_" is invalid`)
			refusal.because("FieldValueInvalid", "metadata.name", "").because("FieldValueInvalid", "metadata.labels", "").
				because("FieldValueInvalid", "spec.size", "1000").because("FieldValueDuplicate", "spec.tags[1]", "").
				because("FieldValueInvalid", "spec.text", "must be good").because("FieldValueRequired", "spec.lines", "text needs lines")
			require.Len(t, refusal.at("details", "causes"), 6, "one cause for each error, and every error at once")
		})
		require.NotContains(t, strings.Join(seen, ","), "admit", "invalid objects never reach admission")
	}, kindwright.Serve(kind), kindwright.Admit(plugin))
}

// Objects added by a Default hook get their own defaults in the same write.
func TestUPDATE_09_ADefaultHookThatAddsAnObject(t *testing.T) {
	kind := crates()
	kind.Rules.Default = func(_ context.Context, c *Crate) {
		if c.Spec.Owner == "" {
			c.Spec.Owner = "nobody"
		}
	}
	onEach(t, func(t *testing.T, s *server) {
		got := s.create(cratePath, `{"metadata":{"name":"a"}}`)
		require.Equal(t, "nobody", got.at("spec", "owner"))
		require.Equal(t, "blue", got.at("spec", "color"))
		require.Equal(t, got.version(), s.do("PUT", cratePath+"/a", string(got.body)).is(200).version())
	}, kindwright.Serve(kind))
}

func TestCREATE_07_LIM_19_B4_TheLimitOfABody(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		const limit = 3 << 20
		whole := crateJSON("a", "")
		s.create(cratePath, whole+strings.Repeat(" ", limit-len(whole)))
		put := crateJSON("a", `"size":9`)
		for _, size := range []int{limit + 1, 4 << 20} {
			s.refuses("POST", cratePath, crateJSON("b", "")+strings.Repeat(" ", size-len(crateJSON("b", ""))), jsonType, 413, "RequestEntityTooLarge", "limit is 3145728")
			s.refuses("PUT", cratePath+"/a", put+strings.Repeat(" ", size-len(put)), jsonType, 413, "RequestEntityTooLarge", "limit is 3145728")
			for _, contentType := range []string{"application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"} {
				s.refuses("PATCH", cratePath+"/a?fieldManager=m", "{}"+strings.Repeat(" ", size-2), contentType, 413, "RequestEntityTooLarge", "limit is 3145728")
			}
		}
	})
}

func TestB14_META_17_META_18_ClientsCannotSetServerFields(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		const mine = `"uid":"11111111-2222-4333-8444-555555555555","creationTimestamp":"1999-01-01T00:00:00Z","generation":99,"selfLink":"/x",` +
			`"deletionTimestamp":"1999-01-01T00:00:00Z","deletionGracePeriodSeconds":5`
		for _, query := range []string{"?dryRun=All", ""} {
			got := s.create(cratePath+query, `{"metadata":{"name":"a",`+mine+`}}`)
			require.Regexp(t, uuid, got.at("metadata", "uid"))
			require.NotContains(t, got.text("metadata", "uid"), "11111111")
			require.NotContains(t, got.text("metadata", "creationTimestamp"), "1999")
			require.InDelta(t, 1, got.at("metadata", "generation"), 0)
			for _, field := range []string{"selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"} {
				require.Nil(t, got.at("metadata", field), field)
			}
		}
		for _, version := range []string{`"5"`, `"0"`, `5`} {
			s.refuses("POST", cratePath, `{"metadata":{"name":"b","resourceVersion":`+version+`}}`, jsonType, 400, "BadRequest", "resourceVersion")
		}
		s.refuses("POST", cratePath, `{"metadata":{"name":"b","resourceVersion":"5"}}`, jsonType, 400, "BadRequest", "resourceVersion should not be set on objects to be created")
		s.create(cratePath, `{"metadata":{"name":"b","resourceVersion":""}}`)
		got := s.create(cratePath, `{"metadata":{"name":"c","resourceVersion":"x"}}`)
		require.NotEqual(t, "x", got.version(), "what is no version says nothing, as in Kubernetes")
	})
}

func TestB6_B7_B8_ValuesArriveUnchangedOrAreRejected(t *testing.T) {
	var admitted []byte
	spy := admission.Plugin{Name: "spy", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		admitted = fmt.Append(nil, at(r.Object, "spec"))
		return nil
	})}
	onCrates(t, func(t *testing.T, s *server) {
		n := 0
		for sent, stored := range map[string]string{
			`"weight":9223372036854775807`: `"weight":9223372036854775807`, `"weight":-9223372036854775808`: `"weight":-9223372036854775808`,
			`"weight":9007199254740993`: `"weight":9007199254740993`, `"weight":-0`: `"weight":0`, `"weight":1.0`: `"weight":1`, `"weight":1E2`: `"weight":100`,
			`"load":0.1`: `"load":0.1`, `"load":1e300`: `"load":1e+300`, `"load":1.0`: `"load":1`, `"load":0.30000000000000004`: `"load":0.30000000000000004`,
			`"text":"\ud83d\ude00"`: `"text":"😀"`, `"text":"\u0000"`: `"text":"\u0000"`, `"text":"\u2028<&>"`: "\"text\":\"\u2028<&>\"", `"notes":{"a/b~c d":"x"}`: `"notes":{"a/b~c d":"x"}`,
			`"weight":1,"weight":2`: `"weight":2`, `"notes":{"a":"1","a":"2"}`: `"notes":{"a":"2"}`, `"optional":false`: `"optional":false`, `"null":null`: `"null":null`,
			`"notes":{}`: `"notes":{}`, `"lines":[]`: `"lines":[]`, `"optional":null`: ``, `"text":""`: `"text":""`,
		} {
			n++
			got := s.do("POST", cratePath, crateJSON(fmt.Sprint("c", n), sent)).is(201)
			require.Contains(t, string(got.body), stored, "%s", sent)
			require.Equal(t, string(got.body), string(s.get(cratePath+fmt.Sprint("/c", n)).body))
			if strings.Contains(sent, `1,"weight":2`) {
				require.Contains(t, string(admitted), "weight:2", "admission sees what is stored")
				require.Equal(t, []string{`299 - "duplicate field \"spec.weight\""`}, got.header.Values("Warning"))
			}
			version := got.version()
			require.Equal(t, version, s.do("PUT", cratePath+fmt.Sprint("/c", n), string(got.body)).is(200).version(), "sent back, it changes nothing: %s", sent)
		}
		for sent, field := range map[string]string{
			`"weight":9223372036854775808`: "", `"weight":1e400`: "", `"weight":1.5`: "spec.weight", `"size":2147483648`: "spec.size", `"weight":"1"`: "spec.weight",
			`"load":"x"`: "spec.load", `"optional":"true"`: "spec.optional", `"optional":1`: "spec.optional", `"text":1`: "spec.text", `"text":{}`: "spec.text",
			`"notes":{"a":1}`: "spec.notes", `"notes":[]`: "spec.notes", `"lines":{}`: "spec.lines", `"lines":[1]`: "spec.lines[0]", `"parts":[null]`: "spec.parts[0]",
			`"text":"\ud800"`: "", `"load":` + strings.Repeat("1", 1<<20): "",
		} {
			var got *answer
			s.untouched(cratePath, func() { got = s.do("POST", cratePath, crateJSON("x", sent)) })
			if len(sent) > 100 {
				sent = sent[:100]
			}
			require.Contains(t, []int{400, 422}, got.code, "%s: %s", sent, got)
			require.Contains(t, got.text("message"), field, "%s", sent)
			if got.code == 422 {
				require.Contains(t, at(got.at("details", "causes").([]any)[0], "field"), field, "%s", sent)
			}
		}
	}, kindwright.Admit(spy))
}

func TestCREATE_UsersNeedTheRight(t *testing.T) {
	readers := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Verb == "create" {
			return authz.NoOpinion, "", nil
		}
		return authz.Allow, "", nil
	})
	onCrates(t, func(t *testing.T, s *server) {
		for _, query := range []string{"", "?dryRun=All"} { // DRY-05
			s.untouched(cratePath, func() {
				s.do("POST", cratePath+query, crateJSON("a", ""), "X-User", "bob", "X-Groups", "").refused(403, "Forbidden", `cannot create resource "crates"`)
				// A user without the right learns neither whether an object is valid nor whether
				// its name exists.
				s.do("POST", cratePath+query, `{`, "X-User", "bob", "X-Groups", "").refused(403, "Forbidden", "")
			})
		}
	}, kindwright.Authorize(readers))
}
