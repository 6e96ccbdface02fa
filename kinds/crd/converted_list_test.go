package crd_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/kinds/crd"
)

// A list with an object that cannot be converted is answered with an error that says why, in every form, also if the
// conversions before it went well. It has not begun by then.
func TestCRD_19_AListWithAnObjectThatCannotBeConverted(t *testing.T) {
	h := newHook(t)
	srv := start(t, crd.Kinds())
	define(t, srv, h, "v1")
	padding := make([]byte, 1000)
	for i := range padding {
		padding[i] = 'a' + byte(i%26)
	}
	for i := range 400 {
		o := fixture(fmt.Sprintf("o%03d", i), "v1beta1")
		o["content"] = tree{"key": string(padding)}
		code, answer := call(t, srv, "POST", objects("v1beta1"), text(t, o))
		require.Equal(t, 201, code, "%v", answer)
	}
	for _, bad := range []string{"o000", "o399"} {
		h.convert(func(to string, o tree) (tree, error) {
			if o["metadata"].(tree)["name"] == bad {
				return nil, errors.New("no way")
			}
			return convertedTo(to, o)
		})
		for form, header := range map[string]http.Header{
			"plain":      {"Accept": {"application/json"}, "Accept-Encoding": {"identity"}},
			"compressed": {"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}},
			"a Table":    {"Accept": {"application/json;as=Table;v=v1;g=meta.k8s.io"}, "Accept-Encoding": {"gzip"}},
			"CBOR":       {"Accept": {"application/cbor, application/json"}, "Accept-Encoding": {"gzip"}},
			"YAML":       {"Accept": {"application/yaml, application/json"}, "Accept-Encoding": {"gzip"}},
		} {
			for _, query := range []string{"", "?pretty=true", "?limit=400", "?labelSelector=!none"} {
				t.Run(bad+" "+form+" "+query, func(t *testing.T) {
					r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+objects("v1beta2")+query, nil)
					require.NoError(t, err)
					r.Header = maps.Clone(header)
					answer, err := srv.Client().Do(r)
					require.NoError(t, err)
					body, err := io.ReadAll(answer.Body)
					require.NoError(t, err)
					require.NoError(t, answer.Body.Close())
					require.Equal(t, 500, answer.StatusCode)
					require.Contains(t, string(body), "no way")
					require.Empty(t, answer.Header.Get("Content-Encoding"))
				})
			}
		}
	}
	h.convert(convertedTo)
	r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+objects("v1beta2"), nil)
	require.NoError(t, err)
	r.Header.Set("Accept-Encoding", "gzip")
	answer, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(t, 200, answer.StatusCode)
	require.Equal(t, []string{"gzip"}, answer.Header["Content-Encoding"])
	require.Contains(t, answer.Header["Vary"], "Accept-Encoding")
	unpacked, err := gzip.NewReader(answer.Body)
	require.NoError(t, err)
	var list struct{ Items []tree }
	require.NoError(t, json.NewDecoder(unpacked).Decode(&list))
	require.Len(t, list.Items, 400)
}
