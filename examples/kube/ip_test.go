package kube

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Spellings of addresses that some programs read otherwise are rejected, unless an option allows them
// (VAL-01). Whatever its spelling, an address belongs to one service.
func TestAmbiguousAddresses(t *testing.T) {
	service := `{"metadata": {"name": %q}, "spec": {"clusterIP": %q, "ports": [{"port": 80}]}}`
	for name, test := range map[string]struct{ path, body string }{
		"services":  {"/api/v1/namespaces/default/services", fmt.Sprintf(service, "a", "10.0.0.011")},
		"endpoints": {"/api/v1/namespaces/default/endpoints", `{"metadata": {"name": "a"}, "subsets": [{"addresses": [{"ip": "::ffff:192.168.3.11"}], "ports": [{"port": 80}]}]}`},
		"slices":    {"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"metadata": {"name": "a"}, "addressType": "IPv4", "ports": [], "endpoints": [{"addresses": ["10.244.0.011"]}]}`},
		"network policies": {"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", `{"metadata": {"name": "a"}, "spec": {"podSelector": {},
			"ingress": [{"from": [{"ipBlock": {"cidr": "172.17.1.0/16"}}, {"ipBlock": {"cidr": "172.017.0.0/16"}}]}]}}`},
		"nodes": {"/api/v1/nodes", `{"metadata": {"name": "a"}, "spec": {"podCIDR": "10.0.1.0/16", "podCIDRs": ["10.0.1.0/16"]}}`},
		"pods": {"/api/v1/namespaces/default/pods", `{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}],
			"hostAliases": [{"ip": "10.0.0.011", "hostnames": ["a"]}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			code, answer := serve(t, Options{}).do(t, http.MethodPost, test.path, test.body)
			require.Equal(t, http.StatusUnprocessableEntity, code, answer)
			code, answer = serve(t, Options{LooseAddresses: true}).do(t, http.MethodPost, test.path, test.body)
			require.Equal(t, http.StatusCreated, code, answer)
		})
	}

	loose := serve(t, Options{LooseAddresses: true})
	for i, ip := range []string{"10.0.0.011", "10.0.0.11", "::ffff:10.0.0.11", "10.0.0.12"} {
		code, answer := loose.do(t, http.MethodPost, "/api/v1/namespaces/default/services", fmt.Sprintf(service, fmt.Sprintf("s%d", i), ip))
		require.Equal(t, i == 0 || i == 3, code == http.StatusCreated, "%s: %v", ip, answer)
	}
	code, answer := loose.do(t, http.MethodPost, "/api/v1/namespaces/default/endpoints",
		`{"metadata": {"name": "a"}, "subsets": [{"addresses": [{"ip": "127.00.0.1"}], "ports": [{"port": 80}]}]}`)
	require.Equal(t, http.StatusUnprocessableEntity, code, answer)
}
