package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn/serviceaccount"
)

const (
	podsPath     = "/api/v1/namespaces/default/pods"
	servicesPath = "/api/v1/namespaces/default/services"
	merge        = "application/merge-patch+json"
)

func podNamed(name, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app":"web"}},"spec":{%s"containers":[{"name":"c","image":"x"}]}}`, name, more)
}

func TestWhatAClusterHasFromItsStart(t *testing.T) {
	s := serve(t, Options{Endpoint: netip.MustParseAddrPort("192.0.2.7:6443")})
	for _, ns := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		s.must(t, 200, "GET", "/api/v1/namespaces/"+ns, "")
	}
	own := s.must(t, 200, "GET", servicesPath+"/kubernetes", "")
	require.Equal(t, "10.0.0.1", at(own, "spec", "clusterIP"))
	require.Equal(t, []any{map[string]any{"name": "https", "protocol": "TCP", "port": 443.0, "targetPort": 6443.0}}, at(own, "spec", "ports"))
	ends := s.must(t, 200, "GET", "/api/v1/namespaces/default/endpoints/kubernetes", "")
	require.Equal(t, "192.0.2.7", at(list(at(list(ends["subsets"])[0], "addresses"))[0], "ip"))
	slice := s.must(t, 200, "GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", "")
	require.Equal(t, "kubernetes", at(slice, "metadata", "labels", "kubernetes.io/service-name"))
	for name, value := range map[string]float64{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000} {
		require.Equal(t, value, s.must(t, 200, "GET", "/apis/scheduling.k8s.io/v1/priorityclasses/"+name, "")["value"])
	}
	for _, role := range []string{"cluster-admin", "admin", "edit", "view", "system:discovery", "system:basic-user", "system:public-info-viewer"} {
		s.must(t, 200, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/"+role, "")
	}
	require.Equal(t, "default-scheduler", at(s.must(t, 201, "POST", podsPath, podNamed("critical", `"priorityClassName":"system-node-critical",`)), "spec", "schedulerName"))
	require.EqualValues(t, 2000001000, at(s.must(t, 200, "GET", podsPath+"/critical", ""), "spec", "priority"))
}

func TestServicesHaveAddressesOfTheirOwn(t *testing.T) {
	s := serve(t, Options{ServiceRange: netip.MustParsePrefix("10.3.0.0/28"), NodePorts: [2]int32{31000, 31003}})
	seen := map[string]bool{"10.3.0.1": true}
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range 13 { // of 16: the first, the last and the server's own are taken
		group.Go(func() {
			code, made := s.do(t, "POST", servicesPath, fmt.Sprintf(`{"metadata":{"name":"s%d"},"spec":{"ports":[{"port":80}]}}`, i))
			mu.Lock()
			defer mu.Unlock()
			ip := word(at(made, "spec", "clusterIP"))
			if code != 201 || seen[ip] || !netip.MustParsePrefix("10.3.0.0/28").Contains(netip.MustParseAddr(ip)) {
				t.Errorf("%d %v", code, made)
			}
			seen[ip] = true
		})
	}
	group.Wait()
	require.Len(t, seen, 14)
	_, full := s.do(t, "POST", servicesPath, `{"metadata":{"name":"more"},"spec":{"ports":[{"port":80}]}}`)
	require.Contains(t, full["message"], "range is full")

	one := s.must(t, 200, "GET", servicesPath+"/s1", "")
	ip := word(at(one, "spec", "clusterIP"))
	body := fmt.Sprintf(`{"metadata":{"name":"same"},"spec":{"clusterIP":%q,"ports":[{"port":80}]}}`, ip)
	taken := s.must(t, 422, "POST", servicesPath, body)
	require.Contains(t, taken["message"], "already allocated")
	another := word(at(s.must(t, 200, "GET", servicesPath+"/s2", ""), "spec", "clusterIP"))
	s.must(t, 200, "DELETE", servicesPath+"/s2", "")
	moved := s.must(t, 422, "PATCH", servicesPath+"/s1", fmt.Sprintf(`{"spec":{"clusterIP":%q,"clusterIPs":[%q]}}`, another, another), "Content-Type", merge)
	require.Regexp(t, `spec\.clusterIPs\[0\]: Invalid value: .*: may not change once set`, moved["message"])
	s.must(t, 200, "DELETE", servicesPath+"/s1", "")
	s.must(t, 201, "POST", servicesPath, body)
	s.must(t, 200, "PUT", servicesPath+"/same", `{"metadata":{"name":"same"},"spec":{"ports":[{"port":81}]}}`)
	require.Equal(t, ip, at(s.must(t, 200, "GET", servicesPath+"/same", ""), "spec", "clusterIP"), "an update without an address keeps it")

	// A service that is only a name needs no address. Its earlier address is free again.
	s.must(t, 200, "PATCH", servicesPath+"/same", `{"spec":{"type":"ExternalName","externalName":"example.dev"}}`, "Content-Type", merge)
	require.Nil(t, at(s.must(t, 200, "GET", servicesPath+"/same", ""), "spec", "clusterIP"))
	s.must(t, 201, "POST", servicesPath, strings.Replace(body, "same", "heir", 1))
}

func TestServicesHavePortsOnNodes(t *testing.T) {
	s := serve(t, Options{NodePorts: [2]int32{31000, 31003}})
	two := s.must(t, 201, "POST", servicesPath, `{"metadata":{"name":"two"},"spec":{"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81}]}}`)
	a, b := at(list(at(two, "spec", "ports"))[0], "nodePort"), at(list(at(two, "spec", "ports"))[1], "nodePort")
	require.NotEqual(t, a, b)
	dns := s.must(t, 201, "POST", servicesPath, `{"metadata":{"name":"dns"},"spec":{"type":"LoadBalancer","ports":[{"name":"t","port":53},{"name":"u","port":53,"protocol":"UDP"}]}}`)
	require.Equal(t, at(list(at(dns, "spec", "ports"))[0], "nodePort"), at(list(at(dns, "spec", "ports"))[1], "nodePort"), "one port for both protocols")
	s.must(t, 422, "POST", servicesPath, `{"metadata":{"name":"low"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":80}]}}`)
	taken := s.must(t, 422, "POST", servicesPath, fmt.Sprintf(`{"metadata":{"name":"x"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":%v}]}}`, a))
	require.Contains(t, taken["message"], "already allocated")
	s.must(t, 201, "POST", servicesPath, `{"metadata":{"name":"last"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)
	_, full := s.do(t, "POST", servicesPath, `{"metadata":{"name":"more"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)
	require.Contains(t, full["message"], "range is full")
	s.must(t, 200, "PUT", servicesPath+"/two", `{"metadata":{"name":"two"},"spec":{"type":"ClusterIP","ports":[{"port":80}]}}`)
	s.must(t, 201, "POST", servicesPath, `{"metadata":{"name":"more"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)
}

func TestDEL_08_PodsAreGivenTimeOnceTheyHaveANode(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", podsPath, podNamed("nowhere", ""))
	gone := s.must(t, 200, "DELETE", podsPath+"/nowhere", "")
	require.Equal(t, "Pod", gone["kind"])
	s.must(t, 404, "GET", podsPath+"/nowhere", "")

	s.must(t, 201, "POST", podsPath, podNamed("web", ""))
	s.must(t, 422, "PATCH", podsPath+"/web", `{"spec":{"nodeName":"n1"}}`, "Content-Type", merge)
	s.must(t, 422, "POST", podsPath+"/web/binding", `{"metadata":{"name":"web"},"target":{"kind":"Pod","name":""}}`)
	for _, earlier := range []string{`"uid":"x"`, `"resourceVersion":"1"`} { // S23: another pod, or state
		s.must(t, 409, "POST", podsPath+"/web/binding", `{"metadata":{"name":"web",`+earlier+`},"target":{"name":"n1"}}`)
		s.must(t, 409, "POST", "/api/v1/namespaces/default/bindings", `{"metadata":{"name":"web",`+earlier+`},"target":{"name":"n1"}}`)
		s.must(t, 409, "POST", podsPath+"/web/eviction", `{"metadata":{"name":"web",`+earlier+`}}`)
	}
	s.must(t, 201, "POST", podsPath+"/web/binding", `{"metadata":{"name":"web","annotations":{"by":"hand"}},"target":{"kind":"Node","name":"n1"}}`)
	bound := s.must(t, 200, "GET", podsPath+"/web", "")
	require.Equal(t, "n1", at(bound, "spec", "nodeName"))
	require.Equal(t, "hand", at(bound, "metadata", "annotations", "by"))
	require.Equal(t, "True", at(condition(at(bound, "status", "conditions"), "PodScheduled"), "status"))
	again := s.must(t, 409, "POST", podsPath+"/web/binding", `{"metadata":{"name":"web"},"target":{"name":"n2"}}`)
	require.Contains(t, again["message"], "already assigned")

	for subresource, document := range map[string]string{"binding": `"target":{"name":"n2"}`, "eviction": `"deleteOptions":{}`} {
		for _, unnamed := range []string{``, `"metadata":{},`, `"metadata":{"name":""},`} {
			s.must(t, 400, "POST", podsPath+"/web/"+subresource, `{`+unnamed+document+`}`)
		}
	}

	ending := s.must(t, 200, "DELETE", podsPath+"/web", "")
	require.EqualValues(t, 30, at(ending, "metadata", "deletionGracePeriodSeconds"))
	table := s.must(t, 200, "GET", podsPath+"/web", "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	require.Equal(t, []any{"web", "0/1", "Terminating", "0"}, list(at(list(table["rows"])[0], "cells"))[:4])
	s.must(t, 200, "DELETE", podsPath+"/web", `{"gracePeriodSeconds":0}`)
	s.must(t, 404, "GET", podsPath+"/web", "")

	s.must(t, 201, "POST", podsPath, podNamed("named", ""))
	s.must(t, 201, "POST", "/api/v1/namespaces/default/bindings", `{"metadata":{"name":"named"},"target":{"name":"n1"}}`)
	require.Equal(t, "n1", at(s.must(t, 200, "GET", podsPath+"/named", ""), "spec", "nodeName"))
}

func TestEvictionsKeepToBudgets(t *testing.T) {
	s := serve(t, Options{})
	const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	s.must(t, 201, "POST", budgets, `{"metadata":{"name":"web"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}}}`)
	evict, ready := `{"metadata":{"name":"%s"}}`, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	for _, name := range []string{"a", "b", "c"} {
		s.must(t, 201, "POST", podsPath, podNamed(name, `"nodeName":"n1",`))
	}
	s.must(t, 200, "PATCH", podsPath+"/a/status", ready, "Content-Type", merge)
	s.must(t, 200, "PATCH", podsPath+"/b/status", ready, "Content-Type", merge)
	no := s.must(t, 429, "POST", podsPath+"/a/eviction", fmt.Sprintf(evict, "a"))
	require.Equal(t, "DisruptionBudget", at(list(at(no, "details", "causes"))[0], "reason"))
	s.must(t, 201, "POST", podsPath+"/c/eviction", fmt.Sprintf(evict, "c")) // no budget counts a pod that does not run

	s.must(t, 200, "PATCH", budgets+"/web/status", `{"status":{"observedGeneration":1,"disruptionsAllowed":1,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2}}`, "Content-Type", merge)
	s.must(t, 201, "POST", podsPath+"/a/eviction?dryRun=All", fmt.Sprintf(evict, "a"))
	require.Nil(t, at(s.must(t, 200, "GET", podsPath+"/a", ""), "metadata", "deletionTimestamp"))
	s.must(t, 201, "POST", podsPath+"/a/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"},"deleteOptions":{"gracePeriodSeconds":7}}`)
	require.EqualValues(t, 7, at(s.must(t, 200, "GET", podsPath+"/a", ""), "metadata", "deletionGracePeriodSeconds"))
	s.must(t, 429, "POST", podsPath+"/b/eviction", fmt.Sprintf(evict, "b"))
	s.must(t, 200, "PATCH", podsPath+"/b/status", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "Content-Type", merge)
	s.must(t, 201, "POST", podsPath+"/b/eviction", fmt.Sprintf(evict, "b")) // it is not ready, and enough others are
}

// An evicted pod that does not go at once says why it ends. Old clients send policy/v1beta1.
func TestEvictedPodsSayWhyTheyEnd(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"p","finalizers":["example.com/f"]},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"x"}]}}`)
	cause := func() any {
		return at(condition(at(s.must(t, 200, "GET", podsPath+"/p", ""), "status", "conditions"), "DisruptionTarget"), "reason")
	}
	evict := func(version, more string) string {
		return `{"apiVersion":"` + version + `","kind":"Eviction","metadata":{"name":"p"` + more + `}}`
	}
	refused := s.must(t, 400, "POST", podsPath+"/p/eviction", evict("policy/v2", ""))
	require.Contains(t, refused["message"], "policy/v2")
	s.must(t, 409, "POST", podsPath+"/p/eviction", evict("policy/v1", `,"uid":"x"`))
	s.must(t, 409, "POST", podsPath+"/p/eviction", evict("policy/v1", `,"resourceVersion":"1"`))
	s.must(t, 201, "POST", podsPath+"/p/eviction?dryRun=All", evict("policy/v1beta1", ""))
	require.Nil(t, cause())
	version := at(s.must(t, 200, "GET", podsPath+"/p", ""), "metadata", "resourceVersion")
	s.must(t, 201, "POST", podsPath+"/p/eviction", evict("policy/v1beta1", fmt.Sprintf(`,"resourceVersion":%q`, version)))
	require.Equal(t, "EvictionByEvictionAPI", cause())
	require.NotNil(t, at(s.must(t, 200, "GET", podsPath+"/p", ""), "metadata", "deletionTimestamp"))
}

func TestSimultaneousEvictionsEndInTooManyRequests(t *testing.T) {
	s := serve(t, Options{})
	const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	s.must(t, 201, "POST", budgets, `{"metadata":{"name":"web"},"spec":{"minAvailable":9,"selector":{"matchLabels":{"app":"web"}}}}`)
	s.must(t, 200, "PATCH", budgets+"/web/status", `{"status":{"observedGeneration":1,"disruptionsAllowed":3,"currentHealthy":12,"desiredHealthy":9,"expectedPods":12}}`, "Content-Type", merge)
	const all = 12
	for i := range all {
		pod := fmt.Sprintf("/p%d", i)
		s.must(t, 201, "POST", podsPath, podNamed(pod[1:], `"nodeName":"n1",`))
		s.must(t, 200, "PATCH", podsPath+pod+"/status", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, "Content-Type", merge)
	}
	codes := make([]int, all)
	var group sync.WaitGroup
	for i := range codes {
		group.Go(func() {
			codes[i], _ = s.do(t, "POST", fmt.Sprintf("%s/p%d/eviction", podsPath, i), fmt.Sprintf(`{"metadata":{"name":"p%d"}}`, i))
		})
	}
	group.Wait()
	counted := map[int]int{}
	for _, code := range codes {
		counted[code]++
	}
	require.Equal(t, map[int]int{201: 3, 429: 9}, counted)
	budget := s.must(t, 200, "GET", budgets+"/web", "")
	require.EqualValues(t, 0, at(budget, "status", "disruptionsAllowed"))
	require.Len(t, at(budget, "status", "disruptedPods"), 3)
}

func TestWhatNeedsAKubeletSaysThatThereIsNone(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", podsPath, podNamed("nowhere", ""))
	s.must(t, 201, "POST", podsPath, podNamed("web", `"nodeName":"n1",`))
	for _, what := range []string{"log", "exec?command=ls", "attach", "portforward?ports=80", "proxy", "proxy/path"} {
		if what != "log" { // which is empty
			require.Contains(t, s.must(t, 400, "GET", podsPath+"/nowhere/"+what, "")["message"], "does not have a host assigned", what)
		}
		require.Contains(t, s.must(t, 503, "GET", podsPath+"/web/"+what, "")["message"], "no kubelet", what)
	}
	s.must(t, 503, "GET", servicesPath+"/kubernetes/proxy/", "")

	s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"three"},"spec":{"initContainers":[{"name":"i","image":"x"}],"containers":[{"name":"a","image":"x"},{"name":"b","image":"x"}]}}`)
	for _, what := range []string{"log?", "exec?command=ls&", "attach?"} {
		require.Equal(t, "a container name must be specified for pod three, choose one of: [i a b]", s.must(t, 400, "GET", podsPath+"/three/"+what, "")["message"])
		require.Equal(t, "container z is not valid for pod three", s.must(t, 400, "GET", podsPath+"/three/"+what+"container=z", "")["message"])
	}
}

func TestUPDATE_12_ScalesOfWorkloads(t *testing.T) {
	s := serve(t, Options{})
	for _, m := range manifests(t, s, "testdata/objects.yaml") {
		kind := m.name[:strings.LastIndexByte(m.name, '/')]
		if kind != "apps/v1/Deployment" && kind != "apps/v1/ReplicaSet" && kind != "apps/v1/StatefulSet" && kind != "v1/ReplicationController" {
			continue
		}
		made := s.must(t, 201, "POST", m.path, m.text)
		path := m.path + "/" + word(at(made, "metadata", "name"))
		scale := s.must(t, 200, "GET", path+"/scale", "")
		require.Equal(t, "autoscaling/v1", scale["apiVersion"], m.name)
		require.Contains(t, at(scale, "status", "selector"), "app", m.name)
		s.must(t, 200, "PATCH", path+"/scale", `{"spec":{"replicas":7}}`, "Content-Type", merge)
		require.EqualValues(t, 7, at(s.must(t, 200, "GET", path, ""), "spec", "replicas"), m.name)
	}
}

func TestWhatCannotChange(t *testing.T) {
	s := serve(t, Options{})
	for _, c := range []struct{ path, object, patch, field string }{
		{"/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"},"immutable":true,"data":{"a":"b"}}`, `{"data":{"a":"c"}}`, "data"},
		{"/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"b"},"immutable":true}`, `{"immutable":false}`, "immutable"},
		{"/api/v1/namespaces/default/secrets", `{"metadata":{"name":"a"},"immutable":true,"stringData":{"a":"b"}}`, `{"stringData":{"a":"c"}}`, "data"},
		{"/api/v1/namespaces/default/secrets", `{"metadata":{"name":"b"}}`, `{"type":"other"}`, "type"},
		{podsPath, podNamed("p", ""), `{"spec":{"containers":[{"name":"other","image":"x"}]}}`, "spec"},
		{podsPath, podNamed("q", ""), `{"spec":{"hostNetwork":true}}`, "spec"},
		{"/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"p"},"value":1}`, `{"value":2}`, "value"},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"b"},"roleRef":{"kind":"ClusterRole","name":"view"}}`, `{"roleRef":{"name":"edit"}}`, "roleRef"},
		{"/apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"c"},"provisioner":"a.dev/b"}`, `{"provisioner":"a.dev/c"}`, "provisioner"},
		{
			"/apis/apps/v1/namespaces/default/deployments",
			`{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b","c":"d"}},"spec":{"containers":[{"name":"c","image":"x"}]}}}}`,
			`{"spec":{"selector":{"matchLabels":{"a":null,"c":"d"}}}}`, "spec.selector",
		},
	} {
		made := s.must(t, 201, "POST", c.path, c.object)
		one := c.path + "/" + word(at(made, "metadata", "name"))
		refused := s.must(t, 422, "PATCH", one, c.patch, "Content-Type", merge)
		require.Equal(t, c.field, at(list(at(refused, "details", "causes"))[0], "field"), "%s: %v", one, refused)
		s.must(t, 200, "PATCH", one, `{"metadata":{"labels":{"x":"y"}}}`, "Content-Type", merge)
	}
	s.must(t, 200, "PATCH", podsPath+"/p", `{"spec":{"containers":[{"name":"c","image":"y"}]}}`, "Content-Type", merge)
}

// Roles and bindings are checked as kube-apiserver checks them; no role selects nothing, and the name of
// an account leads nowhere else.
func TestRBAC_01_RolesAndBindingsAreChecked(t *testing.T) {
	s := serve(t, Options{})
	const group, roleRef = "/apis/rbac.authorization.k8s.io/v1/", `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}`
	for _, c := range []struct{ path, object, field string }{
		{"clusterroles", `"aggregationRule":{"clusterRoleSelectors":[]}`, "aggregationRule.clusterRoleSelectors"},
		{"clusterroles", `"aggregationRule":{}`, "aggregationRule.clusterRoleSelectors"},
		{"clusterroles", `"aggregationRule":{"clusterRoleSelectors":[{"matchExpressions":[{"key":"a","operator":"Near"}]}]}`, "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator"},
		{"namespaces/default/roles", `"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]`, "rules[0].nonResourceURLs"},
		{"namespaces/default/rolebindings", roleRef + `,"subjects":[{"kind":"ServiceAccount","namespace":"default","name":"../x"}]`, "subjects[0].name"},
		{"clusterrolebindings", roleRef + `,"subjects":[{"kind":"ServiceAccount","name":"x"}]`, "subjects[0].namespace"},
		{"clusterrolebindings", `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"a/b"}`, "roleRef.name"},
	} {
		refused := s.must(t, 422, "POST", group+c.path, `{"metadata":{"name":"x"},`+c.object+`}`)
		require.Equal(t, c.field, at(list(at(refused, "details", "causes"))[0], "field"), "%v", refused)
	}
	s.must(t, 201, "POST", group+"clusterroles", `{"metadata":{"name":"x"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]},"rules":[]}`)
}

func TestFieldSelectors(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", podsPath, podNamed("a", `"nodeName":"n1","restartPolicy":"Never",`))
	s.must(t, 201, "POST", podsPath, podNamed("b", `"hostNetwork":true,`))
	s.must(t, 201, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"s"},"type":"example.dev/x"}`)
	s.must(t, 201, "POST", "/api/v1/nodes", `{"metadata":{"name":"n1"},"spec":{"unschedulable":true}}`)
	for _, c := range []struct {
		path, selector string
		names          []string
	}{
		{podsPath, "spec.nodeName=n1", []string{"a"}},
		{podsPath, "spec.nodeName=", []string{"b"}},
		{podsPath, "spec.nodeName!=n1,status.phase=Pending", []string{"b"}},
		{podsPath, "spec.restartPolicy=Never", []string{"a"}},
		{podsPath, "spec.hostNetwork=false", []string{"a"}},
		{"/api/v1/namespaces/default/secrets", "type=example.dev/x", []string{"s"}},
		{"/api/v1/nodes", "spec.unschedulable=true", []string{"n1"}},
		{servicesPath, "spec.clusterIP=10.0.0.1,spec.type=ClusterIP", []string{"kubernetes"}},
	} {
		got := s.must(t, 200, "GET", c.path+"?fieldSelector="+strings.ReplaceAll(strings.ReplaceAll(c.selector, "=", "%3D"), ",", "%2C"), "")
		require.Equal(t, c.names, words(got["items"], "metadata", "name"), c.selector)
	}
	s.must(t, 400, "GET", podsPath+"?fieldSelector=spec.color%3Dred", "")
	s.must(t, 400, "GET", "/apis/apps/v1/namespaces/default/replicasets?fieldSelector=status.replicas%3D0", "")
	s.must(t, 200, "GET", "/api/v1/namespaces/default/replicationcontrollers?fieldSelector=status.replicas%3D0", "")
}

func TestTokensOfServiceAccounts(t *testing.T) {
	const accounts = "/api/v1/namespaces/default/serviceaccounts"
	without := serve(t, Options{})
	without.must(t, 201, "POST", accounts, `{"metadata":{"name":"robot"}}`)
	require.Contains(t, without.must(t, 503, "POST", accounts+"/robot/token", `{"spec":{}}`)["message"], "no key")

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	s := serve(t, Options{Tokens: issuing(t, serviceaccount.Options{}, key)})
	made := s.must(t, 201, "POST", accounts, `{"metadata":{"name":"robot"}}`)
	s.must(t, 422, "POST", accounts+"/robot/token", `{"spec":{"expirationSeconds":5}}`)
	answer := s.must(t, 201, "POST", accounts+"/robot/token", `{"spec":{"audiences":["a","b"],"expirationSeconds":600},"status":{"token":"","expirationTimestamp":null}}`)
	parts := strings.Split(word(at(answer, "status", "token")), ".")
	require.Len(t, parts, 3)
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	require.NoError(t, err)
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	require.True(t, ecdsa.Verify(&key.PublicKey, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])))
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	claims := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &claims))
	require.Equal(t, "system:serviceaccount:default:robot", claims["sub"])
	require.Equal(t, []any{"a", "b"}, claims["aud"])
	require.Equal(t, at(made, "metadata", "uid"), at(claims, "kubernetes.io", "serviceaccount", "uid"))
	ends, err := time.Parse(time.RFC3339, word(at(answer, "status", "expirationTimestamp")))
	require.NoError(t, err)
	require.EqualValues(t, ends.Unix(), claims["exp"])
}

func TestTokensAreBoundToObjects(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	s := serve(t, Options{Tokens: issuing(t, serviceaccount.Options{MaxLifetime: time.Hour}, key)})
	const token = "/api/v1/namespaces/default/serviceaccounts/robot/token"
	s.must(t, 201, "POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"robot"}}`)
	uid := word(at(s.must(t, 201, "POST", podsPath, podNamed("own", `"serviceAccountName":"robot",`)), "metadata", "uid"))
	s.must(t, 201, "POST", podsPath, podNamed("other", ""))
	s.must(t, 201, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"s"}}`)
	bound := func(code int, ref string) map[string]any {
		return s.must(t, code, "POST", token, `{"spec":{"expirationSeconds":600,"boundObjectRef":`+ref+`}}`)
	}
	answer := bound(201, `{"apiVersion":"v1","kind":"Pod","name":"own","uid":"`+uid+`"}`)
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(word(at(answer, "status", "token")), ".")[1])
	require.NoError(t, err)
	claims := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &claims))
	require.Equal(t, map[string]any{"name": "own", "uid": uid}, at(claims, "kubernetes.io", "pod"))
	bound(201, `{"apiVersion":"v1","kind":"Secret","name":"s"}`)
	bound(404, `{"apiVersion":"v1","kind":"Pod","name":"none"}`)
	bound(404, `{"apiVersion":"v1","kind":"Node","name":"none"}`)
	bound(409, `{"apiVersion":"v1","kind":"Pod","name":"own","uid":"earlier"}`)
	bound(400, `{"apiVersion":"v1","kind":"Pod","name":"other"}`)
	bound(400, `{"apiVersion":"v1","kind":"ConfigMap","name":"c"}`)
	bound(400, `{"apiVersion":"apps/v1","kind":"Pod","name":"own"}`)
	bound(201, `{"kind":"Pod","name":"own"}`)
	for _, kind := range []string{"Pod", "Secret", "Node"} {
		require.Equal(t, "Name parameter required.", bound(400, `{"apiVersion":"v1","kind":"`+kind+`"}`)["message"])
	}

	long := s.must(t, 201, "POST", token, `{"spec":{"expirationSeconds":86400}}`)
	require.EqualValues(t, 3600, at(long, "spec", "expirationSeconds"), "it is shortened")
}

// The annotations of a Deployment are instructions to its controller. So a change of them increases
// the generation, unless it comes with the status.
func TestMETA_12_AnnotationsOfDeploymentsCount(t *testing.T) {
	s := serve(t, Options{})
	const deployments = "/apis/apps/v1/namespaces/default/deployments"
	s.must(t, 201, "POST", deployments, `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x"}]}}}}`)
	for _, c := range []struct {
		path, patch string
		generation  int
	}{
		{"", `{"metadata":{"annotations":{"x":"1"}}}`, 2},
		{"", `{"metadata":{"annotations":{"x":"1"}}}`, 2},
		{"", `{"metadata":{"labels":{"x":"1"}}}`, 2},
		{"/status", `{"metadata":{"annotations":{"x":"2"}}}`, 2},
		{"", `{"metadata":{"annotations":{"x":null}},"spec":{"replicas":2}}`, 3},
	} {
		got := s.must(t, 200, "PATCH", deployments+"/d"+c.path, c.patch, "Content-Type", "application/merge-patch+json")
		require.EqualValues(t, c.generation, at(got, "metadata", "generation"), c.patch)
	}
}

// Pods of a StatefulSet have a volume for each claim, and their containers mount it.
func TestStatefulSetsMountTheirClaims(t *testing.T) {
	s := serve(t, Options{})
	const sets = "/apis/apps/v1/namespaces/default/statefulsets"
	form := `{"metadata":{"name":%q},"spec":{"selector":{"matchLabels":{"a":"b"}},"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}],
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x","volumeMounts":[{"name":%q,"mountPath":"/d"}]}]}}}}`
	require.Nil(t, at(s.must(t, 201, "POST", sets, fmt.Sprintf(form, "good", "data")), "spec", "template", "spec", "volumes"))
	require.Contains(t, s.must(t, 422, "POST", sets, fmt.Sprintf(form, "bad", "date"))["message"], `spec.template.spec.containers[0].volumeMounts[0].name: Not found: "date"`)
}

func TestTABLE_SuspendedCronJobs(t *testing.T) {
	s := serve(t, Options{})
	const jobs = "/apis/batch/v1/namespaces/default/cronjobs"
	s.must(t, 201, "POST", jobs, `{"metadata":{"name":"c"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"x"}]}}}}}}`)
	row := list(s.must(t, 200, "GET", jobs, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")["rows"])[0]
	require.Equal(t, "False", list(at(row, "cells"))[3])
}
