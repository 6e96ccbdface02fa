package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

const quotasPath = "/api/v1/namespaces/default/resourcequotas"

// serveQuotas is serve with quotas, which are asked after everything else.
func serveQuotas(t testing.TB, plugins ...admission.Plugin) *target {
	t.Helper()
	return serveQuotasOn(t, memory.New(), plugins...)
}

func serveQuotasOn(t testing.TB, db storage.Backend, plugins ...admission.Plugin) *target {
	t.Helper()
	return serveOn(t, db, Options{}, kindwright.Admit(plugins...), kindwright.Access{CheckPlugins: true},
		kindwright.Serve(crd.Kinds(), PluginsOf(LastPlugins()...)))
}

// quota makes a quota, and says what is used, as the controller does.
func (s *target) quota(t testing.TB, name, hard, used, more string) {
	t.Helper()
	s.must(t, 201, "POST", quotasPath, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"hard":%s%s}}`, name, hard, more))
	if used != "" {
		s.must(t, 200, "PATCH", quotasPath+"/"+name+"/status", fmt.Sprintf(`{"status":{"hard":%s,"used":%s}}`, hard, used), "Content-Type", "application/merge-patch+json")
	}
}

// used returns what a quota says is used.
func (s *target) used(t testing.TB, name, resource string) string {
	t.Helper()
	return word(at(s.must(t, 200, "GET", quotasPath+"/"+name, ""), "status", "used", resource))
}

// denied makes a request that a quota does not allow, and returns what it says.
func (s *target) denied(t testing.TB, method, path, body string, headers ...string) string {
	t.Helper()
	got := s.must(t, 403, method, path, body, headers...)
	require.Equal(t, "Forbidden", got["reason"])
	_, why, _ := strings.Cut(word(got["message"]), "is forbidden: ")
	return why
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// QUOTA-01: what a namespace may have is counted, by the sentences of Kubernetes.
func TestQUOTA_01_ObjectsAreCounted(t *testing.T) {
	s := serveQuotas(t)
	s.quota(t, "q", `{"configmaps":"2","count/deployments.apps":"0","secrets":"1"}`, `{"configmaps":"0","count/deployments.apps":"0","secrets":"0"}`, "")
	s.must(t, 201, "POST", configMaps, `{"metadata":{"name":"a"}}`)
	s.must(t, 201, "POST", configMaps+"?dryRun=All", `{"metadata":{"name":"dry"}}`)
	require.Equal(t, "1", s.used(t, "q", "configmaps"), "a dry run is not counted")
	s.must(t, 201, "POST", configMaps, `{"metadata":{"name":"b"}}`)
	require.Equal(t, "2", s.used(t, "q", "configmaps"))
	const full = "exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"
	require.Equal(t, full, s.denied(t, "POST", configMaps, `{"metadata":{"name":"c"}}`))
	require.Equal(t, full, s.denied(t, "POST", configMaps+"?dryRun=All", `{"metadata":{"name":"c"}}`))
	s.must(t, 200, "PATCH", configMaps+"/a", `{"data":{"a":"b"}}`, "Content-Type", "application/merge-patch+json")
	s.must(t, 201, "POST", "/api/v1/namespaces/kube-public/configmaps", `{"metadata":{"name":"c"}}`)
	require.Equal(t, "exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=0, limited: count/deployments.apps=0",
		s.denied(t, "POST", "/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x"}]}}}}`))
	s.must(t, 200, "DELETE", configMaps+"/a", "")
	require.Equal(t, "2", s.used(t, "q", "configmaps"), "the controller takes it back, not the server")
	s.must(t, 200, "DELETE", quotasPath+"/q", "")
	s.must(t, 201, "POST", configMaps, `{"metadata":{"name":"c"}}`)
	code, _ := s.do(t, "PUT", "/api/v1/namespaces/default/limitranges/l", `{"metadata":{"name":"l"},"spec":{"limits":[]}}`)
	require.Equal(t, 201, code)
}

// A quota whose status says nothing limits nothing; one that knows its limits and not what is used, nobody passes.
func TestQUOTA_01_QuotasCountOnceTheirStatusIsKnown(t *testing.T) {
	s := serveQuotas(t)
	s.quota(t, "q", `{"configmaps":"0","secrets":"1"}`, "", "")
	s.must(t, 201, "POST", configMaps, `{"metadata":{"name":"a"}}`)
	s.must(t, 200, "PATCH", quotasPath+"/q/status", `{"status":{"hard":{"configmaps":"0","secrets":"1"},"used":{"secrets":"0"}}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, "status unknown for quota: q, resources: configmaps", s.denied(t, "POST", configMaps, `{"metadata":{"name":"b"}}`))
	s.must(t, 201, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"b"}}`)
}

// Objects of custom kinds are counted like others.
func TestQUOTA_01_CustomResourcesAreCounted(t *testing.T) {
	s := serveQuotas(t)
	s.must(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"toys.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"toys","kind":"Toy"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	s.quota(t, "q", `{"count/toys.example.com":"1"}`, `{"count/toys.example.com":"0"}`, "")
	const toys = "/apis/example.com/v1/namespaces/default/toys"
	toy := func(name string) string {
		return `{"apiVersion":"example.com/v1","kind":"Toy","metadata":{"name":"` + name + `"}}`
	}
	require.Eventually(t, func() bool { code, _ := s.do(t, "GET", toys, ""); return code == 200 }, time.Minute, time.Millisecond)
	s.must(t, 201, "POST", toys, toy("a"))
	require.Equal(t, "exceeded quota: q, requested: count/toys.example.com=1, used: count/toys.example.com=1, limited: count/toys.example.com=1",
		s.denied(t, "POST", toys, toy("b")))
}

// What Kubernetes tests in pkg/quota/v1/evaluator/core: what pods are charged with.
func TestQUOTA_01_PodsAreCountedByWhatTheyAskFor(t *testing.T) {
	s := serveQuotas(t)
	hard := `{"pods":"9","count/pods":"9","cpu":"2","requests.memory":"2Gi","limits.cpu":"9","requests.example.com/gpu":"2","requests.hugepages-2Mi":"1Gi","limits.ephemeral-storage":"1Gi"}`
	zero := `{"pods":"0","count/pods":"0","cpu":"0","requests.memory":"0","limits.cpu":"0","requests.example.com/gpu":"0","requests.hugepages-2Mi":"0","limits.ephemeral-storage":"0"}`
	s.quota(t, "q", hard, zero, "")
	require.Equal(t, "failed quota: q: must specify cpu for: c; limits.cpu for: c; requests.memory for: c", s.denied(t, "POST", podsPath, podNamed("p", "")))
	s.must(t, 201, "POST", podsPath, sized("p", `{"requests":{"cpu":"500m","memory":"1Gi","example.com/gpu":"1"},"limits":{"cpu":"1","memory":"1Gi","example.com/gpu":"1","hugepages-2Mi":"4Mi","ephemeral-storage":"1Mi"}}`))
	for name, want := range map[string]string{
		"pods": "1", "count/pods": "1", "cpu": "500m", "requests.memory": "1Gi", "limits.cpu": "1", "requests.example.com/gpu": "1",
		"requests.hugepages-2Mi": "4Mi", "limits.ephemeral-storage": "1Mi",
	} {
		require.Equal(t, want, s.used(t, "q", name), name)
	}
	require.Equal(t, "exceeded quota: q, requested: cpu=1600m,requests.memory=2Gi, used: cpu=500m,requests.memory=1Gi, limited: cpu=2,requests.memory=2Gi",
		s.denied(t, "POST", podsPath, sized("big", `{"limits":{"cpu":"1600m","memory":"2Gi"}}`)))
	resize := func(code int, cpu string) map[string]any {
		return s.must(t, code, "PATCH", podsPath+"/p/resize", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"`+cpu+`"},"limits":{"cpu":"4"}}}]}}`,
			"Content-Type", "application/strategic-merge-patch+json")
	}
	require.Contains(t, resize(403, "3")["message"], "exceeded quota: q, requested: cpu=2500m, used: cpu=500m, limited: cpu=2")
	resize(200, "2")
	require.Equal(t, "2", s.used(t, "q", "cpu"))
	resize(200, "1")
	require.Equal(t, "2", s.used(t, "q", "cpu"), "the controller takes back what a pod no longer uses")
}

// What Kubernetes tests in test/e2e/apimachinery/resource_quota.go of scopes.
func TestQUOTA_03_Scopes(t *testing.T) {
	s := serveQuotas(t)
	scoped := func(name, more string) { s.quota(t, name, `{"pods":"5"}`, `{"pods":"0"}`, ","+more) }
	scoped("best", `"scopes":["BestEffort"]`)
	scoped("notbest", `"scopes":["NotBestEffort"]`)
	scoped("ends", `"scopes":["Terminating"]`)
	scoped("stays", `"scopes":["NotTerminating"]`)
	scoped("both", `"scopes":["NotTerminating","NotBestEffort"]`)
	scoped("high", `"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In","values":["high"]}]}`)
	scoped("nothigh", `"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"NotIn","values":["high"]}]}`)
	scoped("anyclass", `"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"Exists"}]}`)
	scoped("noclass", `"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"DoesNotExist"}]}`)
	scoped("near", `"scopes":["CrossNamespacePodAffinity"]`)
	s.must(t, 201, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"high"},"value":7}`)
	names := []string{"best", "notbest", "ends", "stays", "both", "high", "nothigh", "anyclass", "noclass", "near"}
	had := map[string]string{}
	for i, c := range []struct{ spec, in string }{
		{``, "best stays nothigh noclass"},
		{`"activeDeadlineSeconds":5,`, "best ends nothigh noclass"},
		{`"resources":{"limits":{"cpu":"1"}},`, "notbest stays both nothigh noclass"},
		{`"priorityClassName":"high",`, "best stays high anyclass"},
		{`"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"k","namespaces":["x"]}]}},`, "best stays nothigh noclass near"},
	} {
		s.must(t, 201, "POST", podsPath, podNamed(fmt.Sprint("p", i), c.spec))
		var counted []string
		for _, q := range names {
			now := s.used(t, q, "pods")
			if now != had[q] && now != "0" {
				counted = append(counted, q)
			}
			had[q] = now
		}
		require.Equal(t, strings.Fields(c.in), counted, c.spec)
	}
	s.must(t, 200, "PATCH", podsPath+"/p0", `{"spec":{"activeDeadlineSeconds":9}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, "2", s.used(t, "ends", "pods"), "a pod that gets a deadline changes its scope")
}

func TestQUOTA_01_ServicesClaimsAndDevices(t *testing.T) {
	s := serveQuotas(t)
	hard := `{"services":"3","services.nodeports":"2","services.loadbalancers":"1"}`
	s.quota(t, "s", hard, `{"services":"0","services.nodeports":"0","services.loadbalancers":"0"}`, "")
	const services = "/api/v1/namespaces/default/services"
	service := func(name, kind string, ports int) string {
		var all []string
		for i := range ports {
			all = append(all, fmt.Sprintf(`{"name":"p%d","port":%d}`, i, i+1))
		}
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"type":%q,"ports":[%s]}}`, name, kind, strings.Join(all, ","))
	}
	s.must(t, 201, "POST", services, service("a", "ClusterIP", 2))
	require.Equal(t, "exceeded quota: s, requested: services.nodeports=3, used: services.nodeports=0, limited: services.nodeports=2",
		s.denied(t, "POST", services, service("b", "NodePort", 3)))
	s.must(t, 201, "POST", services, service("b", "LoadBalancer", 1))
	require.Equal(t, "exceeded quota: s, requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2",
		s.denied(t, "PATCH", services+"/a", `{"spec":{"type":"NodePort"}}`, "Content-Type", "application/merge-patch+json"))
	require.Equal(t, "2", s.used(t, "s", "services"))

	hard = `{"persistentvolumeclaims":"5","requests.storage":"3Gi","gold.storageclass.storage.k8s.io/requests.storage":"1Gi"}`
	s.quota(t, "v", hard, `{"persistentvolumeclaims":"0","requests.storage":"0","gold.storageclass.storage.k8s.io/requests.storage":"0"}`, "")
	claim := func(name, class, size string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"storageClassName":%q,"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":%q}}}}`, name, class, size)
	}
	require.Equal(t, "exceeded quota: v, requested: gold.storageclass.storage.k8s.io/requests.storage=2Gi, used: gold.storageclass.storage.k8s.io/requests.storage=0, limited: gold.storageclass.storage.k8s.io/requests.storage=1Gi",
		s.denied(t, "POST", claimsPath, claim("g", "gold", "2Gi")))
	s.must(t, 201, "POST", claimsPath, claim("g", "gold", "1Gi"))
	s.must(t, 201, "POST", claimsPath, claim("h", "iron", "2Gi"))
	require.Equal(t, "3Gi", s.used(t, "v", "requests.storage"))

	s.quota(t, "d", `{"gpu.deviceclass.resource.k8s.io/devices":"3"}`, `{"gpu.deviceclass.resource.k8s.io/devices":"0"}`, "")
	const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	s.must(t, 201, "POST", claims, `{"metadata":{"name":"a"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu","count":2}}]}}}`)
	require.Equal(t, "exceeded quota: d, requested: gpu.deviceclass.resource.k8s.io/devices=32, used: gpu.deviceclass.resource.k8s.io/devices=2, limited: gpu.deviceclass.resource.k8s.io/devices=3",
		s.denied(t, "POST", claims, `{"metadata":{"name":"b"},"spec":{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"x","deviceClassName":"gpu","allocationMode":"All"}]}]}}}`))
}

// QUOTA-02: writers that come at the same time never exceed a quota together, although somebody else writes
// its status as well, and what others refuse is not counted.
func TestQUOTA_02_WritersAtTheSameTime(t *testing.T) {
	s := serveQuotas(t)
	s.quota(t, "q", `{"configmaps":"10"}`, `{"configmaps":"0"}`, "")
	s.quota(t, "wide", `{"count/configmaps":"100"}`, `{"count/configmaps":"0"}`, "")
	stop := make(chan struct{})
	var meddler sync.WaitGroup
	meddler.Go(func() { // other writers of the same object lose its version again and again
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				s.do(t, "PATCH", quotasPath+"/q", fmt.Sprintf(`{"metadata":{"labels":{"i":"%d"}}}`, i), "Content-Type", "application/merge-patch+json")
			}
		}
	})
	var admitted, refusals atomic.Int32
	var writers sync.WaitGroup
	for w := range 32 {
		writers.Go(func() {
			for i := range 3 {
				switch code, got := s.do(t, "POST", configMaps, fmt.Sprintf(`{"metadata":{"name":"c-%d-%d"}}`, w, i)); code {
				case 201:
					admitted.Add(1)
				case 403:
					refusals.Add(1)
				default:
					t.Errorf("%d: %v", code, got)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	meddler.Wait()
	require.EqualValues(t, 10, admitted.Load())
	require.EqualValues(t, 86, refusals.Load())
	require.Equal(t, "10", s.used(t, "q", "configmaps"))
	require.Equal(t, "10", s.used(t, "wide", "count/configmaps"), "what another quota refuses is not counted")
}

// What a write has paid to one quota is taken back when another quota refuses it. That one was written by somebody
// else between two tries.
func TestQUOTA_02_ARefusalIsTakenBack(t *testing.T) {
	maps := corev1.ResourceName("configmaps")
	quota := func(name, hard, used string) *account {
		q := &corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{maps: resource.MustParse(hard)}, Used: corev1.ResourceList{maps: resource.MustParse(used)},
		}}
		q.Name, q.UID = name, types.UID(name)
		return newAccount(q)
	}
	r := &admission.Request{Operation: admission.Create, Namespace: "n", Resource: meta.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Notes: &admission.Notes{}}
	s, err := count(t.Context(), r)
	require.NoError(t, err)
	c := &charge{r: r, spending: s, paid: paidBefore(r)}
	wide, narrow := quota("wide", "9", "4"), quota("narrow", "3", "2")
	require.NoError(t, c.spend([]*account{wide, narrow}))
	c.pay("wide")
	require.Equal(t, "5", shown(wide.used[maps]))
	narrow = quota("narrow", "3", "3")
	require.Error(t, c.spend([]*account{wide, narrow}))
	require.Equal(t, "4", shown(wide.used[maps]))
	require.True(t, wide.changed)
	require.False(t, narrow.changed)
	require.Empty(t, paidBefore(r))
}

func shown(q resource.Quantity) string { return q.String() }

// racing loses the first commits of services as if somebody else had taken their addresses.
type racing struct {
	storage.Backend
	lose atomic.Int32
}

func (r *racing) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	for _, op := range ops {
		if strings.Contains(op.Key, "services") && strings.Contains(op.Key, "raced") && r.lose.Add(-1) >= 0 {
			return 0, &storage.ConflictError{Key: "elsewhere"}
		}
	}
	return r.Backend.Commit(ctx, ops)
}

// A write that loses a race begins again, and is counted once.
func TestQUOTA_01_AWriteThatBeginsAgainIsCountedOnce(t *testing.T) {
	db := &racing{Backend: memory.New()}
	s := serveQuotasOn(t, db)
	s.quota(t, "q", `{"services":"2"}`, `{"services":"0"}`, "")
	db.lose.Store(3)
	s.must(t, 201, "POST", "/api/v1/namespaces/default/services", `{"metadata":{"name":"raced"},"spec":{"ports":[{"port":80}]}}`)
	require.Negative(t, db.lose.Load(), "it lost three times")
	require.Equal(t, "1", s.used(t, "q", "services"))
}

// QUOTA-01: what is limited needs a quota that is about it.
func TestQUOTA_01_WhatIsLimitedNeedsAQuota(t *testing.T) {
	s := serveOn(t, memory.New(), Options{}, kindwright.Access{CheckPlugins: true}, kindwright.Serve(PluginsOf(LastPlugins(
		LimitedResource{Resource: "pods", MatchContains: []string{"pods"}, MatchScopes: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"system-node-critical"}},
		}},
		LimitedResource{Resource: "services", MatchContains: []string{"loadbalancers"}})...)))
	pod := func(name, more string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"a","image":"a"}]%s}}`, name, more)
	}
	const pods, services = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/services"
	require.Equal(t, "insufficient quota to consume: count/pods,pods", s.denied(t, "POST", pods, pod("a", "")))
	s.must(t, 201, "POST", services, `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`)
	require.Equal(t, "insufficient quota to consume: services.loadbalancers",
		s.denied(t, "POST", services, `{"metadata":{"name":"b"},"spec":{"type":"LoadBalancer","ports":[{"port":80}]}}`))

	s.quota(t, "half", `{"pods":"9"}`, `{"pods":"0"}`, "")
	require.Equal(t, "insufficient quota to consume: count/pods", s.denied(t, "POST", pods, pod("a", "")))
	s.quota(t, "other", `{"count/pods":"9"}`, `{"count/pods":"0"}`, "")
	s.must(t, 201, "POST", pods, pod("a", ""))
	// What Kubernetes answers here is no 403, and names no pod. People know the sentence by events of controllers.
	out := s.must(t, 500, "POST", pods, pod("b", `,"priorityClassName":"system-node-critical"`))
	require.Equal(t, "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]", out["message"])
	require.Empty(t, out["reason"])
}

// shared lets another process write a quota just before this one does.
type shared struct {
	storage.Backend
	other atomic.Pointer[func()]
}

func (s *shared) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	if strings.Contains(ops[0].Key, "resourcequotas") {
		if write := s.other.Swap(nil); write != nil {
			(*write)()
		}
	}
	return s.Backend.Commit(ctx, ops)
}

// QUOTA-02: what another process has counted meanwhile is not overwritten.
func TestQUOTA_02_AnotherProcessCountsToo(t *testing.T) {
	db := &shared{Backend: memory.New()}
	s := serveQuotasOn(t, db)
	s.quota(t, "q", `{"configmaps":"2"}`, `{"configmaps":"0"}`, "")
	elsewhere := func() {
		s.must(t, 200, "PATCH", quotasPath+"/q/status", `{"status":{"used":{"configmaps":"1"}}}`, "Content-Type", "application/merge-patch+json")
	}
	db.other.Store(&elsewhere)
	s.must(t, 201, "POST", configMaps, `{"metadata":{"name":"a"}}`)
	require.Equal(t, "2", s.used(t, "q", "configmaps"))
	require.Equal(t, "exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2",
		s.denied(t, "POST", configMaps, `{"metadata":{"name":"b"}}`))
}

// One of the writes that settle together panics: nobody is admitted without being counted.
func TestQueueFailsWhatNobodySettled(t *testing.T) {
	q := queue{lines: map[string]*line{}}
	newCharge := func() *charge {
		return &charge{r: &admission.Request{Namespace: "n", Resource: meta.GroupVersionResource{Resource: "x"}}, ready: make(chan bool, 1)}
	}
	first, second := newCharge(), newCharge()
	joined := make(chan struct{})
	result := make(chan error, 1)
	require.Panics(t, func() {
		_ = q.wait(t.Context(), first, func([]*charge) {
			go func() {
				result <- q.wait(t.Context(), second, func(batch []*charge) { fail(batch, errors.New("its own")) })
			}()
			require.Eventually(t, func() bool { q.mu.Lock(); defer q.mu.Unlock(); return len(q.lines["n"].waiting) == 1 }, time.Minute, time.Millisecond)
			close(joined)
			panic("bug")
		})
	})
	<-joined
	require.ErrorIs(t, first.err, errUnsettled)
	require.EqualError(t, <-result, "its own", "the next one has its turn")
	require.Empty(t, q.lines)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, q.wait(gone, newCharge(), func([]*charge) {}), "nobody waits, so it settles")
}

// A namespace without quotas costs a look-up: no allocation.
func TestQUOTA_01_NamespacesWithoutQuotasCostNothing(t *testing.T) {
	q := &quotas{queue: queue{lines: map[string]*line{}}}
	r := &admission.Request{Operation: admission.Create, Namespace: "n", Resource: meta.GroupVersionResource{Version: "v1", Resource: "pods"}}
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := q.Validate(ctx, r); err != nil {
			t.Error(err)
		}
	}))
}

// What a pod is charged with while its node has not resized it yet (UseStatusResources in Kubernetes).
func TestPodTotalCountsWhatNodesReport(t *testing.T) {
	cpu := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: cpu("1"), Limits: cpu("1")}}}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: cpu("3"), Resources: &corev1.ResourceRequirements{Requests: cpu("2"), Limits: cpu("4")}}}
	require.Equal(t, cpu("3"), podTotal(p, false, true))
	require.Equal(t, cpu("4"), podTotal(p, true, true))
	require.Equal(t, cpu("1"), podTotal(p, false, false))
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu("7")}
	require.Equal(t, cpu("7"), podTotal(p, false, false))
}

// QUOTA-03: devices count as the extended resources that pods could ask for instead, and not again for the claim that
// the scheduler makes for a pod which has paid. What Kubernetes tests in pkg/quota/v1/evaluator/core.
func TestQUOTA_03_DevicesAreExtendedResources(t *testing.T) {
	s := serveQuotas(t)
	s.must(t, 201, "POST", "/apis/resource.k8s.io/v1/deviceclasses", `{"metadata":{"name":"gpu"},"spec":{"extendedResourceName":"example.com/gpu"}}`)
	s.must(t, 201, "POST", "/apis/resource.k8s.io/v1/deviceclasses", `{"metadata":{"name":"nic"},"spec":{}}`)
	const named, implicit = "requests.example.com/gpu", "requests.deviceclass.resource.kubernetes.io/gpu"
	s.quota(t, "q", `{"`+named+`":"4","`+implicit+`":"9"}`, `{"`+named+`":"0","`+implicit+`":"0"}`, "")
	const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	claim := func(name, class, more string, count int) string {
		return fmt.Sprintf(`{"metadata":{"name":%q%s},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":%q,"count":%d}}]}}}`, name, more, class, count)
	}
	s.must(t, 201, "POST", claims, claim("a", "gpu", "", 1))
	s.must(t, 201, "POST", claims, claim("b", "nic", "", 7))
	require.Equal(t, "1 1", s.used(t, "q", named)+" "+s.used(t, "q", implicit))
	require.Equal(t, "exceeded quota: q, requested: requests.example.com/gpu=4, used: requests.example.com/gpu=1, limited: requests.example.com/gpu=4",
		s.denied(t, "POST", claims, claim("c", "gpu", "", 4)))

	pod := s.must(t, 201, "POST", podsPath, sized("p", `{"limits":{"example.com/gpu":"2"}}`))
	require.Equal(t, "3", s.used(t, "q", named), "the pod pays")
	owned := func(annotation string) string {
		return fmt.Sprintf(`,"annotations":{"resource.kubernetes.io/extended-resource-claim":%q},"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":%q,"controller":true}]`,
			annotation, word(at(pod, "metadata", "uid")))
	}
	s.must(t, 201, "POST", claims, claim("d", "gpu", owned("true"), 2))
	require.Equal(t, "3", s.used(t, "q", named), "its claim does not pay again")
	require.Contains(t, s.denied(t, "POST", claims, claim("e", "gpu", owned("true"), 2)), "exceeded quota: q", "a second claim of the pod does")
	require.Contains(t, s.denied(t, "POST", claims, claim("f", "gpu", owned("false"), 2)), "exceeded quota: q")
}

// QUOTA-03: a scope selects claims for volumes by the classes of attributes that they have or want.
func TestQUOTA_03_ClassesOfVolumeAttributes(t *testing.T) {
	s := serveQuotas(t)
	scope := func(operator, values string) string {
		return `,"scopeSelector":{"matchExpressions":[{"scopeName":"VolumeAttributesClass","operator":"` + operator + `"` + values + `}]}`
	}
	for name, more := range map[string]string{"in": scope("In", `,"values":["gold"]`), "out": scope("NotIn", `,"values":["gold"]`), "some": scope("Exists", ""), "none": scope("DoesNotExist", "")} {
		s.quota(t, name, `{"persistentvolumeclaims":"2"}`, `{"persistentvolumeclaims":"0"}`, more)
	}
	claim := func(name, class string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}` + class + `}}`
	}
	used := func() string {
		var out []string
		for _, name := range []string{"in", "out", "some", "none"} {
			out = append(out, s.used(t, name, "persistentvolumeclaims"))
		}
		return strings.Join(out, " ")
	}
	s.must(t, 201, "POST", claimsPath, claim("a", ""))
	require.Equal(t, "0 1 0 1", used())
	s.must(t, 201, "POST", claimsPath, claim("b", `,"volumeAttributesClassName":"gold"`))
	require.Equal(t, "1 1 1 1", used())
	s.must(t, 201, "POST", claimsPath, claim("c", `,"volumeAttributesClassName":"iron"`))
	require.Equal(t, "1 2 2 1", used())
	require.Equal(t, "exceeded quota: some, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=2, limited: persistentvolumeclaims=2",
		s.denied(t, "POST", claimsPath, claim("d", `,"volumeAttributesClassName":"gold"`)))
}
