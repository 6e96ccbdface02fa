package kube

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage/memory"
)

// annotated makes a namespace, and returns the path of its pods.
func (s *target) annotated(t testing.TB, name, annotations string) string {
	t.Helper()
	s.must(t, 201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"`+name+`","annotations":`+annotations+`}}`)
	return "/api/v1/namespaces/" + name + "/pods"
}

// What Kubernetes tests in plugin/pkg/admission/podnodeselector, with its sentences.
func TestPodsRunOnTheNodesOfTheirNamespace(t *testing.T) {
	s := serveWith(t, PodNodeSelectorPlugin(map[string]string{"clusterDefaultNodeSelector": "infra=false", "limited": "infra=false,env=dev"}))
	own := s.annotated(t, "own", `{"scheduler.alpha.kubernetes.io/node-selector":"env=test,disk=fast"}`)
	selector := func(path, name, spec string) string {
		return jsonOf(t, at(s.must(t, 201, "POST", path, podNamed(name, spec)), "spec", "nodeSelector"))
	}
	require.JSONEq(t, `{"env":"test","disk":"fast"}`, selector(own, "a", ""))
	require.JSONEq(t, `{"env":"test","disk":"fast","x":"y"}`, selector(own, "b", `"nodeSelector":{"x":"y","env":"test"},`))
	const conflict = "pod node label selector conflicts with its namespace node label selector"
	require.Equal(t, conflict, s.denied(t, "POST", own, podNamed("c", `"nodeSelector":{"env":"production"},`)))
	require.JSONEq(t, `{"infra":"false"}`, selector(podsPath, "d", ""))
	require.Equal(t, "null", selector(s.annotated(t, "none", `{"scheduler.alpha.kubernetes.io/node-selector":""}`), "e", ""), "nothing is more than no annotation")

	limited := s.annotated(t, "limited", `{}`)
	require.JSONEq(t, `{"infra":"false","env":"dev"}`, selector(limited, "f", `"nodeSelector":{"env":"dev"},`))
	const only = "pod node label selector labels conflict with its namespace whitelist"
	for _, spec := range []string{`"nodeSelector":{"env":"test"},`, `"nodeSelector":{"other":"x"},`} {
		require.Equal(t, only, s.denied(t, "POST", limited, podNamed("g", spec)), spec)
	}
	odd := s.must(t, 500, "POST", s.annotated(t, "odd", `{"scheduler.alpha.kubernetes.io/node-selector":"a=b,c"}`), podNamed("h", ""))
	require.Equal(t, "invalid selector: [c]", odd["message"])
}

// What Kubernetes tests in plugin/pkg/admission/podtolerationrestriction, with its sentences.
func TestPodsTolerateWhatTheirNamespaceAllows(t *testing.T) {
	key := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpEqual, Value: "v", Effect: corev1.TaintEffectNoSchedule}
	}
	zero := int64(0) // no tolerations of nodes in trouble
	s := serveOn(t, memory.New(), Options{Without: []string{"DefaultTolerationSeconds"}, NotReadySeconds: &zero, UnreachableSeconds: &zero},
		kindwright.Admit(PodTolerationRestrictionPlugin(Tolerations{Default: []corev1.Toleration{key("cluster")}, Whitelist: []corev1.Toleration{key("cluster"), key("more")}})))
	keys := func(path, name, spec string) []string {
		return words(at(s.must(t, 201, "POST", path, podNamed(name, spec)), "spec", "tolerations"), "key")
	}
	more := `"tolerations":[{"key":"more","operator":"Equal","value":"v","effect":"NoSchedule"}],`
	require.Equal(t, []string{"cluster"}, keys(podsPath, "a", ""))
	require.Equal(t, []string{"more", "cluster"}, keys(podsPath, "b", more))
	refusal := func(path, name, spec string) any {
		got := s.must(t, 500, "POST", path, podNamed(name, spec))
		require.Nil(t, got["reason"], "as in Kubernetes, which gives none")
		return got["message"]
	}
	const why = "pod tolerations (possibly merged with namespace default tolerations) conflict with its "
	other := `"tolerations":[{"key":"other","operator":"Exists"}],`
	require.Equal(t, why+"cluster whitelist", refusal(podsPath, "c", other))

	own := s.annotated(t, "own", `{"scheduler.alpha.kubernetes.io/defaultTolerations":"[{\"key\":\"own\",\"operator\":\"Exists\"}]",
		"scheduler.alpha.kubernetes.io/tolerationsWhitelist":"[{\"key\":\"own\",\"operator\":\"Exists\"}]"}`)
	require.Equal(t, []string{"own"}, keys(own, "a", ""))
	require.Equal(t, []string{"own"}, keys(own, "b", `"tolerations":[{"key":"own","operator":"Equal","value":"x","effect":"NoSchedule"}],`), "which the wider one covers")
	require.Equal(t, why+"namespace whitelist", refusal(own, "c", more))

	open := s.annotated(t, "open", `{"scheduler.alpha.kubernetes.io/defaultTolerations":"","scheduler.alpha.kubernetes.io/tolerationsWhitelist":""}`)
	require.Empty(t, keys(open, "a", ""))
	require.Equal(t, []string{"other"}, keys(open, "b", other))
	burstable := s.must(t, 201, "POST", open, sized("c", `{"requests":{"cpu":"1"}}`))
	require.Equal(t, []string{"node.kubernetes.io/memory-pressure"}, words(at(burstable, "spec", "tolerations"), "key"))
	require.ErrorContains(t, Tolerations{Default: []corev1.Toleration{{Key: "a", Operator: "Exists", Value: "b"}}}.Check(), "invalid config: [podtolerationrestriction.default[0]")
	require.NoError(t, Tolerations{Default: []corev1.Toleration{key("a")}}.Check())
}

// RATE-03, RATE-04, RATE-05, RATE-07, RATE-09, RATE-10, RATE-11: what Kubernetes tests in
// plugin/pkg/admission/eventratelimit, with its sentences.
func TestEventsAreLimited(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	s := serveWith(t, eventRateLimit(now, []EventLimit{
		{Type: "Namespace", QPS: 1, Burst: 3, CacheSize: 1}, {Type: "SourceAndObject", QPS: 1, Burst: 2}, {Type: "User", QPS: 1, Burst: 100},
	}))
	event := func(namespace, name, component string) (string, string) {
		return "/api/v1/namespaces/" + namespace + "/events", `{"metadata":{"name":"` + name + `"},"source":{"component":"` + component + `"},
			"involvedObject":{"namespace":"` + namespace + `","name":"x"}}`
	}
	post := func(code int, namespace, name, component string) any {
		path, body := event(namespace, name, component)
		return s.must(t, code, "POST", path, body)["message"]
	}
	post(201, "default", "a", "one")
	path, body := event("default", "dry", "one")
	for range 5 {
		s.must(t, 201, "POST", path+"?dryRun=All", body)
	}
	post(201, "default", "b", "one")
	require.Equal(t, "Too many requests: limit reached on type SourceAndObject for key onedefaultx", post(429, "default", "c", "one"))
	require.Equal(t, "Too many requests: [limit reached on type Namespace for key default, limit reached on type SourceAndObject for key onedefaultx]",
		post(429, "default", "d", "one"))
	now.Step(time.Second)
	post(201, "default", "e", "two")
	require.Contains(t, post(429, "default", "f", "two"), "type Namespace")
	post(201, "kube-system", "a", "one") // the only namespace that is remembered now
	post(201, "default", "g", "three")
	s.must(t, 201, "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`)

	require.ErrorContains(t, CheckEventLimits(nil), "limits: Invalid value: null: must not be empty")
	err := CheckEventLimits([]EventLimit{{Type: "Node", CacheSize: -1}})
	for _, want := range []string{`limits[0].type: Unsupported value: "Node": supported values: "Namespace", "Server", "SourceAndObject", "User"`, "limits[0].burst", "limits[0].qps", "limits[0].cacheSize"} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, CheckEventLimits([]EventLimit{{Type: "Server", QPS: 1, Burst: 1}}))
}

// RATE-07: 4096 namespaces, users or sources are remembered if nothing else is said. Whoever comes back after
// that many others have a full burst again.
func TestLIM_08_HowManyAreRemembered(t *testing.T) {
	limit := EventLimit{Type: "Namespace", QPS: 1, Burst: 1}
	require.NoError(t, CheckEventLimits([]EventLimit{limit}))
	plugin := eventRateLimit(clocktesting.NewFakeClock(time.Unix(1e9, 0)), []EventLimit{limit})
	event := func(namespace int) error {
		return plugin.Validator.Validate(t.Context(), &admission.Request{
			Operation: admission.Create, Resource: meta.GroupVersionResource{Version: "v1", Resource: "events"}, Namespace: strconv.Itoa(namespace),
		})
	}
	for n := range 4096 {
		require.NoError(t, event(n))
	}
	require.ErrorContains(t, event(0), "limit reached on type Namespace for key 0", "the last one has not pushed the first one out")
	require.NoError(t, event(4096))
	require.Error(t, event(0))
	require.NoError(t, event(1), "the one that was used least lately")
}

// RATE-08: the limit of a server has one bucket, however small its cache is said to be.
func TestRATE_06_WhatIsNotUsedIsKeptUpToTheBurst(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	s := serveWith(t, eventRateLimit(now, []EventLimit{{Type: "Server", QPS: 3, Burst: 10, CacheSize: 1}}))
	made := 0
	accepted := func() (n int) {
		for ; ; n++ {
			made++
			namespace := []string{"default", "kube-system"}[made%2]
			code, _ := s.do(t, "POST", "/api/v1/namespaces/"+namespace+"/events", `{"metadata":{"name":"e`+strconv.Itoa(made)+`"},"involvedObject":{"namespace":"`+namespace+`"}}`)
			if code != 201 {
				require.Equal(t, 429, code)
				return n
			}
		}
	}
	require.Equal(t, 10, accepted())
	now.Step(time.Second)
	require.Equal(t, 3, accepted())
	now.Step(2 * time.Second)
	require.Equal(t, 6, accepted())
	now.Step(time.Hour)
	require.Equal(t, 10, accepted())
}

// What Kubernetes tests in plugin/pkg/admission/namespace/autoprovision and exists.
func TestNamespacesAreProvided(t *testing.T) {
	for _, without := range [][]string{nil, {"NamespaceLifecycle"}} {
		s := serveOn(t, memory.New(), Options{ProvideNamespaces: true, Without: without})
		const path = "/api/v1/namespaces/new"
		want := 404
		if without != nil {
			want = 201
		}
		s.must(t, want, "POST", path+"/configmaps?dryRun=All", `{"metadata":{"name":"a"}}`)
		s.must(t, 404, "GET", path, "")
		s.must(t, 201, "POST", path+"/configmaps", `{"metadata":{"name":"a"}}`)
		require.Equal(t, "Active", at(s.must(t, 200, "GET", path, ""), "status", "phase"))
		s.must(t, 201, "POST", path+"/configmaps", `{"metadata":{"name":"b"}}`)
		s.must(t, 201, "PATCH", "/api/v1/namespaces/applied/configmaps/a?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, "Content-Type", "application/apply-patch+yaml")
		s.must(t, 200, "GET", "/api/v1/namespaces/applied", "")
	}
	s := serveOn(t, memory.New(), Options{Without: []string{"NamespaceLifecycle"}}, kindwright.Admit(namespaceExists()))
	got := s.must(t, 404, "POST", "/api/v1/namespaces/none/configmaps", `{"metadata":{"name":"a"}}`)
	require.Equal(t, `namespaces "none" not found`, got["message"])
	s.must(t, 201, "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`)
	s.must(t, 201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"some"}}`)
}

// What Kubernetes tests in test/integration/pods (TestNodeDeclaredFeatureAdmission).
func TestNodesFollowTheirPods(t *testing.T) {
	s := serveWith(t, nodeFeatures())
	for name, features := range map[string]string{"old": `["Other"]`, "new": `["InPlacePodLevelResourcesVerticalScaling"]`} {
		s.must(t, 201, "POST", "/api/v1/nodes", `{"metadata":{"name":"`+name+`"},"status":{"declaredFeatures":`+features+`}}`)
		s.must(t, 201, "POST", podsPath, podNamed(name, `"nodeName":"`+name+`","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1"}},`))
	}
	resize := `{"spec":{"resources":{"requests":{"cpu":"2"},"limits":{"cpu":"2"}}}}`
	s.must(t, 200, "PATCH", podsPath+"/new/resize", resize, "Content-Type", merged)
	require.Equal(t, `pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node "old"`,
		s.denied(t, "PATCH", podsPath+"/old/resize", resize, "Content-Type", merged))
	s.must(t, 200, "PATCH", podsPath+"/old", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", merged)
	s.must(t, 201, "POST", podsPath, podNamed("lost", `"nodeName":"gone","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1"}},`))
	require.Equal(t, `node "gone" not found`, s.denied(t, "PATCH", podsPath+"/lost/resize", resize, "Content-Type", merged))
}

// LimitPodHardAntiAffinityTopology.
func TestPodsKeepOthersFromOneNode(t *testing.T) {
	s := serveWith(t, antiAffinity())
	apart := func(key string) string {
		return `"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"` + key + `"}]}},`
	}
	s.must(t, 201, "POST", podsPath, podNamed("a", apart("kubernetes.io/hostname")))
	require.Equal(t, "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed",
		s.denied(t, "POST", podsPath, podNamed("b", apart("zone"))))
}
