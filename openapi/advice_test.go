package openapi_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/openapi"
)

// What would be accepted and then do something else than its author meant is refused, with what to
// write instead.
func TestFromType_RefusesWhatWouldSurprise(t *testing.T) {
	for _, c := range []struct {
		object any
		want   string
	}{
		{struct{ Every time.Duration }{}, `time.Duration would be a number of nanoseconds: use meta.Duration`},
		{struct{ Every *time.Duration }{}, `use meta.Duration`},
		{struct{ Sizes []uint64 }{}, `Go type uint64 has values that no API can hold: use uint32, or int64 with the tag minimum:"0"`},
		{struct{ Size uint }{}, `Go type uint has values`},
		{struct {
			Name string `validate:"required"`
		}{}, `tag validate:"required" has no effect here: write the rule with the tags of openapi.FromType`},
		{struct {
			Size int32 `kubebuilder:"validation:Minimum=1" doc:"The size."`
		}{}, `tag kubebuilder:"validation:Minimum=1" has no effect here`},
		{struct {
			Name string `binding:"required" column:"Name"`
		}{}, `tag binding:"required" has no effect`},
		{struct {
			Name string `json:"name,omitempy"` //nolint:staticcheck // the mistake
		}{}, `.name: tag json:"name,omitempy": did you mean omitempty?`},
		{one("Name", "", `json:"name, omitzero"`), `.name: tag json:"name, omitzero": did you mean omitzero?`},
		{struct {
			Spec struct{ Size int } `json:",inline"`
		}{}, `.Spec: tag json:",inline": encoding/json writes such a field under its own name: embed the type, or name the field`},
		{one("name", "example.com/here", `json:"name"`), `.name: tag json:"name" has no effect: the field is not exported`},
		{struct {
			size int32 `minimum:"1"`
		}{}, `.size: tag minimum:"1" has no effect: the field is not exported`},
		{struct {
			Size int32 `json:"-" minimum:"1"`
		}{}, `.Size: tag minimum:"1" has no effect: encoding/json leaves the field out`},
		{struct{ Size json.Number }{}, `Go type json.Number may be a number or text: use int64, float64, string or meta.RawJSON`},
	} {
		_, err := openapi.FromType(reflect.TypeOf(c.object))
		require.ErrorContains(t, err, c.want)
	}
	_, err := openapi.FromType(nil)
	require.EqualError(t, err, "openapi: FromType: the type is nil")
	_, err = openapi.FromType(reflect.TypeOf(struct {
		Name string `validate:"required" minLength:"1"`
		Size int32  `validate:"gt=0" minimum:"1"`
	}{}))
	require.NoError(t, err, "a rule of ours beside that of another library")
	_, err = openapi.FromType(reflect.TypeOf(struct {
		cache   map[string]int // no part of the API
		Derived int            `json:"-" doc:"Computed." yaml:"derived"`
		Spec    struct{ Size int }
		_       struct{} `rule:"self.Spec.Size > 0"`
	}{}))
	require.NoError(t, err, "fields that are left out on purpose")
}

// one returns a struct with one text field, whose mistake go vet would see in source text.
func one(name, pkg string, tag reflect.StructTag) any {
	field := reflect.StructField{Name: name, PkgPath: pkg, Type: reflect.TypeFor[string](), Tag: tag}
	return reflect.Zero(reflect.StructOf([]reflect.StructField{field})).Interface()
}

func TestTimesAreExplainedWithoutGo(t *testing.T) {
	s, err := openapi.FromType(reflect.TypeFor[struct {
		At time.Time `json:"at"`
	}]())
	require.NoError(t, err)
	problems := s.Validate(map[string]any{"at": "tomorrow"})
	require.Len(t, problems, 1)
	require.Equal(t, `at: Invalid value: "tomorrow": must be a time such as 2006-01-02T15:04:05Z`, problems[0].String())
}
