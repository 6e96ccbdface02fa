package openapi_test

import (
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
	} {
		_, err := openapi.FromType(reflect.TypeOf(c.object))
		require.ErrorContains(t, err, c.want)
	}
	_, err := openapi.FromType(reflect.TypeOf(struct {
		Name string `validate:"required" minLength:"1"`
		Size int32  `validate:"gt=0" minimum:"1"`
	}{}))
	require.NoError(t, err, "a rule of ours beside that of another library")
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
