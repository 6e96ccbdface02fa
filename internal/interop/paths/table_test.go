package paths

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
)

const typed = `{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"n":{"type":"integer"},"f":{"type":"number"},"yes":{"type":"boolean"},
"text":{"type":"string"},"none":{"type":"string","nullable":true},"list":{"type":"array","items":{"type":"integer"}}}}`

// Random columns have the cells that apiextensions-apiserver gives them, with a schema that says what
// the fields are and with one that does not.
func TestCRD_18_CellsAreThoseOfApiextensions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var columns []apiextensionsv1.CustomResourceColumnDefinition
	for len(columns) < 600 {
		path := random(r)
		if len(columns) < len(written) {
			path = written[len(columns)]
		}
		// Wildcards over objects go by the order of a Go map there; bad paths end the table.
		if strings.Contains(path, "*") || strings.Contains(path, "..") || strings.Contains(path, "range") || ask(t, "{"+path+"}", map[string]any{}).Bad {
			path = ".spec.text"
		}
		if !strings.HasPrefix(path, ".") || strings.ToValidUTF8(path, "") != path {
			path = ".spec" + strings.ToValidUTF8(path, "")
		}
		if ask(t, "{"+path+"}", map[string]any{}).Bad {
			path = ".spec.n"
		}
		columns = append(columns, apiextensionsv1.CustomResourceColumnDefinition{
			Name: fmt.Sprintf("C%d", len(columns)), JSONPath: path,
			Type: pick(r, []string{"string", "string", "integer", "number", "boolean", "date"}),
		})
	}
	text, err := json.Marshal(columns)
	require.NoError(t, err)
	for _, spec := range []string{typed, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`} {
		srv := apitest.New(t, crd.Kinds())
		send(t, srv, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"shirts.shop.example.com"},
"spec":{"group":"shop.example.com","scope":"Cluster","names":{"plural":"shirts","kind":"Shirt"},"versions":[{"name":"v1","served":true,"storage":true,"additionalPrinterColumns":`+string(text)+`,
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":`+spec+`,"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`)
		const shirts = "/apis/shop.example.com/v1/shirts"
		require.Eventually(t, func() bool { code, _ := ourSend(t, srv, "GET", shirts, ""); return code == 200 }, time.Minute, time.Millisecond)
		stored := send(t, srv, "POST", shirts, strings.Replace(object, `,"b c":"d"`, "", 1)) // no label has a space

		var tree map[string]any
		require.NoError(t, json.Unmarshal(stored, &tree))
		us := &unstructured.Unstructured{}
		require.NoError(t, us.UnmarshalJSON(stored))
		convertor, err := tableconvertor.New(columns)
		require.NoError(t, err)
		want, err := convertor.ConvertToTable(t.Context(), us, nil)
		require.NoError(t, err)

		var got struct {
			ColumnDefinitions []map[string]any
			Rows              []struct{ Cells []any }
		}
		require.NoError(t, json.Unmarshal(send(t, srv, "TABLE", shirts+"/a", ""), &got))
		require.Len(t, got.ColumnDefinitions, len(columns)+1)
		filled := 0
		for i, c := range columns {
			wanted, err := json.Marshal(want.Rows[0].Cells[i+1])
			require.NoError(t, err)
			have, err := json.Marshal(got.Rows[0].Cells[i+1])
			require.NoError(t, err)
			require.JSONEq(t, string(wanted), string(have), "%s as %s", c.JSONPath, c.Type)
			if string(have) != "null" {
				filled++
			}
			require.Equal(t, want.ColumnDefinitions[i+1].Description, got.ColumnDefinitions[i+1]["description"])
		}
		require.Greater(t, filled, 60)
	}
}

func send(t *testing.T, srv *apitest.Server, method, path, body string) []byte {
	t.Helper()
	code, answer := ourSend(t, srv, method, path, body)
	require.Less(t, code, 300, "%s", answer)
	return answer
}

func ourSend(t *testing.T, srv *apitest.Server, method, path, body string) (int, []byte) {
	t.Helper()
	accept := "application/json"
	if method == "TABLE" {
		method, accept = "GET", "application/json;as=Table;v=v1;g=meta.k8s.io"
	}
	r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	answer, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	var out bytes.Buffer
	_, err = out.ReadFrom(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, out.Bytes()
}
