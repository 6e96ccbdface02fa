package kube

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/storage/memory"
)

// What Kubernetes tests in pkg/apis/certificates/validation and test/integration/clustertrustbundles.
func TestTrustBundles(t *testing.T) {
	s := serveOn(t, memory.New(), Options{TrustBundles: true}, kindwright.Kubernetes{RuntimeConfig: "certificates.k8s.io/v1beta1=true"})
	const path = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
	authority, err := selfsigned.NewAuthority("a")
	require.NoError(t, err)
	server, err := authority.Serving("localhost")
	require.NoError(t, err)
	one := string(authority.PEM())
	bundle := func(name, signer, text string) string {
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		return `{"metadata":{"name":"` + name + `"},"spec":{"signerName":"` + signer + `","trustBundle":` + string(quoted) + `}}`
	}
	s.must(t, 201, "POST", path, bundle("foo", "", one))
	s.must(t, 201, "POST", path, bundle("foo.com:bar:abc", "foo.com/bar", "text\n"+one))
	found := s.must(t, 200, "GET", path+"?fieldSelector=spec.signerName%3Dfoo.com/bar", "")
	require.Equal(t, []string{"foo.com:bar:abc"}, words(found["items"], "metadata", "name"))
	for body, want := range map[string]string{
		bundle("a:b", "", one):                                                 `metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name`,
		bundle("a", "foo.com/bar", one):                                        `metadata.name: Invalid value: "a": ClusterTrustBundle for signerName foo.com/bar must be named with prefix foo.com:bar:`,
		bundle("foo.com:bar:_", "foo.com/bar", one):                            `metadata.name: Invalid value: "foo.com:bar:_"`,
		bundle("foo:bar:a", "foo/bar", one):                                    `spec.signerName: Invalid value: "foo": should be a domain with at least two segments`,
		bundle("a", "", ""):                                                    `spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided`,
		bundle("a", "", one+one):                                               `duplicate trust anchor (indices [0 1])`,
		bundle("a", "", one+string(server.Key)):                                `entry 1 has bad block type: `,
		bundle("a", "", string(server.Cert)):                                   `entry 0 does not have the CA bit set`,
		bundle("a", "", strings.Replace(one, "-----\n", "-----\na: b\n\n", 1)): `entry 0 has PEM block headers`,
		bundle("a", "", "-----BEGIN CERTIFICATE-----\naGVsbG8K\n-----END CERTIFICATE-----\n"): `entry 0 does not parse as X.509`,
	} {
		got := s.must(t, 422, "POST", path, body)
		require.Contains(t, got["message"], want)
	}
	got := s.must(t, 422, "PATCH", path+"/foo", `{"spec":{"signerName":"foo.com/bar"}}`, "Content-Type", merged)
	require.Contains(t, got["message"], `spec.signerName: Invalid value: "foo.com/bar": field is immutable`)
	s.must(t, 422, "PUT", path+"/foo", bundle("foo", "", one))

	s.must(t, 200, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:cluster-trust-bundle-discovery", "")

	without := serveOn(t, memory.New(), Options{}, kindwright.Kubernetes{})
	code, _ := without.do(t, "GET", path, "")
	require.Equal(t, 404, code)
}
