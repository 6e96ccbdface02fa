package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission/imagepolicy"
	"github.com/kindwright/kindwright/admission/noderestriction"
	"github.com/kindwright/kindwright/admission/ownerref"
	policies "github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/examples/kube"
)

// IMG-10, IMG-11: a back end is asked about each Pod, and without a configuration the server does not start.
func TestIMG_10_ABackEndJudgesPods(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review imagepolicy.ImageReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Status.Allowed = !slices.ContainsFunc(review.Spec.Containers, func(c imagepolicy.ImageReviewContainerSpec) bool {
			return strings.HasPrefix(c.Image, "bad")
		})
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(backend.Close)
	file := filepath.Join(t.TempDir(), "images.kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`{"clusters":[{"name":"c","cluster":{"server":"`+backend.URL+`/review"}}],
		"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`), 0o600))
	const plugin = "- name: ImagePolicyWebhook\n  configuration: "
	s := run(t, append(configured(t, plugin+"{imagePolicy: {kubeConfigFile: "+file+"}}\n"), "--enable-admission-plugins=ImagePolicyWebhook")...)

	const pods = "/api/v1/namespaces/default/pods"
	post := func(name, image string) (int, map[string]any) {
		return s.do(t, "master", "POST", pods, `{"metadata":{"name":"`+name+`"},"spec":{"containers":[{"name":"c","image":"`+image+`"}]}}`)
	}
	code, out := post("a", "good")
	require.Equal(t, 201, code, "%v", out)
	code, out = post("b", "bad")
	require.Equal(t, 403, code, "%v", out)
	require.Equal(t, `pods "b" is forbidden: one or more images rejected by webhook backend`, out["message"])
	code, out = s.do(t, "master", "GET", pods+"/a", "")
	require.Equal(t, 200, code, "%v", out)
	stored, err := json.Marshal(out)
	require.NoError(t, err)
	for path, changed := range map[string]string{
		"":                     strings.ReplaceAll(string(stored), `"image":"good"`, `"image":"bad"`),
		"/ephemeralcontainers": strings.Replace(string(stored), `"containers":[`, `"ephemeralContainers":[{"name":"e","image":"bad"}],"containers":[`, 1),
	} {
		code, out = s.do(t, "master", "PUT", pods+"/a"+path, changed)
		require.Equal(t, 403, code, "%s: %v", path, out)
	}
	backend.Close()
	code, out = post("c", "good")
	require.Equal(t, 201, code, "remembered: %v", out)
	code, out = post("d", "new")
	require.Equal(t, 403, code, "%v", out)
	require.Contains(t, s.log.String(), "the image policy webhook failed")

	for configuration, want := range map[string]string{
		" []\n": "ImagePolicyWebhook: needs a configuration",
		plugin + "{imagePolicy: {kubeConfigFile: " + file + ", allowTTL: 3600}}\n": "imagePolicy.allowTTL: Invalid value: 3600",
		plugin + "{imagePolicy: {}}\n":                                             "imagePolicy.kubeConfigFile: Required value",
	} {
		_, err := parse(append(configured(t, configuration), "--enable-admission-plugins=ImagePolicyWebhook"))
		require.ErrorContains(t, err, "--admission-control-config-file: ", configuration)
		require.ErrorContains(t, err, want, configuration)
	}
}

// A plugin that cannot do its work is refused: without it, writes would be admitted that it denies.
func TestAlwaysDenyIsRefused(t *testing.T) {
	_, err := parse([]string{"--data-dir=" + t.TempDir(), "--enable-admission-plugins=AlwaysDeny"})
	require.ErrorContains(t, err, "--enable-admission-plugins: AlwaysDeny is not supported")
}

// Each plugin that may be enabled does its work, or does none in kube-apiserver either.
func TestEveryPluginIsHere(t *testing.T) {
	here := append(kube.Plugins(), noderestriction.Name, ownerref.Name, kube.NamespaceAutoProvisionName, imagepolicy.Name, "AlwaysDeny",
		policies.MutatingName, "AlwaysAdmit", "ClusterTrustBundleAttest", "JobValidation", "PodGroupProtection", "PodGroupWorkloadExists") // those have no effect without gates that are off
	for _, p := range slices.Concat(kube.DefaultPlugins(), kube.OptionalPlugins(kube.PluginConfiguration{}), kube.LastPlugins()) {
		here = append(here, p.Name)
	}
	for _, name := range strings.Fields(pluginNames) {
		require.Contains(t, here, name)
	}
}
