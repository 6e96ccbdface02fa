package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/kindwright/kindwright/internal/effort"
)

var (
	bodies   = flag.Int("bodies", 20, "how many bodies the search for costly ones sends")
	bodySeed = flag.Uint64("body-seed", 1, "the seed of these bodies")
)

// extras are objects that testdata/objects.yaml does not have.
const extras = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.bodies.example.com}
spec:
  group: bodies.example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns: [{name: S, type: string, jsonPath: ".spec.items[*].name"}]
    selectableFields: [{jsonPath: .spec.text}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: "!has(self.items) || self.items.all(i, i.value < 1000000)"}
            - {rule: "!has(self.tags) || self.tags.all(t, t.matches('^[a-z0-9-]*$'))"}
            properties:
              replicas: {type: integer, default: 1}
              text: {type: string, pattern: "^(a|b|[^c])*$", x-kubernetes-validations: [{rule: "self.size() >= 0"}]}
              tags: {type: array, maxItems: 1000, x-kubernetes-list-type: set, items: {type: string, maxLength: 100}}
              loose: {type: array, items: {type: object, properties: {a: {type: string, default: "x"}, b: {type: object, default: {c: 1}, properties: {c: {type: integer, default: 2}, d: {type: array, default: [1, 2, 3], items: {type: integer}}}}}}}
              atoms: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              map: {type: object, additionalProperties: {type: string, maxLength: 10}}
              port: {x-kubernetes-int-or-string: true}
              embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              items:
                type: array
                maxItems: 1000
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name, proto]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string, maxLength: 64}, proto: {type: string, default: TCP}, value: {type: integer, default: 1}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: bodies.example.com/v1
kind: Thing
metadata: {name: t, namespace: default, labels: {a: b}, annotations: {c: d}, finalizers: [example.com/x], ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: o, uid: "1"}]}
spec:
  text: a
  tags: [a]
  loose: [{a: b}]
  atoms: [a]
  map: {a: b}
  port: 1
  free: {a: {b: c}, l: [1, {a: b}]}
  embedded: {apiVersion: v1, kind: ConfigMap, metadata: {name: x, labels: {a: b}}}
  items: [{name: a, value: 1}]
status: {a: b}
---
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: a, groups: [a], extra: {a: [b]}, resourceAttributes: {verb: get, resource: pods, labelSelector: {requirements: [{key: a, operator: In, values: [b]}]}}}
---
apiVersion: authorization.k8s.io/v1
kind: SelfSubjectRulesReview
spec: {namespace: default}
---
apiVersion: authentication.k8s.io/v1
kind: TokenReview
spec: {token: abc, audiences: [a]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: map}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  reinvocationPolicy: Never
  variables: [{name: a, expression: "object.metadata.name"}]
  matchConditions: [{name: m, expression: "true"}]
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': variables.a}}}"}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.none.example.com}
spec: {group: none.example.com, version: v1, groupPriorityMinimum: 10, versionPriority: 10, service: {name: a, namespace: b}, insecureSkipTLSVerify: true}
`

// active are objects that judge or change the bodies.
const active = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: judge}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["configmaps", "secrets", "things", "pods", "deployments", "services"]}]}
  variables: [{name: labels, expression: "has(object.metadata.labels) ? object.metadata.labels : {}"}]
  validations:
  - {expression: "variables.labels.all(k, k != 'never')"}
  - {expression: "!has(object.data) || object.data.all(k, k.size() < 1000)", messageExpression: "'too long ' + object.metadata.name"}
  - {expression: "object == null || oldObject == null || object.metadata.name == oldObject.metadata.name"}
  auditAnnotations: [{key: a, valueExpression: "string(object.metadata.name)"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: judge}
spec: {policyName: judge, validationActions: [Deny, Audit]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: change}
spec:
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["configmaps", "things", "pods", "services"]}]}
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'marked': 'yes'}}}"}}
  - {patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/annotations', value: has(object.metadata.annotations) ? object.metadata.annotations : {}}]"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: change}
spec: {policyName: change}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: default}
spec: {hard: {configmaps: "1000", pods: "1000", services: "1000"}}
`

// manifestsOf reads the documents of a YAML file.
func manifestsOf(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		var o map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(part), &o))
		if o != nil {
			all = append(all, o)
		}
	}
	return all
}

// place is where the objects of a kind are.
type place struct {
	path       string
	namespaced bool
	subs       []string
}

// places reads from the discovery of a server where its kinds are.
func (s *server) places(t *testing.T) map[string]place {
	t.Helper()
	out := map[string]place{}
	for _, root := range []string{"/api", "/apis"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+root, http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer master")
		request.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		_, doc := s.answer(t, request)
		var found struct {
			Items []struct {
				Metadata struct{ Name string }
				Versions []struct {
					Version   string
					Resources []struct {
						Resource, Scope string
						ResponseKind    struct{ Group, Version, Kind string }
						Subresources    []struct{ Subresource string }
					}
				}
			}
		}
		text, err := json.Marshal(doc)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &found))
		for _, g := range found.Items {
			for _, v := range g.Versions {
				for _, r := range v.Resources {
					gv := strings.TrimPrefix(g.Metadata.Name+"/"+v.Version, "/")
					p := place{path: root + "/" + gv + "/", namespaced: r.Scope == "Namespaced"}
					if p.namespaced {
						p.path += "namespaces/default/"
					}
					p.path += r.Resource
					for _, sub := range r.Subresources {
						p.subs = append(p.subs, sub.Subresource)
					}
					out[gv+"/"+r.ResponseKind.Kind] = p
				}
			}
		}
	}
	return out
}

// spot is a value in a tree that can be replaced.
type spot struct {
	path  string
	value any
	set   func(any)
}

// spots are all values of a tree.
func spots(path string, value any, set func(any), to []spot) []spot {
	to = append(to, spot{path, value, set})
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			to = spots(path+"."+name, v[name], func(x any) { v[name] = x }, to)
		}
	case []any:
		for i := range v {
			to = spots(fmt.Sprintf("%s[%d]", path, i), v[i], func(x any) { v[i] = x }, to)
		}
	}
	return to
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			out[k] = clone(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = clone(x)
		}
		return out
	}
	return v
}

// itemNamed makes the names in an item its own.
func itemNamed(v any, i int) any {
	out := clone(v)
	m, ok := out.(map[string]any)
	if !ok {
		if s, isText := out.(string); isText {
			return fmt.Sprintf("%s%d", s, i)
		}
		return out
	}
	for name, x := range m {
		switch x := x.(type) {
		case string:
			if name == "name" || name == "key" || name == "uid" || name == "mountPath" || name == "path" || name == "host" {
				m[name] = fmt.Sprintf("%s%d", x, i)
			}
		case float64:
			if strings.HasSuffix(strings.ToLower(name), "port") {
				m[name] = float64(1 + i%65000)
			}
		}
	}
	return out
}

func length(v any) int {
	text, _ := json.Marshal(v)
	return len(text) + 1
}

// grow makes one value of an object large.
func grow(r *rand.Rand, object map[string]any, size int) string {
	all := spots("", object, nil, nil)[1:]
	for {
		s := all[r.IntN(len(all))]
		if s.path == ".apiVersion" || s.path == ".kind" || (s.path == ".metadata" && r.IntN(3) > 0) {
			continue
		}
		switch v := s.value.(type) {
		case []any:
			if len(v) == 0 {
				continue
			}
			item := v[r.IntN(len(v))]
			unique := r.IntN(3) > 0
			out := slices.Clone(v)
			for i, n := 0, size/max(2, length(item)+4); i < n; i++ {
				if unique {
					out = append(out, itemNamed(item, i))
				} else {
					out = append(out, item)
				}
			}
			s.set(out)
			return fmt.Sprintf("%s: %d items, unique: %t", s.path, len(out), unique)
		case map[string]any:
			var sample any = "v"
			sort := "texts"
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if r.IntN(3) == 0 {
					sample, sort = v[name], "like "+name
					break
				}
			}
			switch r.IntN(8) {
			case 0:
				sample, sort = map[string]any{}, "empty objects"
			case 1:
				sample, sort = nil, "nulls"
			case 2:
				sample, sort = []any{}, "empty lists"
			}
			n := size / max(4, length(sample)+10)
			for i := range n {
				v[fmt.Sprintf("k%d", i)] = sample
			}
			return fmt.Sprintf("%s: %d members, %s", s.path, n, sort)
		case string:
			unit := []string{v, "x", "a b ", "a.", "\u00e9", "-", "1", "(", "[", "/", "*", ",a=b", "\\d", "1+", "self."}[r.IntN(15)]
			if unit == "" {
				unit = "y"
			}
			s.set(strings.Repeat(unit, size/len(unit)))
			return fmt.Sprintf("%s: text of %.20q", s.path, unit)
		default:
			if r.IntN(3) > 0 {
				continue
			}
			s.set([]any{json.Number(strings.Repeat("9", min(size, 1<<20))), strings.Repeat("1", size), map[string]any{"a": strings.Repeat("1", size)}, nest(min(size/8, 500))}[r.IntN(4)])
			return s.path + ": another type"
		}
	}
}

func nest(n int) any {
	var v any = 1
	for range n {
		v = map[string]any{"a": v}
	}
	return v
}

type request struct {
	what, method, path, typ string
	data                    []byte
}

type spent struct {
	request

	code      int
	allocated uint64
	cpu, took time.Duration
	answer    string
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (s *server) spend(t *testing.T, q request) spent {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := cpuTime(), time.Now()
	hr, err := http.NewRequestWithContext(t.Context(), q.method, s.url+q.path, bytes.NewReader(q.data))
	require.NoError(t, err)
	hr.Header.Set("Content-Type", q.typ)
	hr.Header.Set("Authorization", "Bearer master")
	out := spent{request: q}
	answer, err := s.client.Do(hr)
	if err != nil {
		out.answer = err.Error()
		return out
	}
	head := make([]byte, 300)
	n, _ := io.ReadFull(answer.Body, head)
	out.answer = string(head[:n])
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	runtime.ReadMemStats(&after)
	out.code, out.allocated, out.cpu, out.took = answer.StatusCode, after.TotalAlloc-before.TotalAlloc, cpuTime()-cpu, time.Since(began)
	return out
}

var protobufs = serializer.NewCodecFactory(scheme.Scheme)

// inProtobuf converts an object whose type client-go knows.
func inProtobuf(data []byte) []byte {
	o, _, err := protobufs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil
	}
	for _, info := range protobufs.SupportedMediaTypes() {
		if info.MediaType == "application/vnd.kubernetes.protobuf" {
			if out, err := apiruntime.Encode(info.Serializer, o); err == nil {
				return out
			}
		}
	}
	return nil
}

// TestS1_CostOfBodies grows one part of an object of some kind, and sends it in some form by some verb, while policies judge
// and change what is sent. "make body-search" sends thousands. It counts the bytes that the whole program allocates for
// each, and the processor time, which is only told. The limit holds for what all costs together: a body whose cost is not
// linear in its length exceeds it soon. The most that is known is 403 MiB, for a pod of 8,005 containers under policies.
func TestS1_CostOfBodies(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir(), "--runtime-config=api/all=true")
	data, err := os.ReadFile("../testdata/objects.yaml")
	require.NoError(t, err)
	all := append(manifestsOf(t, string(data)), manifestsOf(t, extras)...)
	for _, o := range append(slices.Clone(all), manifestsOf(t, active)...) {
		s.put(t, o)
	}
	places := s.places(t)
	all = slices.DeleteFunc(all, func(o map[string]any) bool {
		_, served := places[kindOf(o)]
		return !served
	})
	r := rand.New(rand.NewPCG(*bodySeed, 13))
	var byMemory, byTime []spent
	codes := map[int]int{}
	for range effort.Of(*bodies) {
		q := randomRequest(r, all, places)
		if q.data == nil || len(q.data) > 3<<20 {
			continue
		}
		f := s.spend(t, q)
		codes[f.code]++
		require.NotZero(t, f.code, "%s", f)
		require.True(t, f.code < 500 || strings.Contains(q.path, "/proxy"), "%s", f)
		require.LessOrEqual(t, f.allocated, uint64(512<<20), "%s", f)
		keep(&byMemory, f, func(a spent) float64 { return float64(a.allocated) / float64(1<<20+64*len(a.data)) })
		keep(&byTime, f, func(a spent) float64 { return float64(a.cpu) })
	}
	t.Logf("answers by code: %v", codes)
	for _, f := range byMemory {
		t.Logf("memory: %s", f)
	}
	for _, f := range byTime {
		t.Logf("time: %s", f)
	}
}

func (f spent) String() string {
	return fmt.Sprintf("%d bytes, %.1f MiB allocated, %v of processors, %v, %d %s: %.150s", len(f.data), float64(f.allocated)/(1<<20),
		f.cpu.Round(time.Millisecond), f.took.Round(time.Millisecond), f.code, f.what, f.answer)
}

func kindOf(o map[string]any) string { return fmt.Sprint(o["apiVersion"], "/", o["kind"]) }

// put creates an object, and waits until the kind that it defines is served.
func (s *server) put(t *testing.T, o map[string]any) {
	t.Helper()
	p, served := s.places(t)[kindOf(o)]
	if o["kind"] == "APIService" || !served {
		return // a back end that is not there would be asked
	}
	text, err := json.Marshal(o)
	require.NoError(t, err)
	code, got := s.do(t, "master", "POST", p.path, string(text))
	require.Less(t, code, 500, "%s: %v", text, got)
	if o["kind"] == "CustomResourceDefinition" {
		require.Eventually(t, func() bool { return s.places(t)["bodies.example.com/v1/Thing"].path != "" }, time.Minute, 50*time.Millisecond)
	}
}

// keep keeps the worst.
func keep(worst *[]spent, f spent, by func(spent) float64) {
	i, _ := slices.BinarySearchFunc(*worst, f, func(a, b spent) int { return cmp.Compare(by(b), by(a)) })
	*worst = slices.Insert(*worst, i, f)[:min(len(*worst)+1, 12)]
}

// randomRequest grows one of the objects, and sends it somehow.
func randomRequest(r *rand.Rand, objects []map[string]any, places map[string]place) request {
	o, _ := clone(objects[r.IntN(len(objects))]).(map[string]any)
	p := places[kindOf(o)]
	size := []int{2 << 10, 20 << 10, 20 << 10, 100 << 10, 300 << 10, 1 << 20, 2_900_000}[r.IntN(7)]
	what := grow(r, o, size)
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if name == "" || len(name) > 300 {
		name = "x"
	}
	q := request{method: []string{"POST", "PUT", "PATCH", "PATCH"}[r.IntN(4)], path: p.path, typ: "application/json"}
	query := "?dryRun=All"
	if q.method != "POST" {
		q.path += "/" + name
		if len(p.subs) > 0 && r.IntN(4) == 0 {
			q.path += "/" + p.subs[r.IntN(len(p.subs))]
		}
	}
	if strings.HasSuffix(p.path, "reviews") {
		query = "?"
	}
	if q.method == "PATCH" {
		q.typ = []string{"application/merge-patch+json", "application/strategic-merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"}[r.IntN(4)]
		if q.typ == "application/apply-patch+yaml" {
			query += "&fieldManager=a&force=true"
		}
	}
	query += []string{"", "", "&fieldValidation=Strict", "&fieldManager=" + strings.Repeat("m", 128)}[r.IntN(4)]
	var text []byte
	if q.typ == "application/json-patch+json" {
		text, _ = json.Marshal([]any{map[string]any{"op": "add", "path": "", "value": o}})
		if r.IntN(2) == 0 {
			ops := []any{}
			for _, k := range slices.Sorted(maps.Keys(o)) {
				ops = append(ops, map[string]any{"op": "add", "path": "/" + k, "value": o[k]})
			}
			text, _ = json.Marshal(ops)
		}
	} else {
		text, _ = json.Marshal(o)
	}
	q.data = text
	if q.typ == "application/json" {
		switch r.IntN(4) {
		case 0:
			if out := inProtobuf(text); out != nil {
				q.data, q.typ = out, "application/vnd.kubernetes.protobuf"
			}
		case 1:
			if len(text) < 1<<20 {
				if out, err := yaml.JSONToYAML(text); err == nil {
					q.data, q.typ = out, "application/yaml"
				}
			}
		}
	}
	q.path += query
	q.what = fmt.Sprintf("%s %s %s: %s", q.method, q.typ, q.path, what)
	return q
}
