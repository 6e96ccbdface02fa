package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const merged = "application/merge-patch+json"

// What Kubernetes tests in plugin/pkg/admission/runtimeclass.
func TestRuntimeClassesSayWhatPodsCost(t *testing.T) {
	s := serveWith(t, RuntimeClassPlugin())
	const classes = "/apis/node.k8s.io/v1/runtimeclasses"
	s.must(t, 201, "POST", classes, `{"metadata":{"name":"vm"},"handler":"vm","overhead":{"podFixed":{"cpu":"250m","memory":"120Mi"}},
		"scheduling":{"nodeSelector":{"runtime":"vm"},"tolerations":[{"key":"vm","operator":"Exists","effect":"NoSchedule"}]}}`)
	s.must(t, 201, "POST", classes, `{"metadata":{"name":"plain"},"handler":"plain"}`)
	pod := s.must(t, 201, "POST", podsPath, podNamed("a", `"runtimeClassName":"vm","nodeSelector":{"disk":"fast"},"tolerations":[{"key":"vm","operator":"Equal","value":"x","effect":"NoSchedule"}],`))
	require.JSONEq(t, `{"cpu":"250m","memory":"120Mi"}`, jsonOf(t, at(pod, "spec", "overhead")))
	require.JSONEq(t, `{"disk":"fast","runtime":"vm"}`, jsonOf(t, at(pod, "spec", "nodeSelector")))
	require.Equal(t, []string{"Exists"}, words([]any{list(at(pod, "spec", "tolerations"))[0]}, "operator"), "the wider toleration stays")
	require.Empty(t, at(s.must(t, 201, "POST", podsPath, podNamed("b", `"runtimeClassName":"plain",`)), "spec", "overhead"))
	for spec, why := range map[string]string{
		`"runtimeClassName":"none",`:                                      `pod rejected: RuntimeClass "none" not found`,
		`"runtimeClassName":"vm","overhead":{"cpu":"1"},`:                 `pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead`,
		`"runtimeClassName":"plain","overhead":{"cpu":"1"},`:              `pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`,
		`"overhead":{"cpu":"1"},`:                                         `pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`,
		`"runtimeClassName":"vm","nodeSelector":{"runtime":"container"},`: `conflict: runtimeClass.scheduling.nodeSelector[runtime] = vm; pod.spec.nodeSelector[runtime] = container`,
	} {
		require.Equal(t, why, s.denied(t, "POST", podsPath, podNamed("c", spec)), spec)
	}
	s.must(t, 201, "POST", podsPath, podNamed("d", `"runtimeClassName":"vm","overhead":{"cpu":"0.25","memory":"120Mi"},`))
}

// What Kubernetes tests in plugin/pkg/admission/storage/persistentvolume/resize.
func TestClaimsGrowIfTheirClassSaysSo(t *testing.T) {
	s := serveWith(t, DefaultPlugins()...)
	const classes = "/apis/storage.k8s.io/v1/storageclasses"
	s.must(t, 201, "POST", classes, `{"metadata":{"name":"rubber"},"provisioner":"x","allowVolumeExpansion":true}`)
	s.must(t, 201, "POST", classes, `{"metadata":{"name":"steel"},"provisioner":"x"}`)
	const grow = `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`
	for _, class := range []string{"rubber", "steel"} {
		path := claimsPath + "/" + class
		s.must(t, 201, "POST", claimsPath, `{"metadata":{"name":"`+class+`"},"spec":{"storageClassName":"`+class+`","volumeName":"v","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
		no := s.must(t, 422, "PATCH", path, grow, "Content-Type", merged) // the plugin is not asked: the kind lets only bound ones grow
		require.Contains(t, no["message"], "for bound claims")
		s.must(t, 200, "PATCH", path+"/status", `{"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}`, "Content-Type", merged)
	}
	require.Equal(t, "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
		s.denied(t, "PATCH", claimsPath+"/steel", grow, "Content-Type", merged))
	s.must(t, 200, "PATCH", claimsPath+"/rubber", grow, "Content-Type", merged)
}

// What Kubernetes tests in test/integration/pods (TestPodTopologyLabels, TestPodResizeValidation).
func TestPodsKnowWhereTheyAre(t *testing.T) {
	s := serveWith(t, topologyLabels(), podResizes())
	s.must(t, 201, "POST", "/api/v1/nodes", `{"metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z","topology.kubernetes.io/region":"r","topology.kubernetes.io/rack":"7"}},
		"status":{"allocatable":{"cpu":"2","memory":"1Gi"}}}`)
	s.must(t, 201, "POST", "/api/v1/nodes", `{"metadata":{"name":"w","labels":{"kubernetes.io/os":"windows"}}}`)
	where := `{"app":"web","topology.kubernetes.io/region":"r","topology.kubernetes.io/zone":"z"}`
	require.JSONEq(t, where, jsonOf(t, at(s.must(t, 201, "POST", podsPath, podNamed("a", `"nodeName":"n",`)), "metadata", "labels")))
	s.must(t, 201, "POST", podsPath, podNamed("b", ""))
	s.must(t, 201, "POST", podsPath+"/b/binding", `{"metadata":{"name":"b"},"target":{"kind":"Node","name":"n"}}`)
	require.JSONEq(t, where, jsonOf(t, at(s.must(t, 200, "GET", podsPath+"/b", ""), "metadata", "labels")))
	require.JSONEq(t, `{"app":"web"}`, jsonOf(t, at(s.must(t, 201, "POST", podsPath, podNamed("c", `"nodeName":"nowhere",`)), "metadata", "labels")))

	resources := `"resources":{"requests":{"cpu":"1","memory":"1Mi"}}`
	for _, node := range []string{"n", "w", "nowhere"} {
		s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"on-`+node+`"},"spec":{"nodeName":"`+node+`","containers":[{"name":"c","image":"x",`+resources+`}]}}`)
	}
	resize := func(node, cpu string) (string, string, string, string, string) {
		return "PATCH", podsPath + "/on-" + node + "/resize", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"` + cpu + `"}}}]}}`, "Content-Type", "application/strategic-merge-patch+json"
	}
	refusal := func(node, cpu string) string {
		method, path, body, header, kind := resize(node, cpu)
		return s.denied(t, method, path, body, header, kind)
	}
	require.Equal(t, "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000", refusal("n", "3"))
	require.Equal(t, `pod resize is only supported on linux nodes, node "w" is "windows"`, refusal("w", "2"))
	for node, reason := range map[string]string{"n": "NodeCapacity", "w": "UnsupportedPlatform"} {
		method, path, body, header, kind := resize(node, "3")
		got := s.must(t, 403, method, path, body, header, kind)
		require.Equal(t, []string{reason}, words(at(got, "details", "causes"), "reason"))
	}
	require.Equal(t, `node "nowhere" not found`, refusal("nowhere", "2"))
	method, path, body, header, kind := resize("n", "2")
	s.must(t, 200, method, path, body, header, kind)
}

// Plugins that are off unless they are enabled.
func TestOptionalPlugins(t *testing.T) {
	s := serveWith(t, OptionalPlugins(PluginConfiguration{})...)
	pod := s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"a"},"spec":{"initContainers":[{"name":"i","image":"x:1","imagePullPolicy":"Never"}],"containers":[{"name":"c","image":"x:1","imagePullPolicy":"IfNotPresent",
		"resources":{"limits":{"example.com/gpu":"1","cpu":"1"}}}],"volumes":[{"name":"v","image":{"reference":"y","pullPolicy":"Never"}}]}}`)
	require.Equal(t, []string{"Always"}, words(at(pod, "spec", "containers"), "imagePullPolicy"))
	require.Equal(t, []string{"Always"}, words(at(pod, "spec", "initContainers"), "imagePullPolicy"))
	require.Equal(t, []string{"Always"}, words(at(pod, "spec", "volumes"), "image", "pullPolicy"))
	require.Equal(t, []string{"node.kubernetes.io/memory-pressure", "example.com/gpu", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}, words(at(pod, "spec", "tolerations"), "key"))

	const services = "/api/v1/namespaces/default/services"
	service := func(name, ips string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"ports":[{"port":1}],"externalIPs":[` + ips + `]}}`
	}
	require.Equal(t, "Use of external IPs is denied by admission control", s.denied(t, "POST", services, service("s", `"192.0.2.7"`)))
	s.must(t, 201, "POST", services, service("s", ""))
	require.Equal(t, "Use of external IPs is denied by admission control", s.denied(t, "PATCH", services+"/s", `{"spec":{"externalIPs":["192.0.2.7"]}}`, "Content-Type", merged))
}
