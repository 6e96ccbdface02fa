package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWHK_AdmissionWebhooksOfKubernetes configures webhooks with the types of Kubernetes, which read the
// reviews too. A server starts beside one that is gone.
func TestWHK_AdmissionWebhooksOfKubernetes(t *testing.T) {
	var asked atomic.Int32
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		var review admissionv1.AdmissionReview
		if err := decoder.Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
			return
		}
		var pod corev1.Pod
		if err := json.Unmarshal(review.Request.Object.Raw, &pod); err != nil || pod.Spec.DNSPolicy != corev1.DNSClusterFirst {
			http.Error(w, fmt.Sprint("the pod has no defaults: ", err), http.StatusTeapot)
			return
		}
		patch := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: pod.Name != "bad", Result: &metav1.Status{Message: "a bad name"}, PatchType: &patch,
			Patch: []byte(`[{"op":"add","path":"/metadata/annotations","value":{"by":"` + review.Request.UserInfo.Username + `"}}]`),
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer hook.Close()

	dir := t.TempDir()
	s := run(t, "--data-dir="+dir)
	post := func(path string, object any, code int) map[string]any {
		t.Helper()
		body, err := json.Marshal(object)
		require.NoError(t, err)
		got, out := s.do(t, "master", "POST", path, string(body))
		require.Equal(t, code, got, "%v", out)
		return out
	}
	none, address := admissionregistrationv1.SideEffectClassNone, hook.URL+"/mutate"
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "pods.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &address, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}
	const configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	post(configurations, configuration, 201)
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	}
	made := post("/api/v1/namespaces/default/pods", pod("good"), 201)
	metadata, _ := made["metadata"].(map[string]any)
	require.Equal(t, map[string]any{"by": "system:apiserver"}, metadata["annotations"])
	refused := post("/api/v1/namespaces/default/pods", pod("bad"), 400)
	require.Equal(t, `admission webhook "pods.example.com" denied the request: a bad name`, refused["message"])
	require.EqualValues(t, 2, asked.Load())

	gone := "https://127.0.0.1:1/"
	configuration.Name, configuration.Webhooks[0].ClientConfig.URL = "everything", &gone
	configuration.Webhooks[0].Rules[0] = admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
	}
	post(configurations, configuration, 201)
	require.Zero(t, s.stop())
	s = run(t, "--data-dir="+dir)
	post("/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, 500)
	code, _ := s.do(t, "master", "DELETE", configurations+"/everything", "")
	require.Equal(t, 200, code)
	post("/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, 201)
}
