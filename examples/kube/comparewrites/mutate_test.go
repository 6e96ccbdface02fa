package main

import (
	"encoding/json"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// theSource is a part of k8s.io/api. A Pod has no status there, and a spec has one field.
const theSource = `package v1

const LabelHostname = "kubernetes.io/hostname"

type RestartPolicy string

const (
	RestartPolicyAlways RestartPolicy = "Always"
	RestartPolicyNever  RestartPolicy = "Never"
)

type Pod struct {
	metav1.TypeMeta ` + "`json:\",inline\"`" + `
	Spec PodSpec    ` + "`json:\"spec,omitempty\"`" + `
}

type PodSpec struct {
	RestartPolicy RestartPolicy ` + "`json:\"restartPolicy,omitempty\"`" + `
}
`

func testSource(t *testing.T) *source {
	t.Helper()
	s, err := readSource(fstest.MapFS{"core/v1/types.go": {Data: []byte(theSource)}})
	require.NoError(t, err)
	return s
}

// aSubject is a subject that is stored as it is sent.
func aSubject(t *testing.T, text string, of any) *subject {
	t.Helper()
	s := &subject{typ: reflect.TypeOf(of), status: true}
	require.NoError(t, yaml.Unmarshal([]byte(text), &s.sent))
	s.kind = s.typ.Name()
	return s
}

func TestASourceSaysWhatThereIs(t *testing.T) {
	s := testSource(t)
	require.Equal(t, []string{"Always", "Never"}, s.values(reflect.TypeFor[corev1.RestartPolicy]()))
	require.Empty(t, s.values(reflect.TypeFor[string]()))
	require.True(t, s.has(reflect.TypeFor[corev1.PodSpec](), "restartPolicy"))
	require.False(t, s.has(reflect.TypeFor[corev1.PodSpec](), "hostNetwork"))
	require.True(t, s.has(reflect.TypeFor[corev1.Container](), "name"), "a type that the source has elsewhere")

	_, err := readSource(fstest.MapFS{})
	require.ErrorContains(t, err, "types.go")
	_, err = readSource(fstest.MapFS{"core/v1/types.go": {Data: []byte("package")}})
	require.ErrorContains(t, err, "core/v1/types.go")
}

func TestNewerFieldsStayEmpty(t *testing.T) {
	g := newGenerator(testSource(t), 1)
	pod := aSubject(t, "{metadata: {name: p, namespace: default}, spec: {restartPolicy: Always}}", corev1.Pod{})
	seen := map[any]bool{}
	for range 500 {
		w := g.write(pod, pod.sent)
		require.NotContains(t, w.object, "status")
		spec, _ := w.object["spec"].(map[string]any)
		for name := range spec {
			require.Equal(t, "restartPolicy", name)
		}
		seen[spec["restartPolicy"]] = true
	}
	require.Subset(t, seen, map[any]bool{"Always": true, "Never": true, "": true, nil: true})
}

func TestTheWritesOfASeedAreTheSame(t *testing.T) {
	const text = `{metadata: {name: p, labels: {a: b}, managedFields: []}, status: {phase: Running}, spec: {hostname: h, nodeSelector: {c: d, e: f},
		containers: [{name: a, env: [{name: A}], resources: {limits: {cpu: 1}}, ports: [{containerPort: 80}]}]}}`
	all := &source{}
	writes := func(seed uint64) []string {
		g, pod := newGenerator(all, seed), aSubject(t, text, corev1.Pod{})
		before, err := json.Marshal(pod.sent)
		require.NoError(t, err)
		var out []string
		for range 300 {
			w := g.write(pod, pod.sent)
			object, err := json.Marshal(w.object)
			require.NoError(t, err)
			out = append(out, w.op+string(object))
			if w.op == opCreate {
				require.Equal(t, "pp", metadata(w.object)["name"])
			} else {
				require.NotContains(t, metadata(w.object), "managedFields")
			}
		}
		after, err := json.Marshal(pod.sent)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "what is changed is not what was given")
		return out
	}
	require.Equal(t, writes(1), writes(1))
	require.NotEqual(t, writes(1), writes(2))
}

func TestWritesAreOfOnePart(t *testing.T) {
	g := newGenerator(&source{}, 1)
	pod := aSubject(t, "{metadata: {name: p}, status: {phase: Running}, spec: {hostname: h}}", corev1.Pod{})
	ops := map[string]int{}
	for range 200 {
		w := g.write(pod, pod.sent)
		ops[w.op]++
		part := "status"
		if w.op == opStatus {
			part = "spec"
		}
		require.Equal(t, pod.sent[part], w.object[part], "%s", w.op)
	}
	require.Len(t, ops, 3)
	pod.status = false
	for range 50 {
		require.NotEqual(t, opStatus, g.write(pod, pod.sent).op)
	}
}

// TestValuesHaveTheirTypes decodes new values of every kind of a pod.
func TestValuesHaveTheirTypes(t *testing.T) {
	g := newGenerator(&source{}, 1)
	for range 500 {
		data, err := json.Marshal(g.value(reflect.TypeFor[corev1.PodSpec](), 6))
		require.NoError(t, err)
		var spec corev1.PodSpec
		if err := json.Unmarshal(data, &spec); err != nil {
			require.ErrorContains(t, err, "int", "%s", data) // some numbers are too large for some fields
		}
	}
}
