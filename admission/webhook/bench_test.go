package webhook_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
)

// deployment is a write of an object of 4 KiB.
func deployment() *admission.Request {
	of := meta.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	var containers []any
	for i := range 8 {
		containers = append(containers, map[string]any{
			"name": fmt.Sprint("c", i), "image": "registry.example.com/app:1", "args": []any{strings.Repeat("a", 200), strings.Repeat("b", 200)},
		})
	}
	return &admission.Request{
		Operation: admission.Create, Resource: of, RequestResource: of, Name: "web", Namespace: "default", User: authn.User{Name: "ann", Groups: []string{"people"}},
		Kind: of.GroupVersion().WithKind("Deployment"), RequestKind: of.GroupVersion().WithKind("Deployment"),
		Object: map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{
			"replicas": int64(3), "template": map[string]any{"spec": map[string]any{"containers": containers}},
		}},
		Options: meta.CreateOptions{TypeMeta: meta.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}},
	}
}

// hooks returns webhooks about a resource that are on a server.
func hooks(n int, s *httptest.Server, resource string) (out []webhook.ValidatingWebhook) {
	none := webhook.None
	url := s.URL + "/review"
	for i := range n {
		out = append(out, webhook.ValidatingWebhook{
			Name: fmt.Sprintf("%s%d.example.com", resource, i), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: webhook.ClientConfig{URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})},
			Rules: []match.RuleWithOperations{{
				Operations: []string{"CREATE", "UPDATE"},
				Rule:       match.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{resource}},
			}},
		})
	}
	return out
}

// answering is a webhook that answers with a fixed response.
func answering(t testing.TB, response string) *httptest.Server {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var review struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		_ = json.Unmarshal(text, &review)
		_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true%s}}`, review.Request.UID, response)
	}))
	t.Cleanup(s.Close)
	return s
}

// BenchmarkWebhooks measures what webhooks cost a write: 100 that are about other resources, one that
// allows it, and one that changes the object. The last two include what the webhook itself does.
func BenchmarkWebhooks(b *testing.B) {
	s := answering(b, "")
	others := webhook.NewValidator(&webhook.ValidatingWebhookConfiguration{Webhooks: hooks(100, s, "statefulsets")})
	same := webhook.NewValidator(&webhook.ValidatingWebhookConfiguration{Webhooks: selecting(hooks(100, s, "deployments"))})
	one := webhook.NewValidator(&webhook.ValidatingWebhookConfiguration{Webhooks: hooks(1, s, "deployments")})
	five := webhook.NewValidator(&webhook.ValidatingWebhookConfiguration{Webhooks: hooks(5, s, "deployments")})
	for name, v := range map[string]admission.Validator{"matching=0/resource": others, "matching=0/labels": same, "matching=1/validating": one, "matching=5/validating": five} {
		b.Run(name, func(b *testing.B) {
			r := deployment()
			require.NoError(b, v.Validate(b.Context(), r))
			b.ReportAllocs()
			for b.Loop() {
				_ = v.Validate(b.Context(), r)
			}
		})
	}
	b.Run("matching=1/mutating", func(b *testing.B) {
		patch := base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`))
		h := hooks(1, answering(b, `,"patchType":"JSONPatch","patch":"`+patch+`"`), "deployments")[0]
		m := webhook.NewMutator(&webhook.MutatingWebhookConfiguration{Webhooks: []webhook.MutatingWebhook{{
			Name: h.Name, SideEffects: h.SideEffects, AdmissionReviewVersions: h.AdmissionReviewVersions, ClientConfig: h.ClientConfig, Rules: h.Rules,
		}}})
		r := deployment()
		out, err := m.Mutate(b.Context(), r)
		require.NoError(b, err)
		require.Equal(b, map[string]any{"a": "b"}, out["metadata"].(map[string]any)["labels"])
		b.ReportAllocs()
		for b.Loop() {
			_, _ = m.Mutate(b.Context(), r)
		}
	})
}

// selecting makes webhooks be about objects with a label that no object has.
func selecting(all []webhook.ValidatingWebhook) []webhook.ValidatingWebhook {
	for i := range all {
		all[i].ObjectSelector = &meta.LabelSelector{MatchLabels: map[string]string{"asked": "yes"}}
	}
	return all
}
