package kube

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	limitsPath = "/api/v1/namespaces/default/limitranges"
	claimsPath = "/api/v1/namespaces/default/persistentvolumeclaims"
)

// sized is a pod whose container has resources.
func sized(name, resources string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":"x","resources":%s}]}}`, name, resources)
}

// What Kubernetes tests in plugin/pkg/admission/limitranger (TestMergePodResourceRequirements).
func TestQUOTA_04_LimitRangesFillPods(t *testing.T) {
	s := serveWith(t, LimitRangerPlugin())
	s.must(t, 201, "POST", limitsPath, `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container",
		"default":{"cpu":"75m","memory":"10Mi"},"defaultRequest":{"cpu":"50m","memory":"5Mi"}}]}}`)
	pod := s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"a"},"spec":{"initContainers":[{"name":"i","image":"x"}],
		"containers":[{"name":"c","image":"x"},{"name":"d","image":"x","resources":{"limits":{"cpu":"1","memory":"1Gi"}}},
		{"name":"e","image":"x","resources":{"requests":{"cpu":"10m"}}}]}}`)
	containers := list(at(pod, "spec", "containers"))
	full := `{"limits":{"cpu":"75m","memory":"10Mi"},"requests":{"cpu":"50m","memory":"5Mi"}}`
	require.JSONEq(t, full, jsonOf(t, at(containers[0], "resources")))
	require.JSONEq(t, full, jsonOf(t, at(list(at(pod, "spec", "initContainers"))[0], "resources")))
	require.JSONEq(t, `{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}`, jsonOf(t, at(containers[1], "resources")))
	require.JSONEq(t, `{"limits":{"cpu":"75m","memory":"10Mi"},"requests":{"cpu":"10m","memory":"5Mi"}}`, jsonOf(t, at(containers[2], "resources")))
	require.Equal(t, "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c; memory request for container e; "+
		"cpu, memory limit for container e; cpu, memory request for init container i; cpu, memory limit for init container i",
		at(pod, "metadata", "annotations", "kubernetes.io/limit-ranger"))
	require.Equal(t, "Burstable", at(pod, "status", "qosClass"))
	s.must(t, 201, "POST", "/api/v1/namespaces/kube-system/pods", podNamed("elsewhere", ""))
	require.Empty(t, at(s.must(t, 200, "GET", "/api/v1/namespaces/kube-system/pods/elsewhere", ""), "metadata", "annotations"))
	s.must(t, 200, "DELETE", limitsPath+"/l", "")
	require.Empty(t, at(s.must(t, 201, "POST", podsPath, podNamed("free", "")), "metadata", "annotations"), "in force until the deletion is answered")
}

// What Kubernetes tests there in TestPodLimitFunc, with its sentences.
func TestQUOTA_04_LimitRangesBoundPods(t *testing.T) {
	s := serveWith(t, LimitRangerPlugin())
	for _, c := range []struct{ limit, resources, why string }{
		{`"type":"Pod","min":{"cpu":"50m"}`, `{}`, `minimum cpu usage per Pod is 50m.  No request is specified`},
		{`"type":"Container","min":{"cpu":"50m"}`, `{}`, ``}, // the kind makes it the default request
		{`"type":"Container","min":{"cpu":"50m"}`, `{"requests":{"cpu":"49m"}}`, `minimum cpu usage per Container is 50m, but request is 49m`},
		{`"type":"Container","min":{"cpu":"50m"}`, `{"requests":{"cpu":"50m"}}`, ``},
		{`"type":"Container","max":{"memory":"2Gi"}`, `{"requests":{"memory":"1Gi"},"limits":{"memory":"3Gi"}}`, `maximum memory usage per Container is 2Gi, but limit is 3Gi`},
		{`"type":"Pod","max":{"memory":"2Gi"}`, `{"requests":{"memory":"1Gi"}}`, `maximum memory usage per Pod is 2Gi.  No limit is specified`},
		{`"type":"Pod","min":{"cpu":"1"}`, `{"requests":{"cpu":"1"}}`, ``},
		{`"type":"Container","maxLimitRequestRatio":{"cpu":"2"}`, `{"requests":{"cpu":"1"},"limits":{"cpu":"2500m"}}`, `cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000`},
		{`"type":"Container","maxLimitRequestRatio":{"cpu":"2"}`, `{"requests":{"cpu":"1"}}`, `cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0`},
		{`"type":"Container","maxLimitRequestRatio":{"cpu":"2"}`, `{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}`, ``},
		{`"type":"Pod","max":{"cpu":"1"},"min":{"memory":"1Gi"}`, `{"requests":{"memory":"1Mi"},"limits":{"cpu":"2","memory":"1Mi"}}`, `[minimum memory usage per Pod is 1Gi, but request is 1Mi, maximum cpu usage per Pod is 1, but limit is 2]`},
		{`"type":"PersistentVolumeClaim","max":{"storage":"1Gi"}`, `{}`, ``},
	} {
		s.must(t, 201, "POST", limitsPath, `{"metadata":{"name":"l"},"spec":{"limits":[{`+c.limit+`}]}}`)
		code, got := s.do(t, "POST", podsPath, sized("p", c.resources))
		if c.why == "" {
			require.Equal(t, 201, code, "%s %s: %v", c.limit, c.resources, got)
			s.must(t, 200, "DELETE", podsPath+"/p", "", "Content-Type", "application/json")
			s.do(t, "DELETE", podsPath+"/p", `{"gracePeriodSeconds":0}`)
		} else {
			require.Equal(t, `pods "p" is forbidden: `+c.why, got["message"], "%s %s", c.limit, c.resources)
			require.Equal(t, 403, code)
		}
		s.must(t, 200, "DELETE", limitsPath+"/l", "")
	}
}

// Init containers run one by one: a pod needs what the largest of them needs, and sidecars beside the others.
func TestQUOTA_04_LimitRangesSumUpPods(t *testing.T) {
	s := serveWith(t, LimitRangerPlugin())
	s.must(t, 201, "POST", limitsPath, `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Pod","max":{"cpu":"4"}}]}}`)
	pod := func(init, sidecar, main string) string {
		c := func(name, cpu, more string) string {
			return fmt.Sprintf(`{"name":%q,"image":"x","resources":{"requests":{"cpu":%q},"limits":{"cpu":%q}}%s}`, name, cpu, cpu, more)
		}
		return fmt.Sprintf(`{"metadata":{"generateName":"p-"},"spec":{"initContainers":[%s,%s],"containers":[%s]}}`,
			c("s", sidecar, `,"restartPolicy":"Always"`), c("i", init, ""), c("m", main, ""))
	}
	s.must(t, 201, "POST", podsPath, pod("3", "1", "3"))
	require.Contains(t, s.must(t, 403, "POST", podsPath, pod("3500m", "1", "1"))["message"], "maximum cpu usage per Pod is 4, but limit is 4500m")
	require.Contains(t, s.must(t, 403, "POST", podsPath, pod("1", "2", "3"))["message"], "maximum cpu usage per Pod is 4, but limit is 5")
}

func TestQUOTA_04_LimitRangesBoundClaimsAndResizes(t *testing.T) {
	s := serveWith(t, LimitRangerPlugin())
	s.must(t, 201, "POST", limitsPath, `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"2Gi"}},
		{"type":"Container","max":{"cpu":"2"}}]}}`)
	claim := func(size string) string {
		return `{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"` + size + `"}}}}`
	}
	require.Equal(t, `persistentvolumeclaims "v" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi`,
		s.must(t, 403, "POST", claimsPath, claim("1Mi"))["message"])
	require.Equal(t, `persistentvolumeclaims "v" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi`,
		s.must(t, 403, "POST", claimsPath, claim("3Gi"))["message"])
	s.must(t, 201, "POST", claimsPath, claim("2Gi"))
	s.must(t, 201, "POST", podsPath, sized("p", `{"limits":{"cpu":"1"}}`))
	resize := func(code int, cpu string) map[string]any {
		return s.must(t, code, "PATCH", podsPath+"/p/resize", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"`+cpu+`"},"limits":{"cpu":"`+cpu+`"}}}]}}`,
			"Content-Type", "application/strategic-merge-patch+json")
	}
	require.Equal(t, `pods "p" is forbidden: maximum cpu usage per Container is 2, but limit is 3`, resize(403, "3")["message"])
	resize(200, "2")
}
