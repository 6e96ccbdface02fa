package imagepolicy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/imagepolicy"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
)

// backend is a back end that keeps what it was asked.
type backend struct {
	mu     sync.Mutex
	asked  []string
	code   int
	answer string
}

// RoundTrip implements http.RoundTripper.
func (b *backend) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, string(body))
	recorded := httptest.NewRecorder()
	recorded.WriteHeader(b.code)
	_, _ = recorded.WriteString(b.answer)
	return recorded.Result(), nil
}

func (b *backend) questions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// answering returns a back end with one answer, and options that ask it.
func answering(code int, answer string) (*backend, imagepolicy.Options) {
	b := &backend{code: code, answer: answer}
	to := imagepolicy.Connection{URL: "https://images.example.com/review", Client: &http.Client{Transport: b}}
	return b, imagepolicy.Options{To: to, RetryBackoff: -1}
}

const (
	yes = `{"apiVersion":"imagepolicy.k8s.io/v1alpha1","kind":"ImageReview","status":{"allowed":true}}`
	no  = `{"apiVersion":"imagepolicy.k8s.io/v1alpha1","kind":"ImageReview","status":{"allowed":false,"reason":"too old"}}`
)

// of returns the write of a Pod.
func of(operation admission.Operation, subresource, pod string) *admission.Request {
	r := &admission.Request{
		Operation: operation, Resource: meta.GroupVersionResource{Version: "v1", Resource: "pods"}, Subresource: subresource,
		Namespace: "shop", Name: "web",
	}
	if err := json.Unmarshal([]byte(pod), &r.Object); err != nil {
		panic(err)
	}
	return r
}

// pod is a Pod with containers of each sort.
const pod = `{"metadata":{"name":"web","annotations":{"a.image-policy.k8s.io/ticket":"7","other/key":"x"}},"spec":{
	"containers":[{"name":"a","image":"nginx:1"},{"name":"b","image":"db@sha256:0123"}],
	"initContainers":[{"name":"i","image":"init:2"}],"ephemeralContainers":[{"name":"e","image":"debug:3"}]}}`

// chain returns a chain with the plugin alone.
func chain(t *testing.T, o imagepolicy.Options) *admission.Chain {
	t.Helper()
	plugin, err := imagepolicy.Plugin(o)
	require.NoError(t, err)
	c, err := admission.NewChain(plugin)
	require.NoError(t, err)
	return c
}

// annotated returns a context with the record of a request, and what its audit record says.
func annotated(t *testing.T) (context.Context, func() map[string]string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	x := new(request.Exchange).Begin(r, "1", time.Now())
	return x, x.Annotations
}

func TestIMG_01_To_06_WhatABackEndIsAsked(t *testing.T) {
	for _, c := range []struct{ name, subresource, want string }{
		{"a Pod", "", `[{"image":"nginx:1"},{"image":"db@sha256:0123"},{"image":"init:2"}]`},
		{"its ephemeral containers", "ephemeralcontainers", `[{"image":"debug:3"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, o := answering(200, yes)
			require.NoError(t, chain(t, o).Validate(t.Context(), of(admission.Update, c.subresource, pod)))
			require.Len(t, b.questions(), 1)
			require.JSONEq(t, `{"apiVersion":"imagepolicy.k8s.io/v1alpha1","kind":"ImageReview",
				"spec":{"containers":`+c.want+`,"annotations":{"a.image-policy.k8s.io/ticket":"7"},"namespace":"shop"},"status":{"allowed":false}}`, b.questions()[0])
		})
	}
}

func TestIMG_07_IMG_08_ADenialIsA403WithTheReason(t *testing.T) {
	for answer, want := range map[string]string{
		no:                             `pods "web" is forbidden: image policy webhook backend denied one or more images: too old`,
		`{}`:                           `pods "web" is forbidden: one or more images rejected by webhook backend`,
		`{"status":{"allowed":null}}`:  `pods "web" is forbidden: one or more images rejected by webhook backend`,
		`{"status":{"allowed":false}}`: `pods "web" is forbidden: one or more images rejected by webhook backend`,
		`{"status":{"allowed":false,"reason":"` + strings.Repeat("x", 5000) + `"}}`: `denied one or more images: xxx`,
	} {
		_, o := answering(200, answer)
		err := chain(t, o).Validate(t.Context(), of(admission.Create, "", pod))
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 1200)
	}
}

// What a back end notes is in the audit record under the prefix of the plugin, also when it is remembered.
func TestIMG_09_AuditAnnotations(t *testing.T) {
	b, o := answering(200, `{"status":{"allowed":true,"auditAnnotations":{"scanned":"today","not a key":"x"}}}`)
	c := chain(t, o)
	for range 2 {
		ctx, annotations := annotated(t)
		require.NoError(t, c.Validate(ctx, of(admission.Create, "", pod)))
		require.Equal(t, map[string]string{"imagepolicywebhook.image-policy.k8s.io/scanned": "today"}, annotations())
	}
	require.Len(t, b.questions(), 1)
}

// A back end that does not answer rejects the write, and says nothing of where it is. With DefaultAllow
// the write is admitted, which the audit record says; not so if the client has gone.
func TestIMG_11_ABackEndThatFails(t *testing.T) {
	for _, c := range []struct {
		code     int
		answer   string
		attempts int
	}{
		{500, "", 5},
		{404, "", 1},
		{302, "", 1},
		{200, "", 1},
		{200, "<html>", 1},
		{200, `{"status":{"allowed":"true"}}`, 1},
		{200, `{"apiVersion":"v1","kind":"Pod","status":{"allowed":true}}`, 1},
		{200, `{"status":{"allowed":true},"x":"` + strings.Repeat("x", 1<<20) + `"}`, 1},
	} {
		t.Run(fmt.Sprintf("%d %.40s", c.code, c.answer), func(t *testing.T) {
			b, o := answering(c.code, c.answer)
			var logged []string
			o.Logger = funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
			ctx, annotations := annotated(t)
			err := chain(t, o).Validate(ctx, of(admission.Create, "", pod))
			require.EqualError(t, err, `pods "web" is forbidden: the image policy webhook failed`)
			require.Empty(t, annotations())
			require.Len(t, b.questions(), c.attempts)
			require.Len(t, logged, 1)

			o.DefaultAllow = true
			open := chain(t, o)
			require.NoError(t, open.Validate(ctx, of(admission.Create, "", pod)))
			require.Equal(t, map[string]string{"imagepolicywebhook.image-policy.k8s.io/failed-open": "true"}, annotations())
			require.Len(t, b.questions(), 2*c.attempts, "a failure is not remembered")
			gone, leave := context.WithCancel(ctx)
			leave()
			require.Error(t, open.Validate(gone, of(admission.Create, "", pod)))
		})
	}
}

// Answers are remembered as long as the options say, those that deny for a shorter time, and only for the
// same question.
func TestIMG_11_AnswersAreRemembered(t *testing.T) {
	for _, c := range []struct {
		answer      string
		allow, deny time.Duration
		lasts       time.Duration // 0: not at all
	}{
		{yes, 0, 0, 5 * time.Minute},
		{no, 0, 0, 30 * time.Second},
		{yes, time.Minute, time.Second, time.Minute},
		{no, time.Minute, time.Second, time.Second},
		{yes, -1, time.Minute, 0},
		{no, time.Minute, -1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, o := answering(200, c.answer)
			o.AllowTTL, o.DenyTTL = c.allow, c.deny
			chain := chain(t, o)
			ask := func(image string) int {
				_ = chain.Validate(t.Context(), of(admission.Create, "", strings.ReplaceAll(pod, "nginx:1", image)))
				return len(b.questions())
			}
			require.Equal(t, 1, ask("a"))
			require.Equal(t, 2, ask("b"), "another question")
			if c.lasts == 0 {
				require.Equal(t, 3, ask("a"))
				return
			}
			time.Sleep(c.lasts - time.Nanosecond)
			require.Equal(t, 2, ask("a"))
			time.Sleep(time.Nanosecond)
			require.Equal(t, 3, ask("a"))
		})
	}
}

// IMG-10, IMG-12: other subresources, other kinds and deletions are not sent. Other kinds are, when the options
// say how their images are found.
func TestIMG_12_WhatIsNotSent(t *testing.T) {
	b, o := answering(200, no)
	c := chain(t, o)
	for _, subresource := range []string{"status", "binding", "eviction", "resize"} {
		require.NoError(t, c.Validate(t.Context(), of(admission.Update, subresource, pod)))
	}
	deleted := of(admission.Delete, "", pod)
	deleted.Object = nil
	require.NoError(t, c.Validate(t.Context(), deleted))
	job := of(admission.Create, "", `{"spec":{"image":"job:1"}}`)
	job.Resource = meta.GroupVersionResource{Group: "batch.example.com", Version: "v1", Resource: "jobs"}
	require.NoError(t, c.Validate(t.Context(), job))
	require.Empty(t, b.questions())

	o.Rules = []admission.Rule{{Operations: []admission.Operation{admission.Create}, Groups: []string{"batch.example.com"}, Resources: []string{"jobs"}}}
	o.Images = func(r *admission.Request) (spec imagepolicy.ImageReviewSpec, reviewed bool, err error) {
		spec.Containers = []imagepolicy.ImageReviewContainerSpec{{Image: r.Object["spec"].(map[string]any)["image"].(string)}}
		return spec, true, nil
	}
	require.ErrorContains(t, chain(t, o).Validate(t.Context(), job), "too old")
	require.Len(t, b.questions(), 1)
	require.Contains(t, b.questions()[0], `"image":"job:1"`)
}

func TestIMG_11_TheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`{"clusters":[{"name":"c","cluster":{"server":"https://images.example.com/review"}}],
		"users":[{"name":"u","user":{"token":"t0p"}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`), 0o600))
	written := filepath.Join(t.TempDir(), "images.yaml")
	require.NoError(t, os.WriteFile(written, []byte("imagePolicy:\n  kubeConfigFile: "+file+"\n  allowTTL: 1800\n  denyTTL: -1\n  retryBackoff: 300000\n  defaultAllow: true\n"), 0o600))
	o, err := imagepolicy.Read(written, nil)
	require.NoError(t, err)
	require.Equal(t, "https://images.example.com/review", o.To.URL)
	require.Equal(t, 30*time.Minute, o.AllowTTL)
	require.Negative(t, o.DenyTTL)
	require.Equal(t, 5*time.Minute, o.RetryBackoff)
	require.True(t, o.DefaultAllow)

	for text, want := range map[string]string{
		`{"kubeConfigFile":"FILE","allowTTL":1801}`:               "imagePolicy.allowTTL: Invalid value: 1801",
		`{"kubeConfigFile":"FILE","denyTTL":-2}`:                  "imagePolicy.denyTTL: Invalid value: -2",
		`{"kubeConfigFile":"FILE","retryBackoff":300001}`:         "imagePolicy.retryBackoff: Invalid value: 300001",
		`{"kubeConfigFile":"FILE","allowTTL":"5m"}`:               "imagePolicy.allowTTL",
		`{"kubeConfigFile":"FILE","defaultAllow":"true"}`:         "imagePolicy.defaultAllow",
		`{"kubeConfigFile":"FILE","defaultAllowed":true}`:         `did you mean "defaultAllow"?`,
		`{"kubeConfigFile":"FILE.no"}`:                            "imagePolicy.kubeConfigFile",
		`{}`:                                                      "imagePolicy.kubeConfigFile: Required value",
		`{"kubeConfigFile":"FILE","denyTTL":9223372036854775807}`: "imagePolicy.denyTTL: Invalid value",
	} {
		_, err := imagepolicy.Parse([]byte(`{"imagePolicy":`+strings.ReplaceAll(text, "FILE", file)+`}`), nil)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "t0p")
	}
	_, err = imagepolicy.Read(file, nil)
	require.ErrorContains(t, err, file+": image policy: ")
	_, err = imagepolicy.Read(file+".no", nil)
	require.ErrorContains(t, err, file+".no")
	_, err = imagepolicy.Parse([]byte(`[]`), nil)
	require.ErrorContains(t, err, "must be an object")

	_, err = imagepolicy.Plugin(imagepolicy.Options{AllowTTL: time.Hour, Rules: []admission.Rule{}})
	for _, want := range []string{"the connection has no URL", "AllowTTL: must be at most 30m0s", "rules without a function that finds images"} {
		require.ErrorContains(t, err, want)
	}
}
