package openapi_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// Types that contain themselves in different ways.
type (
	loop    struct{ Next []loop }
	loopMap struct{ By map[string]*loopMap }

	rule struct {
		Kind  string           `json:"kind" enum:"all,any,leaf"`
		Of    []rule           `json:"of,omitempty" list:"map,key=kind" doc:"All of these."`
		Named map[string]*rule `json:"named,omitempty" doc:"By name."`
		Not   *rule            `json:"not,omitempty" doc:"The contrary."`
		Or    *orRule          `json:"or,omitempty"`
		Limit int32            `json:"limit,omitempty" default:"3"`
	}
	orRule struct {
		Left  *rule   `json:"left,omitempty" nullable:""`
		Right []*rule `json:"right,omitempty" maxItems:"2"`
	}
	Policy struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
		Spec            struct {
			Rule  rule   `json:"rule"`
			Again *rule  `json:"again,omitempty" doc:"Once more."`
			Owner string `json:"owner,omitempty" selectable:""`
		} `json:"spec"`
	}
)

func policy(t *testing.T) *openapi.Schema {
	s, err := openapi.FromType(reflect.TypeFor[Policy]())
	require.NoError(t, err)
	return s
}

func TestFromType_TypesContainThemselves(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[loop](), reflect.TypeFor[loopMap]()} {
		_, err := openapi.FromType(typ)
		require.NoError(t, err)
	}
	s := policy(t)
	deep := must(s.Lookup("spec", "rule", "not", "of", "[]", "or", "right", "[]", "named", "x", "or", "left"))
	require.Equal(t, openapi.String, must(deep.Lookup("kind")).Type)
	require.True(t, deep.Nullable)
	require.Equal(t, "The contrary.", must(deep.Lookup("not")).Description)
	require.Equal(t, []string{"kind"}, must(deep.Lookup("of")).ListMapKeys)
	require.Equal(t, []string{"spec.owner"}, s.SelectableFields())
	require.Empty(t, s.Columns())

	in := tree(t, `{"metadata":{"name":"p"},"spec":{"rule":{"kind":"all","x":1,"of":[{"kind":"any","y":1,"not":{"kind":"leaf","limit":7.0}}],
		"or":{"left":null,"right":[{"kind":"leaf","z":{}}]},"named":{"n":{"kind":"leaf","not":null}}}}}`)
	out, unknown := s.Prune(in)
	require.Equal(t, []string{"spec.rule.of[0].y", "spec.rule.or.right[0].z", "spec.rule.x"}, unknown)
	out, problems := s.Canonical(s.Default(out))
	require.Empty(t, problems)
	require.Equal(t, `{"metadata":{"name":"p"},"spec":{"rule":{"kind":"all","limit":3,"named":{"n":{"kind":"leaf","limit":3}},"of":[{"kind":"any","limit":3,"not":{"kind":"leaf","limit":7}}],`+
		`"or":{"left":null,"right":[{"kind":"leaf","limit":3}]}}}}`, encode(t, out))
	require.Empty(t, s.Validate(out))
	require.Equal(t, []string{
		`spec.rule.not.not.kind: Unsupported value: "some": supported values: "all", "any", "leaf"`,
		`spec.rule.not.of[1]: Duplicate value: {"kind":"leaf"}`,
		`spec.rule.not.or.right: Too many: 3: must have at most 2 items`,
	}, texts(s.Validate(tree(t, `{"spec":{"rule":{"kind":"all","not":{"kind":"all","not":{"kind":"some"},"of":[{"kind":"leaf"},{"kind":"leaf"}],
		"or":{"right":[{"kind":"leaf"},{"kind":"any"},{"kind":"leaf"}]}}}}}`))))
}

// The fingerprint of a recursive type is the same in every process, does not depend on other types,
// and changes with the meaning of the type.
func TestFingerprint_OfTypesThatContainThemselves(t *testing.T) {
	s := policy(t)
	require.NotZero(t, s.Fingerprint())
	require.Equal(t, s.Fingerprint(), policy(t).Fingerprint())
	var types openapi.Types
	_, err := types.Schema(reflect.TypeFor[orRule]())
	require.NoError(t, err)
	shared, err := types.Schema(reflect.TypeFor[Policy]())
	require.NoError(t, err)
	require.Equal(t, s.Fingerprint(), shared.Fingerprint(), "although the circle was entered elsewhere")

	changed, err := openapi.FromType(reflect.TypeFor[Policy](), openapi.WithOverlay(overlay(t, `"rule.limit": {"default": "4"}`)))
	require.NoError(t, err)
	require.NotEqual(t, s.Fingerprint(), changed.Fingerprint())
	described, err := openapi.FromType(reflect.TypeFor[Policy](), openapi.WithOverlay(overlay(t, `"rule.limit": {"doc": "Up to here."}`)))
	require.NoError(t, err)
	require.Equal(t, s.Fingerprint(), described.Fingerprint())
}

// Documents end a recursion with a reference.
func TestOAPI_04_TypesThatContainThemselvesAreReferences(t *testing.T) {
	d := document(policy(t))
	text, err := d.JSON()
	require.NoError(t, err)
	name := "com.github.kindwright.kindwright.openapi_test.rule"
	require.Contains(t, string(text), `"`+name+`":{`)
	require.Contains(t, string(text), `"not":{"allOf":[{"$ref":"#/components/schemas/`+name+`"}],"description":"The contrary."}`)
	require.Contains(t, string(text), `"left":{"allOf":[{"$ref":"#/components/schemas/`+name+`"}],"nullable":true}`)
	require.Less(t, len(text), 200_000)
	swagger, err := openapi.Swagger{Documents: []openapi.Document{d}}.JSON()
	require.NoError(t, err)
	require.Contains(t, string(swagger), `"not":{"$ref":"#/definitions/`+name+`","description":"The contrary."}`)
	message, err := openapi.Swagger{Documents: []openapi.Document{d}}.Protobuf()
	require.NoError(t, err)
	require.Contains(t, string(message), name)
}

// Tags that a recursive type cannot have are reported.
func TestFromType_BadTagsInCircles(t *testing.T) {
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[badSelectable](): `badSelectable.next: a type that contains itself cannot have selectable fields or columns`,
		reflect.TypeFor[badDefault]():    `badDefault.next.next: tag default:"{}": filling in the default requires the default itself`,
		reflect.TypeFor[badKey]():        `badKey.next[].next: tag list:"map,key=nome": items do not have this field`,
		reflect.TypeFor[badTag]():        `tag minimum:"1": the tag applies to type integer, but the field has type object`,
	} {
		_, err := openapi.FromType(typ)
		require.ErrorContains(t, err, want)
		var types openapi.Types
		for range 2 {
			_, err := types.Schema(typ)
			require.ErrorContains(t, err, want, "nothing is left of the first try")
		}
	}
}

type (
	badSelectable struct {
		Name string         `json:"name" selectable:""`
		Next *badSelectable `json:"next"`
	}
	badDefault struct {
		Next *badDefault `json:"next" default:"{}"`
	}
	badKey struct {
		Next []badKey `json:"next" list:"map,key=nome"`
	}
	badTag struct {
		Next *badTag `json:"next" minimum:"1"`
	}
)

// The schema of a recursive Go type can be part of a schema that is built by hand.
func TestNew_TakesTypesThatContainThemselves(t *testing.T) {
	s, err := openapi.New(&openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{{Name: "p", Schema: policy(t)}}})
	require.NoError(t, err)
	_, unknown := s.Prune(tree(t, `{"p":{"spec":{"rule":{"kind":"all","not":{"x":1}}}}}`))
	require.Equal(t, []string{"p.spec.rule.not.x"}, unknown)
}
