package kube

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A podCase is an object with pods, and how kube-apiserver answers it.
type podCase struct {
	Name, Kind string
	Object     json.RawMessage
	Verdict    string   // the code and the fields of an error
	Stored     any      `json:",omitempty"` // of the object, beyond what one without anything has
	Warnings   []string `json:",omitempty"`
}

// collectionsOfPods are where objects with pods are.
var collectionsOfPods = map[string]string{
	"Pod":                     "/api/v1/namespaces/default/pods",
	"ReplicationController":   "/api/v1/namespaces/default/replicationcontrollers",
	"Deployment":              "/apis/apps/v1/namespaces/default/deployments",
	"ReplicaSet":              "/apis/apps/v1/namespaces/default/replicasets",
	"StatefulSet":             "/apis/apps/v1/namespaces/default/statefulsets",
	"DaemonSet":               "/apis/apps/v1/namespaces/default/daemonsets",
	"Job":                     "/apis/batch/v1/namespaces/default/jobs",
	"CronJob":                 "/apis/batch/v1/namespaces/default/cronjobs",
	"HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
}

// ask sends the object of a case as a dry run.
func (c *podCase) ask(t *testing.T, s *target, plain map[string]map[string]any) podCase {
	answer, body := s.answer(t, "POST", collectionsOfPods[c.Kind]+"?dryRun=All", string(c.Object))
	out := podCase{
		Name: c.Name, Kind: c.Kind, Object: c.Object,
		Verdict:  strings.Join(refusal(answer.StatusCode, body), ", "),
		Warnings: warningsOf(answer.Header.Values("Warning")),
	}
	if answer.StatusCode == 201 {
		out.Stored = beyond(still(body), plain[c.Kind])
	}
	return out
}

// warningsOf returns the texts of Warning headers.
func warningsOf(headers []string) []string {
	out := make([]string, 0, len(headers))
	for _, h := range headers {
		out = append(out, strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(h, `299 - "`), `"`), `\"`, `"`))
	}
	return out
}

// beyond returns what a value has that another one does not have in the same place.
func beyond(v, plain any) any {
	switch v := v.(type) {
	case map[string]any:
		p, _ := plain.(map[string]any)
		out := map[string]any{}
		for name, value := range v {
			if !reflect.DeepEqual(value, p[name]) {
				out[name] = beyond(value, p[name])
			}
		}
		for name := range p {
			if _, has := v[name]; !has {
				out[name] = "(none)"
			}
		}
		return out
	case []any:
		p, _ := plain.([]any)
		out := make([]any, len(v))
		for i := range v {
			out[i] = v[i]
			if len(p) > 0 {
				out[i] = beyond(v[i], p[min(i, len(p)-1)])
			}
		}
		return out
	}
	return v
}

// plainOf returns what a server stores for objects with nothing but a container.
func plainOf(t *testing.T, s *target) map[string]map[string]any {
	const pod = `{"containers":[{"name":"a","image":"i:1"}]}`
	const template = `{"metadata":{"labels":{"a":"b"}},"spec":` + pod + `}`
	const selected = `{"selector":{"matchLabels":{"a":"b"}},"template":` + template + `}`
	job := `{"template":` + strings.Replace(template, `"spec":{`, `"spec":{"restartPolicy":"Never",`, 1) + `}`
	out := map[string]map[string]any{}
	for kind, spec := range map[string]string{
		"Pod": pod, "Deployment": selected, "ReplicaSet": selected, "StatefulSet": selected, "DaemonSet": selected, "Job": job,
		"ReplicationController":   `{"selector":{"a":"b"},"template":` + template + `}`,
		"CronJob":                 `{"schedule":"* * * * *","jobTemplate":{"spec":` + job + `}}`,
		"HorizontalPodAutoscaler": `{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":5}`,
	} {
		out[kind] = still(s.must(t, 201, "POST", collectionsOfPods[kind]+"?dryRun=All", `{"metadata":{"name":"p"},"spec":`+spec+`}`))
	}
	return out
}

// Pods, alone and in templates, have the checks, defaults and warnings of kube-apiserver.
func TestCREATE_PodsAreJudgedAsByKubernetes(t *testing.T) { judge(t, "testdata/pods.json") }

// So do the objects that make pods, and those that scale them.
func TestCREATE_WorkloadsAreJudgedAsByKubernetes(t *testing.T) { judge(t, "testdata/workloads.json") }

// recorded returns the cases of a file. With -update-stored, asking asks the peer for each first, and the file is
// written again, a line a case.
func recorded[T any](t *testing.T, file string, asking func(peer *target) func(*T) T) (cases []T) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	if !*updateStored {
		return cases
	}
	p := thePeer()
	require.NotNil(t, p, "-peer says which server to ask")
	ask, lines := asking(p), make([]string, len(cases))
	for i := range cases {
		cases[i] = ask(&cases[i])
		line, err := json.Marshal(cases[i])
		require.NoError(t, err)
		lines[i] = string(line)
	}
	require.NoError(t, os.WriteFile(file, []byte("[\n"+strings.Join(lines, ",\n")+"\n]\n"), 0o644))
	return cases
}

// judge compares a server with the answers in a file.
func judge(t *testing.T, file string) {
	cases := recorded(t, file, func(peer *target) func(*podCase) podCase {
		plain := plainOf(t, peer)
		return func(c *podCase) podCase { return c.ask(t, peer, plain) }
	})
	s := serve(t, Options{Unprivileged: true}) // as kube-apiserver without --allow-privileged
	plain := plainOf(t, s)
	seen := map[string]bool{}
	for i := range cases {
		want := cases[i]
		require.False(t, seen[want.Name], want.Name)
		seen[want.Name] = true
		t.Run(want.Name, func(t *testing.T) {
			got := want.ask(t, s, plain)
			require.Equal(t, want.Verdict, got.Verdict)
			require.Equal(t, pretty(t, want.Stored), pretty(t, got.Stored))
			if len(want.Warnings)+len(got.Warnings) > 0 {
				require.Equal(t, want.Warnings, got.Warnings)
			}
		})
	}
}

// A podUpdate is a change of a pod or of a subresource of it, and how kube-apiserver answers.
type podUpdate struct {
	Name, Sub   string
	Base, Patch json.RawMessage
	Verdict     string
	Warnings    []string `json:",omitempty"`
}

// ask creates a pod of the test and sends the change as a dry run.
func (u *podUpdate) ask(t *testing.T, s *target) podUpdate {
	var pod map[string]any
	require.NoError(t, json.Unmarshal(u.Base, &pod))
	pod["metadata"].(map[string]any)["generateName"] = "update-" //nolint:forcetypeassert // a pod has metadata
	text, err := json.Marshal(pod)
	require.NoError(t, err)
	at := collectionsOfPods["Pod"]
	made := s.must(t, 201, "POST", at, string(text))
	at += "/" + word(made["metadata"].(map[string]any)["name"]) //nolint:forcetypeassert // see above
	answer, body := s.answer(t, "PATCH", at+u.Sub+"?dryRun=All", string(u.Patch), "Content-Type", "application/merge-patch+json")
	s.must(t, 200, "DELETE", at, `{"gracePeriodSeconds":0}`)
	out := *u
	out.Verdict, out.Warnings = strings.Join(refusal(answer.StatusCode, body), ", "), warningsOf(answer.Header.Values("Warning"))
	return out
}

// Pods and their resizes, ephemeral containers and statuses change as in kube-apiserver.
func TestUPDATE_PodsChangeAsInKubernetes(t *testing.T) {
	cases := recorded(t, "testdata/podupdates.json", func(peer *target) func(*podUpdate) podUpdate {
		return func(c *podUpdate) podUpdate { return c.ask(t, peer) }
	})
	s := serve(t, Options{Unprivileged: true})
	for _, want := range cases {
		t.Run(want.Name, func(t *testing.T) {
			got := want.ask(t, s)
			require.Equal(t, want.Verdict, got.Verdict)
			if len(want.Warnings)+len(got.Warnings) > 0 {
				require.Equal(t, want.Warnings, got.Warnings)
			}
		})
	}
}
