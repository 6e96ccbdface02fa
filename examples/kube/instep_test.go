package kube

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFieldsThatExistTwiceAreInStep(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", podsPath, podNamed("web", `"nodeName":"n1","serviceAccount":"old",`))
	require.Equal(t, "old", at(s.must(t, 200, "GET", podsPath+"/web", ""), "spec", "serviceAccountName"))
	report := func(body string) map[string]any {
		return s.must(t, 200, "PATCH", podsPath+"/web/status", body, "Content-Type", merge)["status"].(map[string]any)
	}
	addresses := func(ips ...string) []any {
		out := []any{}
		for _, ip := range ips {
			out = append(out, map[string]any{"ip": ip})
		}
		return out
	}
	for _, c := range []struct {
		about, send, one string
		all              []any
	}{
		{"the list follows the single address", `{"podIP":"10.1.0.1"}`, "10.1.0.1", addresses("10.1.0.1")},
		{"the single address counts", `{"podIP":"10.1.0.2"}`, "10.1.0.2", addresses("10.1.0.2")},
		{"a longer list", `{"podIPs":[{"ip":"10.1.0.2"},{"ip":"fd00::2"}]}`, "10.1.0.2", addresses("10.1.0.2", "fd00::2")},
		{"the single address follows the list", `{"podIP":null}`, "10.1.0.2", addresses("10.1.0.2", "fd00::2")},
		{"both are taken away", `{"podIP":null,"podIPs":null}`, "", nil},
		{"the list alone", `{"podIPs":[{"ip":"10.1.0.3"}]}`, "10.1.0.3", addresses("10.1.0.3")},
	} {
		got := report(`{"status":` + c.send + `}`)
		require.Equal(t, []any{c.one, c.all}, []any{word(got["podIP"]), list(got["podIPs"])}, c.about)
	}
	hosts := report(`{"status":{"hostIP":"10.1.0.1"}}`)
	require.Equal(t, []any{"10.1.0.1", nil}, []any{hosts["hostIP"], hosts["hostIPs"]}, "kube-apiserver keeps the host's as they are sent")
	differ := s.must(t, 422, "PATCH", podsPath+"/web/status", `{"status":{"hostIPs":[{"ip":"10.1.0.2"}]}}`, "Content-Type", merge)
	require.Contains(t, differ["message"], "status.hostIPs[0].ip: Invalid value: \"10.1.0.2\": must be equal to `hostIP`")

	const nodes = "/api/v1/nodes"
	s.must(t, 201, "POST", nodes, `{"metadata":{"name":"n1"},"spec":{"podCIDR":"10.2.0.0/24"}}`)
	require.Equal(t, []any{"10.2.0.0/24"}, at(s.must(t, 200, "GET", nodes+"/n1", ""), "spec", "podCIDRs"))
	s.must(t, 201, "POST", nodes, `{"metadata":{"name":"n2"},"spec":{"podCIDRs":["10.3.0.0/24","fd00::/64"]}}`)
	require.Equal(t, "10.3.0.0/24", at(s.must(t, 200, "GET", nodes+"/n2", ""), "spec", "podCIDR"))
}

func TestABindingTakesNothingAway(t *testing.T) {
	s := serve(t, Options{})
	for name, body := range map[string]string{
		"bare":  `{"metadata":{"name":"bare"},"target":{"kind":"Node","name":"n1"}}`,
		"empty": `{"metadata":{"name":"empty","labels":{},"annotations":{}},"target":{"kind":"Node","name":"n1"}}`,
		"null":  `{"metadata":{"name":"null","labels":null,"annotations":null},"target":{"kind":"Node","name":"n1"}}`,
		"more":  `{"metadata":{"name":"more","labels":{"x":"y"},"annotations":{"x":"y"}},"target":{"kind":"Node","name":"n1"}}`,
	} {
		before := s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"`+name+`","labels":{"app":"web"},"annotations":{"by":"hand"}},
			"spec":{"containers":[{"name":"c","image":"x"}]}}`)["metadata"].(map[string]any)
		s.must(t, 201, "POST", podsPath+"/"+name+"/binding", body)
		bound := s.must(t, 200, "GET", podsPath+"/"+name, "")
		require.Equal(t, "n1", at(bound, "spec", "nodeName"))
		after := bound["metadata"].(map[string]any)
		if name == "more" {
			require.Equal(t, map[string]any{"app": "web", "x": "y"}, after["labels"])
			require.Equal(t, map[string]any{"by": "hand", "x": "y"}, after["annotations"])
			continue
		}
		for _, field := range []string{"labels", "annotations"} {
			require.Equal(t, before[field], after[field], "%s: %s", name, field)
		}
	}
}

func TestVER_15_AutoscalersKeepWhatTheFirstVersionDoesNotShow(t *testing.T) {
	s := serve(t, Options{})
	const hpas = "/apis/autoscaling/%s/namespaces/default/horizontalpodautoscalers"
	cpu := `{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}`
	others := []string{
		`{"type":"Resource","resource":{"name":"memory","target":{"type":"Utilization","averageUtilization":60}}}`,
		`{"type":"External","external":{"metric":{"name":"q"},"target":{"type":"Value","value":"10"}}}`,
		`{"type":"ContainerResource","containerResource":{"container":"c","name":"cpu","target":{"type":"Utilization","averageUtilization":60}}}`,
	}
	for name, metrics := range map[string][]string{
		"first": {cpu, others[0], others[1]}, "last": {others[2], others[0], cpu}, "none": {others[0]}, "all": {others[0], cpu, others[1], others[2]},
	} {
		s.must(t, 201, "POST", fmt.Sprintf(hpas, "v2"), `{"metadata":{"name":"`+name+`"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},
			"maxReplicas":3,"behavior":{"scaleDown":{"stabilizationWindowSeconds":7}},"metrics":[`+strings.Join(metrics, ",")+`]}}`)
		v1, v2 := fmt.Sprintf(hpas, "v1")+"/"+name, fmt.Sprintf(hpas, "v2")+"/"+name
		s.must(t, 200, "PATCH", v2+"/status", `{"status":{"conditions":[{"type":"AbleToScale","status":"True"}]}}`, "Content-Type", merge)
		before := s.must(t, 200, "GET", v2, "")
		for _, use := range []string{"70", "71", "null"} {
			s.must(t, 200, "PATCH", v1, `{"spec":{"targetCPUUtilizationPercentage":`+use+`,"maxReplicas":5}}`, "Content-Type", merge)
			after := s.must(t, 200, "GET", v2, "")
			require.Equal(t, at(before, "spec", "behavior"), at(after, "spec", "behavior"))
			require.Equal(t, at(before, "status", "conditions"), at(after, "status", "conditions"))
			var rest []any
			for _, m := range list(at(after, "spec", "metrics")) {
				if at(m, "resource", "name") != "cpu" {
					rest = append(rest, m)
				}
			}
			for _, m := range list(at(before, "spec", "metrics")) {
				if at(m, "resource", "name") != "cpu" {
					require.Contains(t, rest, m, "%s: %s", name, use)
				}
			}
			if now := s.must(t, 200, "GET", v1, ""); use != "null" {
				require.Equal(t, use, word(int64(at(now, "spec", "targetCPUUtilizationPercentage").(float64))))
			}
		}
	}
}

func TestNamesThatNoKeyCanHold(t *testing.T) {
	s := serve(t, Options{})
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	for _, name := range []string{"a\x00b", strings.Repeat("x", 3000)} {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": name}})
		require.NoError(t, err)
		no := s.must(t, 422, "POST", roles, string(body))
		require.Contains(t, no["message"], "metadata.name")
		version := at(s.must(t, 200, "GET", roles, ""), "metadata", "resourceVersion")
		found := s.must(t, 200, "GET", fmt.Sprintf("%s?resourceVersionMatch=Exact&resourceVersion=%v&fieldSelector=%s", roles, version, url.QueryEscape("metadata.name="+name)), "")
		require.Empty(t, found["items"])
	}
}

// A protocol or an address that no key of the store can hold is refused by the rules of services.
func TestPortsAndAddressesThatNoKeyCanHold(t *testing.T) {
	s := serve(t, Options{})
	const services = "/api/v1/namespaces/default/services"
	for _, text := range []string{strings.Repeat("x", 3000), "a\x00b", strings.Repeat("/", 700)} {
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		no := s.must(t, 422, "POST", services, fmt.Sprintf(`{"metadata":{"name":"a"},"spec":{"type":"NodePort","ports":[{"port":80,"protocol":%s}]}}`, quoted))
		require.Contains(t, no["message"], "spec.ports[0].protocol")
		no = s.must(t, 422, "POST", services, fmt.Sprintf(`{"metadata":{"name":"a"},"spec":{"clusterIP":%s,"clusterIPs":[%[1]s],"ports":[{"port":80}]}}`, quoted))
		require.Contains(t, no["message"], "spec.clusterIPs[0]")
	}
}
