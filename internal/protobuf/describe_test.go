package protobuf

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

func TestPATH_19_MetaTypesHaveMessages(t *testing.T) {
	for _, v := range []any{meta.PartialObjectMetadata{}, meta.PartialObjectMetadataList{}, meta.Status{}, meta.DeleteOptions{}, &meta.Condition{}} {
		d, ok, err := Describe(reflect.TypeOf(v))
		require.NoError(t, err)
		require.Truef(t, ok, "%T", v)
		require.NotNil(t, d)
	}
}

func TestPATH_19_TypesWithoutTagsHaveNone(t *testing.T) {
	type untagged struct {
		Size int32 `json:"size"`
	}
	type halfTagged struct {
		meta.TypeMeta
		meta.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
		Spec            struct {
			Size int32 `json:"size" protobuf:"varint,1,opt,name=size"`
		} `json:"spec"`
	}
	type below struct {
		Parts map[string][]untagged `json:"parts" protobuf:"bytes,1,rep,name=parts"`
		List  []untagged            `json:"list" protobuf:"bytes,2,rep,name=list"`
	}
	for _, v := range []any{untagged{}, halfTagged{}, &below{}, meta.Table{}, struct{ meta.ObjectMeta }{}, struct{ shelf }{}} {
		_, ok, err := Describe(reflect.TypeOf(v))
		require.NoError(t, err)
		require.Falsef(t, ok, "%T", v)
	}
}

func TestDescribeRefuses(t *testing.T) {
	type self struct{ time.Time }
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"no struct": {0, "Go type int is not a struct"},
		"no number": {struct {
			X string `protobuf:"bytes"`
		}{}, `field X: tag protobuf:"bytes" has no number`},
		"number in words": {struct {
			X string `protobuf:"bytes,one,opt"`
		}{}, `field X: tag protobuf:"bytes,one,opt": "one" is not a valid field number`},
		"number 0": {struct {
			X string `protobuf:"bytes,0,opt"`
		}{}, `"0" is not a valid field number`},
		"number too great": {struct {
			X string `protobuf:"bytes,536870912,opt"`
		}{}, `"536870912" is not a valid field number`},
		"two of a number": {struct {
			X string `protobuf:"bytes,1,opt"`
			Y string `protobuf:"bytes,1,opt"`
		}{}, "two fields have number 1"},
		"numbers as strings": {struct {
			X int `json:"x,string" protobuf:"varint,1,opt"`
		}{}, "numbers in strings are not supported"},
		"an interface": {struct {
			X any `json:"x" protobuf:"bytes,1,opt"`
		}{}, "field X: a message cannot contain Go type interface {} here"},
		"a list of lists": {struct {
			X [][]string `json:"x" protobuf:"bytes,1,opt"`
		}{}, "a message cannot contain Go type []string here"},
		"a pointer to a map": {struct {
			X *map[string]string `json:"x" protobuf:"bytes,1,opt"`
		}{}, "a message cannot contain Go type map[string]string here"},
		"keys that are no strings": {struct {
			X map[int]string `json:"x" protobuf:"bytes,1,opt"`
		}{}, "keys of map[int]string must be strings"},
		"its own JSON": {struct {
			X self `json:"x" protobuf:"bytes,1,opt"`
		}{}, "has its own JSON methods, and its message format is unknown"},
		"its own JSON below": {struct {
			X []struct {
				Y self `json:"y" protobuf:"bytes,1,opt"`
			} `json:"x" protobuf:"bytes,1,opt"`
		}{}, "field Y: the Go type protobuf.self"},
		"an embedded list": {embeddedList{}, "embedded Go type protobuf.EmbeddedTexts is not a struct with fields"},
	} {
		t.Run(name, func(t *testing.T) {
			_, ok, err := Describe(reflect.TypeOf(c.value))
			require.False(t, ok)
			require.ErrorContains(t, err, c.want)
			require.True(t, strings.HasPrefix(err.Error(), "protobuf: "), err.Error())
			require.NotErrorIs(t, err, errUntagged)
		})
	}
}

func TestNamesAreUniqueAcrossEmbeddedStructs(t *testing.T) {
	text, tag := reflect.TypeFor[string](), func(tag string) reflect.StructTag { return reflect.StructTag(tag) }
	// go vet would reject this struct in source code.
	two := reflect.StructOf([]reflect.StructField{
		{Name: "X", Type: text, Tag: tag(`json:"x" protobuf:"bytes,1,opt"`)},
		{Name: "Y", Type: text, Tag: tag(`json:"x" protobuf:"bytes,2,opt"`)},
	})
	_, _, err := Describe(two)
	require.ErrorContains(t, err, `two fields have the JSON name "x"`)
	_, _, err = Describe(reflect.TypeFor[shadowing]())
	require.ErrorContains(t, err, `two fields have the JSON name "url"`)
}

type shadowing struct {
	Source `protobuf:"bytes,1,opt"`
	URL    string `json:"url" protobuf:"bytes,2,opt"`
}

// EmbeddedTexts is not a struct.
type EmbeddedTexts []string

type embeddedList struct {
	EmbeddedTexts `json:",inline" protobuf:"bytes,1,rep"`
}

func TestTypesThatContainThemselves(t *testing.T) {
	d := describe[leaf](t)
	message, err := d.AppendMessage(nil, []byte(`{"tree":{"label":"a","left":{}}}`))
	require.NoError(t, err)
	// The inner leaf contains a tree by value, which is written even if it is absent.
	require.Equal(t, "\x0a\x09"+"\x0a\x04"+"\x0a\x02\x12\x00"+"\x12\x01a", string(message))
	text, err := d.AppendJSON(nil, message, "", "", 1000)
	require.NoError(t, err)
	require.JSONEq(t, `{"tree":{"label":"a","left":{"tree":{"label":""}}}}`, string(text))
}
