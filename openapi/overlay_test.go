package openapi_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

const here = "github.com/kindwright/kindwright/openapi_test"

// overlay parses entries for types of this package.
func overlay(t *testing.T, entries string, more ...string) *openapi.Overlay {
	t.Helper()
	o, err := openapi.ParseOverlay([]byte(`{` + strings.Join(more, "") + `"types": {"` + here + `": {` + entries + `}}}`))
	require.NoError(t, err)
	return o
}

func TestFromType_Overlay(t *testing.T) {
	o := overlay(t, `"WidgetPart.tags": {"list": "atomic", "doc": "free"}, "WidgetSpec.size": {"maximum": "7", "minimum": "5", "optional": ""}`)
	s, err := openapi.FromType(reflect.TypeFor[Widget](), openapi.WithOverlay(o))
	require.NoError(t, err)
	tags := must(s.Lookup("spec", "parts", "[]", "tags"))
	require.Equal(t, openapi.ListAtomic, tags.ListType)
	require.Equal(t, "free", tags.Description)
	size := must(s.Lookup("spec", "size"))
	require.Equal(t, int64(5), size.Minimum)
	require.Equal(t, int64(7), size.Maximum)
	require.Equal(t, "How large it is.", size.Description)
	require.NotContains(t, must(s.Lookup("spec")).Required, "size")

	plain, err := openapi.FromType(reflect.TypeFor[Widget]())
	require.NoError(t, err)
	require.Equal(t, int64(1000), must(plain.Lookup("spec", "size")).Maximum)
}

// Entries of an overlay must refer to existing types and fields and have valid tags.
func TestFromType_OverlayProblems(t *testing.T) {
	for entries, want := range map[string]string{
		`"WidgetSpec.spek": {"doc": "x"}`:      `overlay: ` + here + `.WidgetSpec.spek: the type declares no field with this JSON name`,
		`"WidgetSpeck.size": {"doc": "x"}`:     `overlay: ` + here + `.WidgetSpeck: no kind uses this Go type`,
		`"Speck": {"doc": "x"}`:                `overlay: ` + here + `.Speck: no kind uses this Go type`,
		`"WidgetSpec.size": {"minimum": "x"}`:  `Widget.spec.size: tag minimum:"x"`,
		`"WidgetSpec.size": {"list": "set"}`:   `Widget.spec.size: tag list:"set": the tag applies to type array`,
		`"WidgetSpec": {"list": "atomic"}`:     `tag list:"atomic": the tag applies to type array, but the field has type object`,
		`"WidgetPart.count": {"default": "x"}`: `count: tag default:"x"`,
	} {
		_, err := openapi.FromType(reflect.TypeFor[Widget](), openapi.WithOverlay(overlay(t, entries)))
		require.ErrorContains(t, err, want)
	}
	shared := overlay(t, `"WidgetSpeck.size": {"doc": "x"}`, `"shared": true,`)
	_, err := openapi.FromType(reflect.TypeFor[Widget](), openapi.WithOverlay(shared))
	require.NoError(t, err, "it is for more kinds than this")
	shared = overlay(t, `"WidgetSpec.sighs": {"doc": "x"}`, `"shared": true,`)
	_, err = openapi.FromType(reflect.TypeFor[Widget](), openapi.WithOverlay(shared))
	require.ErrorContains(t, err, "WidgetSpec.sighs", "but not for other fields than these")
}

func TestParseOverlay_Strict(t *testing.T) {
	for document, want := range map[string]string{
		``:                              `invalid JSON`,
		`[]`:                            `overlay: must be an object`,
		`{"shared": 1}`:                 `overlay: shared: must be true or false`,
		`{"required": true}`:            `overlay: required: must be "tagged"`,
		`{"values": "checked"}`:         `overlay: values: must be "told"`,
		`{"type": {}}`:                  `overlay: type: not one of required, shared, types`,
		`{"types": []}`:                 `overlay: types: must be an object`,
		`{"types": {"p": []}}`:          `overlay: p: must be an object`,
		`{"types": {"p": {"T": "x"}}}`:  `overlay: p.T: must be an object of tags`,
		`{"types": {"p": {"T.f": {}}}}`: `overlay: p.T.f: must contain at least one tag`,
		`{"types": {"p": {".f": {}}}}`:  `overlay: p..f: must be Type or Type.field`,
		`{"types": {"": {"T": {}}}}`:    `must be Type or Type.field`,
		`{"types": {"p": {"T.f": {"minimum": 1}}}}`:                          `overlay: p.T.f: tag minimum: must be a string, as in a Go struct`,
		`{"types": {"p": {"T.f": {"minimun": "1"}}}}`:                        `overlay: p.T.f: unknown tag "minimun": did you mean minimum?`,
		`{"types": {"p": {"T.f": {"json": "x"}}}}`:                           `overlay: p.T.f: unknown tag "json"`,
		`{"types": {"p": {"T": {"required": ""}}}}`:                          `overlay: p.T: tag required: applies to fields, not to types`,
		`{"types": {"p": {"T.f": {"doc": "a", "doc": "b"}}}}`:                `doc`,
		`{"types": {"p": {"A.b": {"x": ""}, "C.d": {"y": ""}, "E": false}}}`: "overlay: p.A.b: unknown tag \"x\"\noverlay: p.C.d: unknown tag \"y\"\noverlay: p.E: must be",
	} {
		_, err := openapi.ParseOverlay([]byte(document))
		require.ErrorContains(t, err, want, document)
	}
}

type (
	colour string
	pair   struct {
		A string `json:"a"`
		B string `json:"b"`
	}
	base struct {
		Inner string `json:"inner"`
	}
	painted struct {
		base
		Walls map[string][]colour `json:"walls,omitempty"`
		Door  colour              `json:"door"`
		Pair  *pair               `json:"pair"`
		Pairs []pair              `json:"pairs"`
	}
)

// Tags of a type apply at every use. Fields of embedded structs belong to the struct that declares
// them.
func TestFromType_OverlayOfTypes(t *testing.T) {
	o := overlay(t, `"colour": {"enum": "red,blue"}, "pair": {"map": "atomic"}, "base.inner": {"default": "i"}, "painted.door": {"default": "red"}`)
	s, err := openapi.FromType(reflect.TypeFor[painted](), openapi.WithOverlay(o))
	require.NoError(t, err)
	require.Equal(t, []any{"red", "blue"}, must(s.Lookup("walls", "north", "[]")).Enum)
	require.Equal(t, []any{"red", "blue"}, must(s.Lookup("door")).Enum)
	require.Equal(t, openapi.MapAtomic, must(s.Lookup("pair")).MapType)
	require.Equal(t, openapi.MapAtomic, must(s.Lookup("pairs", "[]")).MapType)
	require.Equal(t, map[string]any{"inner": "i", "door": "red"}, s.Default(map[string]any{}))

	// An empty text is the default of a key in a list, and is not filled in; that of a definition of clients is.
	s, err = openapi.FromType(reflect.TypeFor[painted](), openapi.WithOverlay(overlay(t, `"painted.door": {"default": ""}`)))
	require.NoError(t, err)
	require.IsType(t, "", must(s.Lookup("door")).DefaultValue)
	require.Empty(t, s.Default(map[string]any{}))
	defined, errs := openapi.FromTree(tree(t, `{"type":"object","properties":{"door":{"type":"string","default":""}}}`))
	require.Empty(t, errs)
	require.Equal(t, map[string]any{"door": ""}, defined.Default(map[string]any{}))

	_, err = openapi.FromType(reflect.TypeFor[painted](), openapi.WithOverlay(overlay(t, `"colour.x": {"doc": "x"}`)))
	require.ErrorContains(t, err, "colour.x: the type has no JSON fields")
	_, err = openapi.FromType(reflect.TypeFor[painted](), openapi.WithOverlay(overlay(t, `"colour": {"enum": "red"}, "painted.door": {"default": "blue"}`)))
	require.ErrorContains(t, err, `painted.door: tag default:"blue": Unsupported value`)
}

// With "required": "tagged", fields that look required in Go are published as such but not
// enforced.
func TestFromType_OverlayExpects(t *testing.T) {
	o := overlay(t, `"painted.door": {"required": ""}, "painted.pair": {"optional": ""}, "painted.walls": {"expected": ""}`, `"required": "tagged",`)
	s, err := openapi.FromType(reflect.TypeFor[painted](), openapi.WithOverlay(o))
	require.NoError(t, err)
	require.Equal(t, []string{"door"}, s.Required)
	require.Equal(t, []string{"inner", "walls", "pairs"}, s.Expected)
	require.Equal(t, []string{"door: Required value"}, texts(s.Validate(map[string]any{})))
}

// With "values": "told", enumerations and list keys are published but not enforced.
func TestFromType_OverlayTells(t *testing.T) {
	type house struct {
		Parts   []WidgetPart `json:"parts,omitempty"`
		Painted *painted     `json:"painted,omitempty"`
	}
	const entries = `"house.parts": {"list": "map,key=name"}, "WidgetPart.name": {"required": ""}, "colour": {"enum": "red,blue"}`
	object := map[string]any{
		"parts":   []any{map[string]any{"name": "wheel"}, map[string]any{"name": "wheel"}},
		"painted": map[string]any{"door": "green", "pairs": []any{}, "walls": map[string]any{}, "inner": "i"},
	}
	insisting, err := openapi.FromType(reflect.TypeFor[house](), openapi.WithOverlay(overlay(t, entries, `"required": "tagged",`)))
	require.NoError(t, err)
	require.Equal(t, []string{`painted.door: Unsupported value: "green": supported values: "red", "blue"`, `parts[1]: Duplicate value: {"name":"wheel"}`}, texts(insisting.Validate(object)))
	telling, err := openapi.FromType(reflect.TypeFor[house](), openapi.WithOverlay(overlay(t, entries, `"required": "tagged", "values": "told",`)))
	require.NoError(t, err)
	require.Empty(t, telling.Validate(object))
	require.Equal(t, []any{"red", "blue"}, must(telling.Lookup("painted", "door")).Enum)
	require.Equal(t, openapi.ListMap, must(telling.Lookup("parts")).ListType)
}

// One Types value serves many kinds and reports types that none of them uses.
func TestTypes_SharesWhatKindsHaveInCommon(t *testing.T) {
	type First struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
		Spec            painted `json:"spec"`
	}
	type Second struct {
		Of    painted `json:"of"`
		Other pair    `json:"other"`
	}
	var types openapi.Types
	o := overlay(t, `"pair": {"map": "atomic"}, "hedge.name": {"doc": "n"}`)
	first, err := types.Schema(reflect.TypeFor[First](), openapi.WithOverlay(o))
	require.NoError(t, err)
	second, err := types.Schema(reflect.TypeFor[*Second](), openapi.WithOverlay(o))
	require.NoError(t, err)
	require.Same(t, must(first.Lookup("spec")), must(second.Lookup("of")))
	require.ErrorContains(t, types.Unused(), "hedge: no kind uses this Go type")

	plain, err := types.Schema(reflect.TypeFor[Second]())
	require.NoError(t, err)
	require.Empty(t, must(plain.Lookup("other")).MapType, "without an overlay a type is another")

	_, err = types.Schema(reflect.TypeFor[struct {
		P painted   `json:"p"`
		X chan bool `json:"x"`
	}]())
	require.ErrorContains(t, err, "has no JSON form")
	_, err = types.Schema(reflect.TypeFor[hedge](), openapi.WithOverlay(o))
	require.NoError(t, err)
	require.NoError(t, types.Unused())
	_, err = types.Schema(reflect.TypeFor[string]())
	require.ErrorContains(t, err, "is not a struct")
}

// Any tags on any field, also of a recursive type, either cause an error or result in a schema that
// works.
func TestFromType_AnyTagAnywhere(t *testing.T) {
	keywords := []string{
		"doc", "preserveUnknown", "embedded", "nullable", "format", "enum", "minimum", "maximum", "exclusiveMinimum", "multipleOf", "minLength", "pattern",
		"minItems", "maxProperties", "list", "map", "default", "selectable", "column", "required", "optional", "expected", "patchStrategy", "patchMergeKey",
	}
	values := []string{"", "x", "1", "-1", "map,key=kind", "map,key=of", "set", "atomic", "{}", `{\"of\":[{}]}`, "[]", "null", "true", "(", "merge"}
	places := []string{"rule", "orRule", "rule.kind", "rule.of", "rule.named", "rule.not", "rule.or", "orRule.left", "orRule.right"}
	object := tree(t, `{"spec":{"rule":{"kind":"all","not":{"of":[{"kind":"leaf"},{"kind":"any","named":{"x":{}}}],"or":{"left":{"kind":"all"},"right":[{},{"limit":2}]}}}}}`)
	made, refused := 0, 0
	for _, keyword := range keywords {
		for _, value := range values {
			for _, place := range places[:effort.Of(len(places))] {
				o, err := openapi.ParseOverlay([]byte(`{"types": {"` + here + `": {"` + place + `": {"` + keyword + `": "` + value + `"}}}}`))
				if err != nil {
					refused++
					continue
				}
				s, err := openapi.FromType(reflect.TypeFor[Policy](), openapi.WithOverlay(o))
				if err != nil {
					refused++
					continue
				}
				made++
				full, _ := s.Canonical(s.Default(object))
				s.Prune(full)
				s.Validate(full)
				require.NotZero(t, s.Fingerprint())
				s.Columns()
				_, err = document(s).JSON()
				require.NoError(t, err, "%s %s %s", place, keyword, value)
			}
		}
	}
	require.Greater(t, made, effort.Of(500))
	require.Greater(t, refused, effort.Of(500))
}
