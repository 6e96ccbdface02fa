package apitest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The output of a failed test contains no secrets, whatever their form.
func TestExcerptsHoldNoSecrets(t *testing.T) {
	for _, c := range []struct{ url, resource, contentType, body string }{
		{"/api/v1/namespaces/a/secrets", "", "application/json", `{"data":{"x":"hunter2"}}`}, // the user was not known
		{"/api/v1/namespaces/a/secrets/s?dryRun=All", "", "application/merge-patch+json", `{"data":{"x":"hunter2"}}`},
		{"/api/v1/namespaces/a/things", "things", "application/json", `{"kind":"Secret","data":{"x":"hunter2"}}`},
		{"/api/v1/namespaces/a/things", "things", "application/yaml", "apiVersion: v1\nkind: Secret\ndata:\n  x: hunter2\n"},
		{"/x", "widgets", "application/apply-patch+yaml", "spec:\n  password: hunter2\n  size: 3\n"},
		{"/x", "widgets", "application/apply-patch+yaml", "spec: {'password': 'hunter2', size: 3}"},
		{"/x", "widgets", "application/apply-patch+yaml", "spec:\n  api-key: |\n    hunter1\n\n    hunter2\n"},
		{"/x", "widgets", "application/apply-patch+yaml", "tokens:\n- hunter1\n- hunter2\n"},
		{"/x", "widgets", "application/json", `{"spec":{"tokens":["hunter1", "hunter2"]}}`},
		{"/x", "widgets", "application/json", `{"spec":{"credentials":{"user":"u","value":"hunter2"}}}`},
		{"/x", "widgets", "application/json", `{"spec":{"password":12345,"hunter":1}}`},
		{"/x", "widgets", "application/json", `{"spec":{"password":"hunter2`},
		{"/x", "widgets", "application/json", `{"spec":{"password":"a\"hunter2\`},
		{"/x", "widgets", "application/json-patch+json", `[{"op":"add","value":"hunter2","path":"/spec/password"}]`},
	} {
		r := Request{URL: c.url, Resource: c.resource}
		shown := r.excerpt([]byte(c.body), c.contentType)
		require.NotContains(t, shown, "hunter2", c.body)
		require.NotContains(t, shown, "12345", c.body)
	}
	r := Request{URL: "/x", Resource: "widgets"}
	require.Equal(t, `{"spec":{"password":"…","size":3},"token":"…", "color":"red"}`, r.excerpt([]byte(`{"spec":{"password":"a,b}","size":3},"token":"x",  "color":"red"}`), "application/json"))
	require.Equal(t, `spec: password: "…" size: 3`, r.excerpt([]byte("spec:\n  password: a\n  size: 3\n"), "application/yaml"))
}

func TestStatesHoldNoSecrets(t *testing.T) {
	text := readable([]byte(`{"kind":"Secret","metadata":{"name":"s"},"data":{"x":"aHVudGVyMg=="},"stringData":{"y":"hunter2"}}`))
	require.NotContains(t, text, "hunter2")
	require.NotContains(t, text, "aHVudGVyMg==")
	require.Contains(t, text, "name: s")
	text = readable([]byte(`{"kind":"Widget","spec":{"parts":[{"token":"hunter2"}],"secretName":"s","size":3}}`))
	require.NotContains(t, text, "hunter2")
	require.Contains(t, text, "secretName: s")
	require.Contains(t, text, "size: 3")
}
