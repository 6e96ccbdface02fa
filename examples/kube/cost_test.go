package kube

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiserverv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// S22: amounts that take a few bytes, and seconds to compute with, are refused where they come in.
func TestS22_AmountsOfManyDigits(t *testing.T) {
	s := serve(t, Options{})
	for _, amount := range []string{"1e10000000", "1E2147483647", "1e-10000000", strings.Repeat("1", 1<<20)} {
		for path, body := range map[string]string{
			"/api/v1/namespaces/default/pods":                                  `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":%q},"requests":{"cpu":"1"}}}]}}`,
			"/api/v1/namespaces/default/resourcequotas":                        `{"metadata":{"name":"a"},"spec":{"hard":{"cpu":%q}}}`,
			"/api/v1/namespaces/default/limitranges":                           `{"metadata":{"name":"a"},"spec":{"limits":[{"type":"Container","max":{"cpu":%q},"min":{"cpu":"1"}}]}}`,
			"/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities":  `{"metadata":{"name":"a"},"storageClassName":"s","capacity":%q}`,
			"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers": `{"metadata":{"name":"a"},"spec":{"maxReplicas":1,"scaleTargetRef":{"kind":"A","name":"a"},"metrics":[{"type":"External","external":{"metric":{"name":"m"},"target":{"type":"Value","value":%q}}}]}}`,
		} {
			no := s.must(t, 422, "POST", path, fmt.Sprintf(body, amount))
			require.Regexp(t, "has (an exponent that is not between|more than 1000 digits)", no["message"], "%s %.20s", path, amount)
		}
	}
}

// Comparing each usage with all before it would take the square: many minutes here, and seconds for a body of 1 MiB.
func TestS22_ManyUsagesAreComparedOnce(t *testing.T) {
	var usages []certificatesv1.KeyUsage
	for i := range effort.Of(400_000) {
		usages = append(usages, certificatesv1.KeyUsage("client auth"+strconv.Itoa(i)))
	}
	f := &status.Fields{}
	checkUsages(append(usages, usages[0], certificatesv1.UsageAny, certificatesv1.UsageAny), f.At("usages"))
	duplicates := 0
	for _, problem := range f.Errors() {
		if problem.Type == meta.CauseFieldValueDuplicate {
			duplicates++
		}
	}
	require.Equal(t, 2, duplicates)
	require.Equal(t, len(usages)+3, f.Len())
}

// S22: each update of a pod compared its tolerations and its gates in pairs: 33 bytes took as long as the pod is
// large.
func TestS22_UpdatesOfPodsCompareOnce(t *testing.T) {
	var tolerations []corev1.Toleration
	var gates []corev1.PodSchedulingGate
	seconds := int64(1)
	for i := range effort.Of(400_000) {
		tolerations = append(tolerations, corev1.Toleration{Key: strconv.Itoa(i), Operator: corev1.TolerationOpExists})
		gates = append(gates, corev1.PodSchedulingGate{Name: strconv.Itoa(i)})
	}
	longer := slices.Clone(tolerations)
	slices.Reverse(longer)
	longer[0].TolerationSeconds = &seconds
	f := &status.Fields{}
	checkTolerationUpdate(longer, tolerations, f.At("spec", "tolerations"))
	checkGateUpdate(gates[1:], gates, f.At("spec", "schedulingGates"))
	require.Empty(t, f.Errors())
	checkTolerationUpdate(longer[1:], tolerations, f.At("spec", "tolerations"))
	checkGateUpdate(gates, gates[:len(gates)-1], f.At("spec", "schedulingGates"))
	require.Len(t, f.Errors(), 2)
}

// S1: what hides each other in a pod is not found in pairs, and not told beyond what an answer shows. A deployment of
// 150 KiB with 6,560 ports took 3 GB.
func TestS1_ManyThingsThatHideEachOther(t *testing.T) {
	s := serve(t, Options{})
	const n = 6_000
	repeated := func(item string) string { return strings.Repeat(item+",", n-1) + item }
	numbered := func(item string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ","+item, i)
		}
		return b.String()[1:]
	}
	for what, pod := range map[string]string{
		"ports":          `"containers":[{"name":"c","image":"i","ports":[` + repeated(`{"containerPort":80}`) + `]}]`,
		"ports of hosts": `"containers":[{"name":"c","image":"i","ports":[` + numbered(`{"containerPort":80,"hostPort":80,"hostIP":"10.0.0.%d"}`) + `]}]`,
		"names":          `"containers":[{"name":"c","image":"i","env":[` + repeated(`{"name":"A","value":"a"}`) + `]}]`,
		"files":          `"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","configMap":{"name":"m","items":[` + repeated(`{"key":"a","path":"a"}`) + `]}}]`,
		"other files":    `"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","configMap":{"name":"m","items":[` + numbered(`{"key":"a","path":"a%d"}`) + `]}}]`,
		"sources":        `"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","projected":{"sources":[` + repeated(`{"configMap":{"name":"a","items":[{"key":"a","path":"a"}]}}`) + `]}}]`,
		"aliases":        `"containers":[{"name":"c","image":"i"}],"hostAliases":[` + repeated(`{"ip":"010.0.0.1"}`) + `]`,
	} {
		body := `{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{` + pod + `}}}}`
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code, out := s.do(t, "POST", "/apis/apps/v1/namespaces/default/deployments?dryRun=All", body)
		runtime.ReadMemStats(&after)
		require.Contains(t, []int{201, 422}, code, "%s: %.300v", what, out)
		t.Logf("%s: %d, %d MiB for %d KiB", what, code, (after.TotalAlloc-before.TotalAlloc)>>20, len(body)>>10)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128<<20), what)
	}
}

// Ports and files that hide each other are those that a comparison of all pairs finds, in that order.
func TestThingsThatHideEachOtherAreAllFound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2_000 {
		var ports []corev1.ContainerPort
		var volume corev1.ConfigMapVolumeSource
		for range r.IntN(10) {
			ports = append(ports, corev1.ContainerPort{
				ContainerPort: int32(r.IntN(2)), HostPort: int32(r.IntN(3)), HostIP: []string{"", "1.1.1.1", "2.2.2.2"}[r.IntN(3)],
			})
			volume.Items = append(volume.Items, corev1.KeyToPath{Path: []string{"", "/", "a", "a/", "a/b", "a//b", "ab", "a/b/c", "a.", "a//", "b"}[r.IntN(11)]})
		}
		pod := &corev1.PodSpec{
			Containers: []corev1.Container{{Ports: ports}},
			Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &volume}}},
		}
		var got, want advice
		got.ofPorts(pod, (&status.Fields{}).At("spec"))
		got.ofPaths(pod.Volumes)
		pairsOfPorts(&want, ports)
		pairsOfPaths(&want, volume.Items)
		require.Equal(t, want.texts, got.texts)
	}
}

func pairsOfPorts(w *advice, ports []corev1.ContainerPort) {
	at := func(i int) string { return fmt.Sprintf("spec.containers[0].ports[%d]", i) }
	for i, p := range ports {
		w.add(p.HostIP != "" && p.HostPort == 0, "%s: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:%d Protocol: HostIP:%s}", at(i), p.ContainerPort, p.HostIP)
		for j, o := range ports[:i] {
			switch {
			case p.ContainerPort != o.ContainerPort:
			case p.HostIP == o.HostIP && p.HostPort == o.HostPort:
				w.add(true, "%s: duplicate port definition with %s", at(i), at(j))
			case p.HostPort == 0 || o.HostPort == 0:
				w.add(true, "%s: overlapping port definition with %s", at(i), at(j))
			case p.HostPort == o.HostPort && (p.HostIP == "") != (o.HostIP == ""):
				w.add(true, "%s: dangerously ambiguous port definition with %s", at(i), at(j))
			}
		}
	}
}

func pairsOfPaths(w *advice, items []corev1.KeyToPath) {
	for i, item := range items {
		path := strings.TrimRight(item.Path, "/")
		for _, other := range items[:i] {
			before := strings.TrimRight(other.Path, "/")
			w.add(path != "" && before != "" && (strings.HasPrefix(path+"/", before+"/") || strings.HasPrefix(before+"/", path+"/")),
				"volume %q (ConfigMap %q): overlapping paths: %q with %q", "v", "", path, before)
		}
	}
}

// S22: the status of a pod compared each container with each, and each resource with each claim. A body of 3 MiB took
// minutes.
func TestS22_StatusesOfContainersAreComparedOnce(t *testing.T) {
	n := effort.Of(200_000)
	var spec corev1.PodSpec
	var now, before []corev1.ContainerStatus
	var claims []corev1.PodResourceClaim
	var reported []corev1.PodResourceClaimStatus
	one := corev1.Container{Name: "many"}
	of := corev1.ContainerStatus{Name: "many"}
	for i := range n {
		name := strconv.Itoa(i)
		spec.Containers = append(spec.Containers, corev1.Container{Name: name})
		now = append(now, corev1.ContainerStatus{Name: name})
		before = append(before, corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}})
		claims = append(claims, corev1.PodResourceClaim{Name: name})
		reported = append(reported, corev1.PodResourceClaimStatus{Name: name})
		one.Resources.Claims = append(one.Resources.Claims, corev1.ResourceClaim{Name: name, Request: "r"})
		of.AllocatedResourcesStatus = append(of.AllocatedResourcesStatus, corev1.ResourceStatus{Name: corev1.ResourceName("claim:" + name + "/r")})
	}
	f := &status.Fields{}
	spec.RestartPolicy = corev1.RestartPolicyAlways
	checkStates(now, before, &spec, f.At("status", "containerStatuses"))
	checkClaimStatuses(reported, claims, f.At("status", "resourceClaimStatuses"))
	checkAllocated(append(now, of), append(spec.Containers, one), f.At("status", "containerStatuses"))
	require.Empty(t, f.Errors())

	spec.RestartPolicy = corev1.RestartPolicyNever
	checkStates(now, before, &spec, f.At("status", "containerStatuses"))
	require.Equal(t, n, f.Len(), "each of them is still looked at")
	of.AllocatedResourcesStatus[0].Name = "claim:0"
	checkAllocated(append(now, of), append(spec.Containers, one), f.At("status", "containerStatuses"))
	require.Equal(t, n+1, f.Len())
}

// The first of several containers with one name counts, as it did when they were compared in pairs.
func TestTheFirstContainerOfANameCounts(t *testing.T) {
	f := &status.Fields{}
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	spec := &corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "a", RestartPolicy: &always}, {Name: "a", RestartPolicy: &never}, {Name: "b", RestartPolicy: &never}},
		InitContainers: []corev1.Container{{Name: "b", RestartPolicy: &always}},
	}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	before := []corev1.ContainerStatus{{Name: "a", State: ended}, {Name: "b", State: ended}, {Name: "c", State: ended}}
	checkStates([]corev1.ContainerStatus{{Name: "b"}, {Name: "a"}, {Name: "a", State: ended}}, before, spec, f.At("s"))
	require.Len(t, f.Errors(), 1)
	require.Equal(t, "s[1].state", f.Errors()[0].Field)
}

// S22: plugins compared the images, addresses and tolerations of a write with each of the object before.
func TestS22_PluginsCompareOnce(t *testing.T) {
	n := effort.Of(200_000)
	var ips, containers, turned, tolerations []any
	requests := map[string]any{}
	for i := range n {
		name := strconv.Itoa(i)
		ips = append(ips, name)
		containers = append(containers, map[string]any{"name": name, "image": name})
		turned = append(turned, map[string]any{"name": name, "image": strconv.Itoa(n - 1 - i)})
		tolerations = append(tolerations, map[string]any{"key": "example.com/r" + name, "operator": "Exists", "effect": "NoSchedule"})
		requests["example.com/r"+name] = "1"
	}
	requests["example.com/new"] = "1"
	spec := func(of map[string]any) map[string]any { return map[string]any{"spec": of} }

	back := slices.Clone(ips)
	slices.Reverse(back)
	service := &admission.Request{
		Operation: admission.Update, Resource: meta.GroupVersionResource{Version: "v1", Resource: "services"},
		Object: spec(map[string]any{"externalIPs": back}), OldObject: spec(map[string]any{"externalIPs": ips}),
	}
	require.NoError(t, externalIPs().Validator.Validate(t.Context(), service))
	service.Object = spec(map[string]any{"externalIPs": append(back, "more")})
	require.Error(t, externalIPs().Validator.Validate(t.Context(), service))

	pod := &admission.Request{
		Operation: admission.Update, Resource: meta.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: spec(map[string]any{"containers": turned}), OldObject: spec(map[string]any{"containers": containers}),
	}
	require.True(t, keepsImages(pod))
	pod.Object = spec(map[string]any{"containers": append(turned, map[string]any{"image": "more"})})
	require.False(t, keepsImages(pod))

	pod = &admission.Request{Operation: admission.Create, Resource: pod.Resource, Object: spec(map[string]any{
		"containers": []any{map[string]any{"name": "c", "resources": map[string]any{"requests": requests}}}, "tolerations": tolerations,
	})}
	object, err := tolerateDevices().Mutator.Mutate(t.Context(), pod)
	require.NoError(t, err)
	all := list(at(object, "spec", "tolerations"))
	require.Len(t, all, n+1)
	require.Equal(t, map[string]any{"key": "example.com/new", "operator": "Exists", "effect": "NoSchedule"}, all[n])
}

// S22: parts of a pod, of its account and of services were compared in pairs, or copied for each other part.
func TestS22_PartsOfAPodAreComparedOnce(t *testing.T) {
	n := effort.Of(100_000)
	var c corev1.Container
	var spread []corev1.TopologySpreadConstraint
	var match, mismatch []string
	var claims []corev1.ResourceClaim
	selector := &metav1.LabelSelector{}
	r := &podRules{spec: &corev1.PodSpec{}, volumes: map[string]*corev1.Volume{}, claims: map[string]bool{}}
	for i := range n {
		name := strconv.Itoa(i)
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "m" + name, MountPath: "/m" + name})
		c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{Name: "d" + name, DevicePath: "/d" + name})
		r.volumes["m"+name] = &corev1.Volume{}
		r.volumes["d"+name] = &corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}
		r.spec.Volumes = append(r.spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		c.Env = append(c.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: name}}})
		r.claims[name], claims = true, append(claims, corev1.ResourceClaim{Name: name})
		spread = append(spread, corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: name, WhenUnsatisfiable: corev1.DoNotSchedule})
		match, mismatch = append(match, "a"+name), append(mismatch, "b"+name)
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "c" + name, Operator: metav1.LabelSelectorOpExists})
	}
	r.spec.Containers = []corev1.Container{c}
	problems := func() int {
		f := &status.Fields{}
		at := f.At("spec")
		r.checkMounts(&c, at)
		r.checkDevices(&c, at)
		r.checkFileKeys(at)
		checkClaims(claims, at, r.claims)
		checkSpread(spread, at)
		checkLabelKeys(match, mismatch, selector, at)
		return f.Len()
	}
	require.Zero(t, problems())

	c.VolumeDevices[0].DevicePath = c.VolumeMounts[n-1].MountPath // both say so
	r.spec.Volumes[n-1].EmptyDir = nil
	claims[0].Name = "none"
	spread[0].TopologyKey = spread[n-1].TopologyKey
	match[0] = mismatch[n-1]
	require.Equal(t, 6, problems())
}

func TestS22_PartsOfOtherObjectsAreComparedOnce(t *testing.T) {
	n := effort.Of(100_000)
	var secrets, pulls, volumes []any
	var service corev1.ServiceSpec
	var port int32
	set := &appsv1.StatefulSet{}
	for i := range n {
		name := strconv.Itoa(i)
		secrets, pulls = append(secrets, map[string]any{"name": name}), append(pulls, map[string]any{"name": "p" + name})
		volumes = append(volumes, map[string]any{"name": name, "secret": map[string]any{"secretName": name}})
		port++
		service.Ports = append(service.Ports, corev1.ServicePort{NodePort: port})
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	account := map[string]any{"metadata": map[string]any{"name": "a"}, "secrets": secrets, "imagePullSecrets": pulls}
	request := &admission.Request{Operation: admission.Create, Resource: meta.GroupVersionResource{Version: "v1", Resource: "pods"}}
	request.Object = map[string]any{"spec": map[string]any{"volumes": volumes, "imagePullSecrets": pulls}}
	require.NoError(t, checkMountable(request, account, "volumes", "imagePullSecrets"))
	request.Object = map[string]any{"spec": map[string]any{"volumes": volumes, "imagePullSecrets": secrets}}
	require.ErrorContains(t, checkMountable(request, account, "volumes", "imagePullSecrets"), `imagePullSecrets[0].name="0" is not allowed`)

	turned := service.DeepCopy()
	slices.Reverse(turned.Ports)
	require.False(t, newPorts(turned, &service))
	turned.Ports[0].NodePort = port + 1
	require.True(t, newPorts(turned, &service))

	set.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "0"}}
	require.Len(t, withClaims(set).Spec.Volumes, n, "one has a volume of its name")

	versions := &apiserverv1alpha1.ServerStorageVersion{APIServerID: "a", EncodingVersion: "v1"}
	for i := range n / 10 {
		versions.DecodableVersions = append(versions.DecodableVersions, fmt.Sprintf("v%d", i))
		versions.ServedVersions = append(versions.ServedVersions, fmt.Sprintf("v1beta%d", i))
	}
	f := &status.Fields{}
	checkServerVersions(versions, f.At("status"))
	for _, problem := range f.Errors() {
		require.Less(t, len(problem.Message()), 2<<10)
	}
	require.NotEmpty(t, f.Errors())
}

// S22: each update of an object compared its finalizers with those that it had, in pairs.
func TestS22_FinalizersAreComparedOnce(t *testing.T) {
	var had []any
	for i := range effort.Of(400_000) {
		had = append(had, strconv.Itoa(i))
	}
	object := func(all []any) map[string]any { return map[string]any{"metadata": map[string]any{"finalizers": all}} }
	now := slices.Clone(had)
	slices.Reverse(now)
	f := &status.Fields{}
	checkFinalizerNames(object(now), object(had), f)
	require.Empty(t, f.Errors())
	checkFinalizerNames(object(append(now, "new")), object(had), f)
	require.Len(t, f.Errors(), 1)
}
