package shape_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/bench/shape"
)

func shapes() []shape.Shape { return []shape.Shape{shape.ConfigMap(), shape.Gadget()} }

func TestBodiesAreObjectsOfOneKiB(t *testing.T) {
	for _, s := range shapes() {
		t.Run(s.Name, func(t *testing.T) {
			body := s.Body.Append(nil, shape.Values{Name: "l-000123", Namespace: "n", Index: 123, Seq: 1234567890})
			assert.InDelta(t, 1024, len(body), 8, "%s", body)
			var object struct {
				APIVersion, Kind string
				Metadata         struct {
					Name, ResourceVersion string
					Labels                map[string]string
				}
			}
			require.NoError(t, json.Unmarshal(body, &object))
			assert.Equal(t, "l-000123", object.Metadata.Name)
			assert.Equal(t, "b23", object.Metadata.Labels["bucket"])
			assert.Empty(t, object.Metadata.ResourceVersion)
			require.NoError(t, json.Unmarshal(s.Body.Append(nil, shape.Values{Version: "17"}), &object))
			assert.Equal(t, "17", object.Metadata.ResourceVersion)
			assert.True(t, json.Valid(s.Patch.Append(nil, shape.Values{Seq: 4})))
			assert.True(t, s.Definition == nil || json.Valid(s.Definition))
			named, err := shape.Named(s.Name)
			require.NoError(t, err)
			assert.Equal(t, s.In("x"), named.In("x"))
		})
	}
	_, err := shape.Named("nosuch")
	require.ErrorContains(t, err, "nosuch")
}

func TestTextIsOfEachObjectAndCompresses(t *testing.T) {
	body := shape.ConfigMap().Body
	require.Equal(t, body.Append(nil, shape.Values{Index: 4}), body.Append(nil, shape.Values{Index: 4}))
	require.NotEqual(t, body.Append(nil, shape.Values{Index: 4}), body.Append(nil, shape.Values{Index: 104}))
	var plain []byte
	for i := range 1000 {
		plain = body.Append(plain, shape.Values{Name: fmt.Sprint(i), Index: i})
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	require.NoError(t, err)
	_, err = z.Write(plain)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	ratio := float64(len(plain)) / float64(packed.Len())
	assert.Greater(t, ratio, 2.0)
	assert.Less(t, ratio, 6.0, "as configuration does, not as one object repeated")
}

func TestPlaceholders(t *testing.T) {
	text, err := shape.Parse("${name}|${namespace}|${index}|${bucket}|${seq}|${version}|${text:3}${text:0}|$ {}")
	require.NoError(t, err)
	got := string(text.Append([]byte("> "), shape.Values{Name: "a", Namespace: "b", Index: 307, Seq: -2, Version: "9"}))
	assert.Regexp(t, `^> a\|b\|307\|7\|-2\|"resourceVersion":"9",\|[a-z ]{3}\|\$ \{\}$`, got)
	for _, bad := range []string{"${", "${name", "${nosuch}", "${text}", "${text:x}", "${text:-1}", "${text:9999999999}", "${}"} {
		_, err := shape.Parse(bad)
		require.ErrorContains(t, err, "template", bad)
	}
}

func TestShapeFromTemplates(t *testing.T) {
	s, err := shape.Make("things", "/apis/a/v1/namespaces/${namespace}/things", "${name}\n", "{}")
	require.NoError(t, err)
	assert.Equal(t, "/apis/a/v1/namespaces/x/things", s.In("x"))
	assert.Equal(t, "n", string(s.Body.Append(nil, shape.Values{Name: "n"})))
	for want, args := range map[string][3]string{
		"collection": {"/apis/a/v1/things", "", ""},
		"body":       {"/${namespace}", "${x}", ""},
		"patch":      {"/${namespace}", "", "${x}"},
	} {
		_, err := shape.Make("things", args[0], args[1], args[2])
		require.ErrorContains(t, err, want)
	}
	_, err = shape.Make("things", "no/${namespace}", "", "")
	require.ErrorContains(t, err, "path")
}
