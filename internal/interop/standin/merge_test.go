package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// merged is an object with the configurations of two managers.
type merged struct {
	name, path   string // of the resource: version and plural
	subresource  string
	one, two     string   // the two configurations
	field        []string // the path to compare
	both, second string   // the expected value there, and the one after the first manager gives up its part
}

// Lists merge by the keys that Kubernetes publishes: the items of both managers are there, and go
// with their manager.
func mergedLists() []merged {
	pod := "spec: {containers: [{name: c, image: x%s}]}"
	workload := "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x%s}]}}}"
	ports := []string{`, ports: [{containerPort: 53, protocol: UDP}]`, `, ports: [{containerPort: 53}, {containerPort: 80, name: http}]`}
	at := func(form, add string) string { return fmt.Sprintf(form, add) }
	out := []merged{{
		name: "pod's volumes", path: "/v1/pods", one: "spec: {containers: [{name: c, image: x}], volumes: [{name: a, emptyDir: {}}]}", two: "spec: {containers: [{name: c, image: x}], volumes: [{name: b, emptyDir: {}}]}",
		field: []string{"spec", "volumes"}, both: `[{"name":"a","emptyDir":{}},{"name":"b","emptyDir":{}}]`,
	}, {
		name: "conditions", path: "/v1/pods", subresource: "status", one: "status: {conditions: [{type: A, status: \"True\"}]}", two: "status: {conditions: [{type: B, status: \"False\"}]}",
		field: []string{"status", "conditions"}, both: `[{"type":"A","status":"True"},{"type":"B","status":"False"}]`,
	}, {
		name: "a service's ports", path: "/v1/services", one: "spec: {selector: {a: b}, ports: [{name: u, port: 53, protocol: UDP}]}", two: "spec: {selector: {c: d}, ports: [{name: t, port: 53, protocol: TCP}, {name: h, port: 80}]}",
		field: []string{"spec", "ports"}, both: `[{"name":"u","port":53,"protocol":"UDP","targetPort":53},{"name":"t","port":53,"protocol":"TCP","targetPort":53},{"name":"h","port":80,"protocol":"TCP","targetPort":80}]`,
		second: `[{"name":"t","port":53,"protocol":"TCP","targetPort":53},{"name":"h","port":80,"protocol":"TCP","targetPort":80}]`,
	}, {
		name: "finalizers", path: "networking.k8s.io/v1/ingresses", one: "spec: {defaultBackend: {service: {name: a, port: {number: 1}}}}\nmetadata: {finalizers: [example.com/one], ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: u1}]}",
		two: "spec: {defaultBackend: {service: {name: a, port: {number: 1}}}}\nmetadata: {finalizers: [example.com/two], ownerReferences: [{apiVersion: v1, kind: Pod, name: b, uid: u2}]}", field: []string{"metadata", "finalizers"},
		both: `["example.com/one","example.com/two"]`, second: `["example.com/two"]`,
	}, {
		name: "owners", path: "/v1/configmaps", one: "metadata: {ownerReferences: [{apiVersion: v1, kind: Node, name: a, uid: u1}]}", two: "metadata: {ownerReferences: [{apiVersion: v1, kind: Node, name: b, uid: u2}], finalizers: [example.com/hold]}",
		field: []string{"metadata", "ownerReferences"}, both: `[{"apiVersion":"v1","kind":"Node","name":"a","uid":"u1"},{"apiVersion":"v1","kind":"Node","name":"b","uid":"u2"}]`, second: `[{"apiVersion":"v1","kind":"Node","name":"b","uid":"u2"}]`,
	}, {
		name: "finalizers through a version", path: "autoscaling/v1/horizontalpodautoscalers", one: "spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}\nmetadata: {finalizers: [a.example.com/x]}", two: "spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}\nmetadata: {finalizers: [b.example.com/x]}",
		field: []string{"metadata", "finalizers"}, both: `["a.example.com/x","b.example.com/x"]`, second: `["b.example.com/x"]`,
	}, {
		name: "finalizers through the other", path: "autoscaling/v2/horizontalpodautoscalers", one: "spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}\nmetadata: {finalizers: [a.example.com/x]}", two: "spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}\nmetadata: {finalizers: [b.example.com/x]}",
		field: []string{"metadata", "finalizers"}, both: `["a.example.com/x","b.example.com/x"]`, second: `["b.example.com/x"]`,
	}}
	for _, w := range []struct{ path, form string }{{"/v1/pods", pod}, {"apps/v1/deployments", workload}, {"apps/v1/statefulsets", workload}, {"apps/v1/daemonsets", workload}} {
		field := []string{"spec", "template", "spec", "containers"}
		if w.form == pod {
			field = []string{"spec", "containers"}
		} else {
			out = append(out, merged{
				name: "containers", path: w.path, one: at(w.form, "}, {name: side, image: side"), two: at(w.form, "}, {name: other, image: other"), field: append(field, "name"), both: `["c","side","other"]`, second: `["c","other"]`,
			})
		}
		m := merged{name: "ports", path: w.path, one: at(w.form, ports[0]), two: at(w.form, ports[1]), field: append(append([]string{}, field...), "0", "ports"), both: `[{"containerPort":53,"protocol":"UDP"},{"containerPort":53,"protocol":"TCP"},{"containerPort":80,"name":"http","protocol":"TCP"}]`}
		if w.form != pod { // the ports of a pod are immutable
			m.second = `[{"containerPort":53,"protocol":"TCP"},{"containerPort":80,"name":"http","protocol":"TCP"}]`
		} else {
			m.two, m.both = m.one, `[{"containerPort":53,"protocol":"UDP"}]`
		}
		out = append(out, m)
	}
	return out
}

func TestSSA_ListsOfKubernetesKinds(t *testing.T) {
	k := newKubectl(t)
	client, err := dynamic.NewForConfig(k.config)
	require.NoError(t, err)
	for i, m := range mergedLists() {
		t.Run(m.path+" "+m.name, func(t *testing.T) { m.check(t, client, fmt.Sprint("merged-", i)) })
	}
}

func (m merged) check(t *testing.T, client dynamic.Interface, name string) {
	var gvr schema.GroupVersionResource
	parts := splitPath(m.path)
	gvr.Group, gvr.Version, gvr.Resource = parts[0], parts[1], parts[2]
	resource := client.Resource(gvr).Namespace("default")
	kind := map[string]string{"pods": "Pod", "services": "Service", "ingresses": "Ingress", "configmaps": "ConfigMap", "horizontalpodautoscalers": "HorizontalPodAutoscaler", "deployments": "Deployment", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet"}[gvr.Resource]
	apply := func(manager, text string, sub ...string) (*unstructured.Unstructured, error) {
		t.Helper()
		o := map[string]any{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &o), text)
		metadata, _ := o["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["name"] = name
		o["metadata"], o["kind"], o["apiVersion"] = metadata, kind, gvr.GroupVersion().String()
		body, err := json.Marshal(o)
		require.NoError(t, err)
		force := true
		return resource.Patch(context.Background(), name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: manager, Force: &force}, sub...)
	}
	var sub []string
	if m.subresource != "" {
		sub = []string{m.subresource}
		_, err := apply("maker", "spec: {containers: [{name: c, image: x}]}")
		require.NoError(t, err)
	}
	_, err := apply("one", m.one, sub...)
	require.NoError(t, err)
	got, err := apply("two", m.two, sub...)
	if m.name == "pod's volumes" {
		require.True(t, apierrors.IsInvalid(err), "merged, then rejected as a change: %v", err)
		return
	}
	require.NoError(t, err)
	require.JSONEq(t, m.both, found(t, got.Object, m.field))
	again, err := apply("two", m.two, sub...)
	require.NoError(t, err)
	require.Equal(t, got.GetResourceVersion(), again.GetResourceVersion())
	if m.second == "" {
		return
	}
	if got, err = apply("one", "{}", sub...); apierrors.IsInvalid(err) {
		got, err = apply("one", m.two, sub...) // the object is invalid without the fields of both
	}
	require.NoError(t, err)
	require.JSONEq(t, m.second, found(t, got.Object, m.field))
}

func splitPath(path string) (out [3]string) {
	n, from := 0, 0
	for i := range path {
		if path[i] == '/' {
			out[n], from = path[from:i], i+1
			n++
		}
	}
	out[n] = path[from:]
	return out
}

// found returns the value at a path as JSON: a number is an index, and a name below a list yields
// that field of each item.
func found(t *testing.T, v any, path []string) string {
	t.Helper()
	for _, step := range path {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			if step == "0" {
				v = at[0]
				continue
			}
			var names []any
			for _, item := range at {
				names = append(names, item.(map[string]any)[step]) //nolint:forcetypeassert // such lists contain objects
			}
			v = names
		}
	}
	if all, ok := v.([]any); ok { // Kubernetes writes null for unset times
		for _, item := range all {
			if o, ok := item.(map[string]any); ok {
				maps.DeleteFunc(o, func(_ string, v any) bool { return v == nil })
			}
		}
	}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
