package kube

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A judged write is a merge patch of a stored object, or of its status, and what it is answered: nothing, if it is
// accepted.
type judged struct{ path, change, refused string }

func (s *target) judge(t *testing.T, all []judged) {
	t.Helper()
	for _, c := range all {
		code, answer := s.do(t, "PATCH", c.path+"?dryRun=All", c.change, "Content-Type", "application/merge-patch+json")
		got := refusal(code, answer)
		require.Equal(t, c.refused, strings.ReplaceAll(strings.Join(got[1:], ", "), "FieldValue", ""), "%s: %s", c.path, c.change)
		require.Equal(t, c.refused == "", got[0] == "200 ", "%s: %s: %s", c.path, c.change, got[0])
	}
}

// Services are checked as a whole, and a write of the status by what it says of the load balancer.
func TestUPDATE_ServicesAreChecked(t *testing.T) {
	s := serve(t, Options{})
	const all, ports = "/api/v1/namespaces/default/services", `"ports":[{"name":"a","port":80,"nodePort":30080}]`
	s.must(t, 201, "POST", all, `{"metadata":{"name":"lb"},"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local",`+ports+`}}`)
	s.must(t, 201, "POST", all, `{"metadata":{"name":"ip"},"spec":{"ports":[{"name":"a","port":80}]}}`)
	s.must(t, 201, "POST", all, `{"metadata":{"name":"other"},"spec":{"type":"ExternalName","externalName":"a.b"}}`)
	s.judge(t, []judged{
		{all + "/ip", `{"spec":{"trafficDistribution":"PreferSameNode"}}`, ""},
		{all + "/ip", `{"spec":{"internalTrafficPolicy":""}}`, "spec.internalTrafficPolicy NotSupported"},
		{all + "/lb", `{"spec":{"healthCheckNodePort":1}}`, "spec.healthCheckNodePort Forbidden"},
		{all + "/ip", `{"spec":{"trafficDistribution":"Near"}}`, "spec.trafficDistribution NotSupported"},
		{all + "/ip", `{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8"]}}`, "spec.LoadBalancerSourceRanges Forbidden"},
		{all + "/ip", `{"spec":{"ports":[{"name":"a","port":80,"appProtocol":"a b"}]}}`, "spec.ports[0].appProtocol Invalid"},
		{
			all + "/ip", `{"spec":{"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":86401}}}}`,
			"spec.sessionAffinityConfig.clientIP.timeoutSeconds Invalid",
		},
		{
			all + "/ip", `{"metadata":{"annotations":{"service.kubernetes.io/topology-mode":"a","service.kubernetes.io/topology-aware-hints":"b"}}}`,
			"metadata.annotations[service.kubernetes.io/topology-mode] Invalid",
		},
		{all + "/lb", `{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8"]}}`, ""},
		{all + "/lb", `{"metadata":{"annotations":{"service.beta.kubernetes.io/load-balancer-source-ranges":"10.0.0.0/8, x"}}}`, "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges] Invalid"},
		{all + "/lb", `{"spec":{"healthCheckNodePort":32001}}`, "spec.healthCheckNodePort Forbidden"},
		{
			all + "/lb", `{"spec":{"ports":[{"name":"a","port":80,"nodePort":30080},{"name":"b","port":81,"nodePort":30080}]}}`,
			"spec.ports[1].nodePort Duplicate",
		},
		{all + "/other", `{"spec":{` + ports + `}}`, ""}, // which it does not take from the one that has it
		{all + "/lb/status", `{"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"},{"hostname":"a.b"}]}}}`, ""},
		{
			all + "/lb/status", `{"status":{"loadBalancer":{"ingress":[{"ip":"x","ipMode":"y"},{"hostname":"1.2.3.4","ipMode":"VIP"}]}}}`,
			"status.loadBalancer.ingress[0].ip Invalid, status.loadBalancer.ingress[0].ipMode NotSupported, " +
				"status.loadBalancer.ingress[1].hostname Invalid, status.loadBalancer.ingress[1].ipMode Forbidden",
		},
		{all + "/ip/status", `{"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}}`, "status.loadBalancer.ingress Forbidden"},
	})
	s.must(t, 200, "PATCH", all+"/other", `{"spec":{`+ports+`}}`, "Content-Type", "application/merge-patch+json")
	s.must(t, 200, "DELETE", all+"/other", "")
}

func TestUPDATE_EndpointsAreChecked(t *testing.T) {
	s := serve(t, Options{})
	const endpoints, slices = "/api/v1/namespaces/default/endpoints", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	s.must(t, 201, "POST", endpoints, `{"metadata":{"name":"a"}}`)
	made := s.must(t, 201, "POST", slices, `{"metadata":{"name":"a"},"addressType":"IPv4","endpoints":[{"addresses":["1.2.3.4"],"deprecatedTopology":{"a":"b"}}],"ports":[]}`)
	require.Nil(t, at(list(made["endpoints"])[0], "deprecatedTopology"), "the first version had it")
	s.must(t, 201, "POST", slices, `{"metadata":{"name":"names"},"addressType":"FQDN","endpoints":[{"addresses":["a.b."]}],"ports":[]}`)
	endpoint := func(more string) string { return `{"endpoints":[{"addresses":["1.2.3.4"],` + more + `}]}` }
	s.judge(t, []judged{
		{
			endpoints + "/a", `{"subsets":[{"addresses":[{"ip":"1.2.3.4","hostname":"a.b","nodeName":"B"}],"ports":[{"name":"A","port":1,"appProtocol":"="}]}]}`,
			"subsets[0].addresses[0].hostname Invalid, subsets[0].addresses[0].nodeName Invalid, " +
				"subsets[0].ports[0].appProtocol Invalid, subsets[0].ports[0].name Invalid",
		},
		{slices + "/a", endpoint(`"nodeName":"B","hostname":"a.b"`), "endpoints[0].hostname Invalid, endpoints[0].nodeName Invalid"},
		{
			slices + "/a", endpoint(`"hints":{"forZones":[{"name":"z"},{"name":"z"}],"forNodes":[{"name":"B"}]}`),
			"endpoints[0].hints.forNodes[0].name Invalid, endpoints[0].hints.forZones[1].name Duplicate",
		},
		{slices + "/a", `{"ports":[{"name":"A","port":1,"appProtocol":"="}]}`, "ports[0].appProtocol Invalid, ports[0].name Invalid"},
		{slices + "/a", `{"endpoints":[{"addresses":["2001:db8::1"]}]}`, "endpoints[0].addresses Invalid"},
		{slices + "/a", `{"endpoints":[{"addresses":[` + strings.Repeat(`"1.2.3.4",`, 100) + `"1.2.3.4"]}]}`, "endpoints[0].addresses TooMany"},
		{slices + "/names", `{"endpoints":[{"addresses":["a","B.c"]}]}`, "endpoints[0].addresses[0] Invalid, endpoints[0].addresses[1] Invalid"},
	})
}

func TestUPDATE_NetworksAreChecked(t *testing.T) {
	s := serve(t, Options{})
	const ingresses, policies = "/apis/networking.k8s.io/v1/namespaces/default/ingresses", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
	const classes = "/apis/networking.k8s.io/v1/ingressclasses"
	s.must(t, 201, "POST", ingresses, `{"metadata":{"name":"a"},"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}`)
	s.must(t, 201, "POST", policies, `{"metadata":{"name":"a"},"spec":{"podSelector":{}}}`)
	s.must(t, 201, "POST", classes, `{"metadata":{"name":"a"},"spec":{"controller":"a.b/c"}}`)
	path := func(kind, path string) string {
		return `{"spec":{"rules":[{"http":{"paths":[{"pathType":"` + kind + `","path":"` + path + `","backend":{"service":{"name":"s","port":{"name":"a"}}}}]}}]}}`
	}
	const one = "spec.rules[0].http.paths[0]"
	s.judge(t, []judged{
		{ingresses + "/a", path("ImplementationSpecific", ""), ""},
		{ingresses + "/a", path("ImplementationSpecific", "a"), one + ".path Invalid"},
		{ingresses + "/a", path("Other", "a"), one + ".pathType NotSupported"},
		{ingresses + "/a", `{"spec":{"rules":[{"host":"1.2.3.4"}]}}`, "spec.rules[0].host Invalid"},
		{ingresses + "/a", `{"spec":{"defaultBackend":{"service":{"port":{"name":"a"}}}}}`, "spec.defaultBackend Invalid"},
		{
			ingresses + "/a", `{"spec":{"defaultBackend":{"service":null,"resource":{"apiGroup":"A","kind":"K","name":".."}}}}`,
			"spec.defaultBackend.resource.apiGroup Invalid, spec.defaultBackend.resource.name Invalid",
		},
		{
			ingresses + "/a/status", `{"status":{"loadBalancer":{"ingress":[{"ip":"x"},{"hostname":"1.2.3.4"}]}}}`,
			"status.loadBalancer.ingress[0].ip Invalid, status.loadBalancer.ingress[1].hostname Invalid",
		},
		{policies + "/a", `{"spec":{"policyTypes":["Ingress","Egress","Other"]}}`, "spec.policyTypes Invalid"},
		{
			policies + "/a", `{"spec":{"podSelector":{"matchExpressions":[{"key":"a","operator":"Exists","values":["/"]}]}}}`,
			"spec.podSelector.matchExpressions[0].values Forbidden, spec.podSelector.matchExpressions[0].values[0] Invalid",
		},
		{
			policies + "/a", `{"spec":{"ingress":[{"from":[{"podSelector":{},"ipBlock":{"cidr":""}}]}]}}`,
			"spec.ingress[0].from[0] Forbidden, spec.ingress[0].from[0].ipBlock.cidr Required",
		},
		{classes + "/a", `{"spec":{"parameters":{"kind":"K","name":"n","scope":"Namespace","namespace":"a.b"}}}`, "spec.parameters.namespace Invalid"},
	})
}

// A node keeps what identifies its machine, and has no taint twice.
func TestUPDATE_NodesAreChecked(t *testing.T) {
	s := serve(t, Options{})
	const node = "/api/v1/nodes/a"
	s.must(t, 201, "POST", "/api/v1/nodes", `{"metadata":{"name":"a"},"spec":{"podCIDR":"10.1.0.0/24","providerID":"x"}}`)
	s.judge(t, []judged{
		{node, `{"spec":{"podCIDR":"10.2.0.0/24","podCIDRs":["10.2.0.0/24"]}}`, "spec.podCIDRs Forbidden"},
		{node, `{"spec":{"providerID":"y"}}`, "spec.providerID Forbidden"},
		{node, `{"spec":{"externalID":"y"}}`, "spec.externalID Forbidden"},
		{
			node, `{"spec":{"taints":[{"key":"a","value":"/","effect":"NoExecute"},{"key":"a","effect":"NoExecute"}]}}`,
			"metadata.taints[0].value Invalid, metadata.taints[1] Duplicate",
		},
		{node + "/status", `{"status":{"capacity":{"pods":"0.5","cpu":"0.5"}}}`, "status.allocatable.pods Invalid, status.capacity.pods Invalid"},
		{
			node + "/status", `{"status":{"declaredFeatures":["B","A","A","a"]}}`,
			"status.declaredFeatures[1] Invalid, status.declaredFeatures[2] Duplicate, status.declaredFeatures[3] Invalid",
		},
		{node + "/status", `{"status":{"addresses":[{"type":"Hostname","address":"a"},{"type":"Hostname","address":"a"}]}}`, "status.addresses[1] Duplicate"},
	})
	s.must(t, 201, "POST", "/api/v1/nodes", `{"metadata":{"name":"b"},"spec":{"podCIDRs":["10.1.0.0/24","2001:db8::/64"]}}`)
	code, answer := s.do(t, "POST", "/api/v1/nodes", `{"metadata":{"name":"c"},"spec":{"podCIDRs":["10.1.0.0/24","10.2.0.0/24"]}}`)
	require.Equal(t, []string{"422 Invalid", "spec.podCIDRs FieldValueInvalid"}, refusal(code, answer))
}

func TestUPDATE_LimitsAndQuotasAreChecked(t *testing.T) {
	s := serve(t, Options{})
	const limits, quotas = "/api/v1/namespaces/default/limitranges", "/api/v1/namespaces/default/resourcequotas"
	s.must(t, 201, "POST", limits, `{"metadata":{"name":"a"},"spec":{"limits":[]}}`)
	s.must(t, 201, "POST", quotas, `{"metadata":{"name":"a"},"spec":{"hard":{"pods":"5"}}}`)
	limit := func(of string) string { return `{"spec":{"limits":[{` + of + `}]}}` }
	s.judge(t, []judged{
		{limits + "/a", limit(`"type":"Pod","default":{"cpu":"1"},"defaultRequest":{"cpu":"1"}`), "spec.limits[0].default Forbidden, spec.limits[0].defaultRequest Forbidden"},
		{limits + "/a", limit(`"type":"PersistentVolumeClaim","max":{"pods":"1"}`), "spec.limits[0].limits Required"},
		{limits + "/a", limit(`"type":"Container","max":{"x":"1"}`), "spec.limits[0].defaultRequest[x] Invalid, spec.limits[0].default[x] Invalid, spec.limits[0].max[x] Invalid"},
		{limits + "/a", limit(`"type":"Container","maxLimitRequestRatio":{"cpu":"500m"}`), "spec.limits[0].maxLimitRequestRatio[cpu] Invalid"},
		{limits + "/a", limit(`"type":"Pod","min":{"cpu":"1"},"max":{"cpu":"2"},"maxLimitRequestRatio":{"cpu":"3"}`), "spec.limits[0].maxLimitRequestRatio[cpu] Invalid"},
		{limits + "/a", limit(`"type":"Pod","min":{"cpu":"1"},"max":{"cpu":"2"},"maxLimitRequestRatio":{"cpu":"1500m"}`), ""},
		{limits + "/a", limit(`"type":"Container","default":{"a.b/c":"2"},"defaultRequest":{"a.b/c":"1"}`), "spec.limits[0].defaultRequest[a.b/c] Invalid"},
		{quotas + "/a", `{"spec":{"hard":{"a.b/c":"1500m","requests.a.b/c":"1500m"}}}`, "spec.hard[a.b/c] Invalid"},
	})
	made := s.must(t, 201, "POST", quotas, `{"metadata":{"name":"b"},"spec":{"hard":{"requests.cpu":"100u"}}}`)
	require.Equal(t, "1m", at(made, "spec", "hard", "requests.cpu"), "nothing is finer than a thousandth")
	made = s.must(t, 201, "POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"a"},"secrets":[{"name":"s","kind":"Secret","uid":"u"}]}`)
	require.Equal(t, []any{map[string]any{"name": "s"}}, made["secrets"], "the name says which secret it is")
}
