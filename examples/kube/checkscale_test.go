package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What TestAutoscalingGroupBackwardCompatibility of Kubernetes asks for: a target of the core group needs no
// version, if its kind is the one that can be scaled. A metric can be of any object of that group.
func TestCREATE_VersionsOfWhatIsScaledAndMeasured(t *testing.T) {
	s := serve(t, Options{})
	const path, old = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
	spec := func(name, kind, version, measured string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"` + kind + `","name":"a","apiVersion":"` + version + `"},
			"metrics":[{"type":"Object","object":{"metric":{"name":"m"},"target":{"type":"Value","value":"1"},
				"describedObject":{"kind":"Service","name":"s","apiVersion":"` + measured + `"}}}]}}`
	}
	s.must(t, 201, "POST", old, `{"metadata":{"name":"old"},"spec":{"scaleTargetRef":{"kind":"ReplicationController","name":"a"},"maxReplicas":3}}`)
	s.must(t, 201, "POST", path, spec("core", "ReplicationController", "v1", "v1"))
	s.must(t, 201, "POST", path, spec("none", "ReplicationController", "", ""))
	s.must(t, 201, "POST", path, spec("apps", "Deployment", "apps/v1", "apps/v1"))
	const target, metric = "spec.scaleTargetRef.apiVersion: Invalid value: ", "spec.metrics[0].object.describedObject.apiVersion: Invalid value: "
	for _, version := range []string{"", "v1", "/v1"} {
		require.Contains(t, s.must(t, 422, "POST", path, spec("bad", "Deployment", version, "v1"))["message"], target+`"`+version+`": apiVersion must specify API group`)
	}
	require.Contains(t, s.must(t, 422, "POST", path, spec("bad", "Deployment", "a/b/c", "v1"))["message"], target+`"a/b/c": unexpected GroupVersion string: a/b/c`)
	require.Contains(t, s.must(t, 422, "POST", path, spec("bad", "Deployment", "a/b", "a/b/c"))["message"], metric+`"a/b/c": unexpected GroupVersion string: a/b/c`)

	s.must(t, 200, "PUT", path+"/none", spec("none", "ReplicationController", "", "v1"))
	require.Contains(t, s.must(t, 422, "PUT", path+"/none", spec("none", "Deployment", "", "v1"))["message"], target)
	require.Contains(t, s.must(t, 422, "PUT", path+"/none", spec("none", "ReplicationController", "", "a/b/c"))["message"], metric)
}
