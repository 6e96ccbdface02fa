package kinds_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

const (
	configMapsPath      = "/api/v1/namespaces/default/configmaps"
	secretsPath         = "/api/v1/namespaces/default/secrets"
	serviceAccountsPath = "/api/v1/namespaces/default/serviceaccounts"
)

func serveOptional(t *testing.T) *host {
	t.Helper()
	return serve(t, memory.New(), nil, kindwright.Serve(kinds.ConfigMaps(), kinds.Secrets(), kinds.ServiceAccounts()))
}

func TestConfigMapsAreChecked(t *testing.T) {
	h := serveOptional(t)
	out := h.must(201, "POST", configMapsPath, `{"metadata":{"name":"a"},"data":{"A_b-c.1":"x"},"binaryData":{"x":"AP8="}}`)
	require.Equal(t, "AP8=", at(out, "binaryData", "x"))
	require.Nil(t, at(out, "metadata", "generation"), "as in Kubernetes")

	for _, c := range []struct {
		body   string
		fields []string
	}{
		{`{"data":{"a b":"x"}}`, []string{"data[a b]"}},
		{`{"data":{"..":"x",".":"x","..a":"x"}}`, []string{"data[..]", "data[.]", "data[..a]"}},
		{`{"data":{"` + strings.Repeat("k", 254) + `":"x"}}`, []string{"data[" + strings.Repeat("k", 254) + "]"}},
		{`{"data":{"a":"x"},"binaryData":{"a":"AA=="}}`, []string{"data[a]"}},
		{`{"binaryData":{"":"AA=="}}`, []string{"binaryData[]"}},
	} {
		h.refused("POST", configMapsPath, merged(t, c.body, `{"metadata":{"name":"bad"}}`), c.fields...)
	}

	half := strings.Repeat("x", 1<<19)
	tooMuch := fmt.Sprintf(`{"metadata":{"name":"bad"},"data":{"a":%q,"b":%q,"c":"x"}}`, half, half)
	require.Contains(t, h.must(422, "POST", configMapsPath, tooMuch)["message"], "may not be more than 1048576 bytes")

	table := h.must(200, "GET", configMapsPath+"/a", "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	require.Equal(t, []any{"a", 2.0}, at(table["rows"].([]any)[0], "cells").([]any)[:2])
}

func TestImmutableConfigMapsAndSecretsStay(t *testing.T) {
	h := serveOptional(t)
	patch := []string{"Content-Type", "application/merge-patch+json"}
	for _, path := range []string{configMapsPath, secretsPath} {
		h.must(201, "POST", path, `{"metadata":{"name":"a"},"data":{"k":"AAAA"}}`)
		h.must(200, "PATCH", path+"/a", `{"data":{"k":"BBBB"},"immutable":true}`, patch...)
		for body, field := range map[string]string{
			`{"data":{"k":"CCCC"}}`: "data", `{"data":null}`: "data", `{"immutable":false}`: "immutable", `{"immutable":null}`: "immutable",
		} {
			out := h.must(422, "PATCH", path+"/a", body, patch...)
			require.Contains(t, out["message"], field+": Forbidden: field is immutable when `immutable` is set")
		}
		h.must(200, "PATCH", path+"/a", `{"metadata":{"labels":{"a":"b"}}}`, patch...)
		h.must(200, "DELETE", path+"/a", "")
	}
}

func TestSecretsAreFilledAndChecked(t *testing.T) {
	h := serveOptional(t)
	out := h.must(201, "POST", secretsPath, `{"metadata":{"name":"a"},"data":{"a":"AAAA","b":"AAAA"},"stringData":{"b":"text","c":"more"}}`)
	require.Equal(t, "Opaque", out["type"])
	require.NotContains(t, out, "stringData", "it is for writing only")
	require.Equal(t, map[string]any{"a": "AAAA", "b": encode("text"), "c": encode("more")}, out["data"])
	require.Len(t, h.must(200, "GET", secretsPath+"?fieldSelector=type%3DOpaque", "")["items"], 1)
	changed := h.must(422, "PATCH", secretsPath+"/a", `{"type":"example.com/other"}`, "Content-Type", "application/merge-patch+json")
	require.Contains(t, changed["message"], "type: Invalid value")

	h.must(201, "POST", secretsPath, `{"metadata":{"name":"own"},"type":"example.com/own"}`)
	h.must(201, "POST", secretsPath, `{"metadata":{"name":"tls"},"type":"kubernetes.io/tls","data":{"tls.crt":"","tls.key":""}}`)
	h.must(201, "POST", secretsPath, `{"metadata":{"name":"pass"},"type":"kubernetes.io/basic-auth","stringData":{"password":"x"}}`)
	h.must(201, "POST", secretsPath, `{"metadata":{"name":"sa","annotations":{"kubernetes.io/service-account.name":"x"}},"type":"kubernetes.io/service-account-token"}`)
	h.must(201, "POST", secretsPath, `{"metadata":{"name":"docker"},"type":"kubernetes.io/dockerconfigjson","stringData":{".dockerconfigjson":"{}"}}`)
	for _, c := range []struct {
		body   string
		fields []string
	}{
		{`{"data":{"a/b":"AAAA"}}`, []string{"data[a/b]"}},
		{`{"stringData":{"a/b":"x"}}`, []string{"data[a/b]"}},
		{`{"data":{"a":"` + encode(strings.Repeat("x", 1<<20+1)) + `"}}`, []string{"data"}},
		{`{"type":"kubernetes.io/tls","data":{"tls.crt":"AAAA"}}`, []string{"data[tls.key]"}},
		{`{"type":"kubernetes.io/ssh-auth","data":{"ssh-privatekey":""}}`, []string{"data[ssh-privatekey]"}},
		{`{"type":"kubernetes.io/basic-auth"}`, []string{"data[username]", "data[password]"}},
		{`{"type":"kubernetes.io/dockercfg"}`, []string{"data[.dockercfg]"}},
		{`{"type":"kubernetes.io/dockercfg","stringData":{".dockercfg":"[]"}}`, []string{"data[.dockercfg]"}},
		{`{"type":"kubernetes.io/dockerconfigjson","stringData":{".dockerconfigjson":"s3cret"}}`, []string{"data[.dockerconfigjson]"}},
		{`{"type":"kubernetes.io/service-account-token"}`, []string{"metadata.annotations[kubernetes.io/service-account.name]"}},
	} {
		body := merged(t, c.body, `{"metadata":{"name":"bad"}}`)
		h.refused("POST", secretsPath, body, c.fields...)
		require.NotContains(t, fmt.Sprint(h.must(422, "POST", secretsPath, body)), "s3cret")
	}
}

func TestServiceAccountsAreServed(t *testing.T) {
	h := serveOptional(t)
	out := h.must(201, "POST", serviceAccountsPath, `{"metadata":{"name":"a"},"secrets":[{"name":"x"}],"imagePullSecrets":[{"name":"y"}],"automountServiceAccountToken":false}`)
	require.Equal(t, false, out["automountServiceAccountToken"])
	out = h.must(200, "PATCH", serviceAccountsPath+"/a", `{"secrets":[{"name":"z"}]}`, "Content-Type", "application/strategic-merge-patch+json")
	require.Len(t, out["secrets"], 2, "merged by name")
	h.refused("POST", serviceAccountsPath, `{"metadata":{"name":"a_b"}}`, "metadata.name")
	require.Equal(t, "ServiceAccount", h.must(200, "DELETE", serviceAccountsPath+"/a", "")["kind"], "the answer is the object")
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// Compressed beside text that an attacker chose, a secret would show by the length of the answer.
func TestS19_SecretsAreNotCompressed(t *testing.T) {
	b, err := kinds.Secrets().Define(registry.Env{GroupDomain: "k8s.io", Types: &openapi.Types{}})
	require.NoError(t, err)
	require.True(t, b.Resources[0].NoCompression)
}
