package kube

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/storage/memory"
)

// serveWith is serve with plugins, which it holds to their promises.
func serveWith(t testing.TB, plugins ...admission.Plugin) *target {
	t.Helper()
	return serveOn(t, memory.New(), Options{}, kindwright.Admit(plugins...), kindwright.Access{CheckPlugins: true})
}

const accountsPath = "/api/v1/namespaces/default/serviceaccounts"

// What Kubernetes tests in plugin/pkg/admission/serviceaccount and in test/integration/serviceaccount
// (TestServiceAccountTokenAutoMount).
func TestPodsGetTheTokenOfTheirAccount(t *testing.T) {
	s := serveWith(t, ServiceAccountPlugin())
	s.must(t, 201, "POST", accountsPath, `{"metadata":{"name":"default"},"imagePullSecrets":[{"name":"registry"}]}`)
	pod := s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"a"},"spec":{"initContainers":[{"name":"i","image":"x"}],"containers":[
		{"name":"c","image":"x"},{"name":"own","image":"x","volumeMounts":[{"name":"v","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}],
		"volumes":[{"name":"v","emptyDir":{}}]}}`)
	require.Equal(t, "default", at(pod, "spec", "serviceAccountName"))
	require.Equal(t, "default", at(pod, "spec", "serviceAccount"), "the older field is in step")
	require.Equal(t, []string{"registry"}, words(at(pod, "spec", "imagePullSecrets"), "name"))
	volumes := list(at(pod, "spec", "volumes"))
	require.Len(t, volumes, 2)
	name := word(at(volumes[1], "name"))
	require.Regexp(t, `^kube-api-access-[a-z0-9]{5}$`, name)
	sources := `{"defaultMode":420,"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
		{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
		{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}]}`
	require.JSONEq(t, sources, jsonOf(t, at(volumes[1], "projected")))
	mount := fmt.Sprintf(`[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":%q,"readOnly":true}]`, name)
	require.JSONEq(t, mount, jsonOf(t, at(list(at(pod, "spec", "initContainers"))[0], "volumeMounts")))
	containers := list(at(pod, "spec", "containers"))
	require.JSONEq(t, mount, jsonOf(t, at(containers[0], "volumeMounts")))
	require.Equal(t, []string{"v"}, words(at(containers[1], "volumeMounts"), "name"), "it has something else at that path")

	volume := word(at(list(at(s.must(t, 201, "POST", podsPath, `{"metadata":{"name":"b"},"spec":{"imagePullSecrets":[{"name":"own"}],
		"containers":[{"name":"c","image":"x"}],"volumes":[{"name":"kube-api-access-mine","emptyDir":{}}]}}`), "spec", "containers"))[0], "volumeMounts").([]any)[0].(map[string]any)["name"])
	require.Equal(t, "kube-api-access-mine", volume, "a volume of that name is used")
	require.Equal(t, []string{"own"}, words(at(s.must(t, 200, "GET", podsPath+"/b", ""), "spec", "imagePullSecrets"), "name"))
}

func TestPodsAndAccountsDeclineTokens(t *testing.T) {
	s := serveWith(t, ServiceAccountPlugin())
	for _, account := range []string{"no", "yes"} {
		s.must(t, 201, "POST", accountsPath, fmt.Sprintf(`{"metadata":{"name":%q},"automountServiceAccountToken":%t}`, account, account == "yes"))
	}
	for i, c := range []struct {
		spec   string
		mounts int
	}{
		{`"serviceAccountName":"no",`, 0},
		{`"serviceAccountName":"no","automountServiceAccountToken":true,`, 1},
		{`"serviceAccountName":"yes",`, 1},
		{`"serviceAccount":"yes",`, 1},
		{`"serviceAccountName":"yes","automountServiceAccountToken":false,`, 0},
	} {
		pod := s.must(t, 201, "POST", podsPath, podNamed(fmt.Sprintf("p%d", i), c.spec))
		require.Len(t, list(at(pod, "spec", "volumes")), c.mounts, c.spec)
		require.Equal(t, at(pod, "spec", "serviceAccountName"), at(pod, "spec", "serviceAccount"))
	}
}

func TestPodsNeedTheirAccount(t *testing.T) {
	s := serveWith(t, ServiceAccountPlugin())
	got := s.must(t, 403, "POST", podsPath, podNamed("p", `"serviceAccountName":"robot",`))
	require.Equal(t, `pods "p" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found`, got["message"])
	require.Equal(t, "Forbidden", got["reason"])
	got = s.must(t, 403, "POST", podsPath, `{"metadata":{"generateName":"p-"},"spec":{"serviceAccountName":"robot","containers":[{"name":"c","image":"x"}]}}`)
	require.Equal(t, `pods "p-" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found`, got["message"])

	// The default account is waited for.
	var early map[string]any
	var waits sync.WaitGroup
	waits.Go(func() { _, early = s.do(t, "POST", podsPath, podNamed("early", "")) })
	s.must(t, 201, "POST", accountsPath, `{"metadata":{"name":"default"}}`)
	waits.Wait()
	require.Equal(t, "early", at(early, "metadata", "name"))
	s.must(t, 200, "DELETE", accountsPath+"/default", "")
	got = s.must(t, 403, "POST", podsPath, podNamed("late", ""))
	require.Contains(t, got["message"], `error looking up service account default/default: serviceaccount "default" not found`)
}

func TestMirrorPodsHaveNoAccount(t *testing.T) {
	s := serveWith(t, ServiceAccountPlugin())
	mirror := func(name, spec string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{%s"nodeName":"n","containers":[{"name":"c","image":"x"}]}}`, name, spec)
	}
	pod := s.must(t, 201, "POST", podsPath, mirror("m", ""))
	require.Empty(t, at(pod, "spec", "serviceAccountName"))
	require.Empty(t, at(pod, "spec", "volumes"))
	for spec, why := range map[string]string{
		`"serviceAccountName":"default",`:                                                                                  "a mirror pod may not reference service accounts",
		`"imagePullSecrets":[{"name":"s"}],`:                                                                               "a mirror pod may not reference secrets",
		`"volumes":[{"name":"v","secret":{"secretName":"s"}}],`:                                                            "a mirror pod may not reference secrets",
		`"volumes":[{"name":"v","csi":{"driver":"d.example.com","nodePublishSecretRef":{"name":"s"}}}],`:                   "a mirror pod may not reference secrets",
		`"volumes":[{"name":"v","projected":{"sources":[{"secret":{"name":"s"}}]}}],`:                                      "a mirror pod may not reference secrets",
		`"initContainers":[{"name":"i","image":"x","envFrom":[{"secretRef":{"name":"s"}}]}],`:                              "a mirror pod may not reference secrets",
		`"volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t","expirationSeconds":600}}]}}],`: "a mirror pod may not use ServiceAccountToken volume projections",
	} {
		require.Equal(t, `pods "bad" is forbidden: `+why, s.must(t, 403, "POST", podsPath, mirror("bad", spec))["message"], spec)
	}
}

func TestAccountsThatLimitSecrets(t *testing.T) {
	s := serveWith(t, ServiceAccountPlugin())
	s.must(t, 201, "POST", accountsPath, `{"metadata":{"name":"tight","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}},
		"secrets":[{"name":"mine"}],"imagePullSecrets":[{"name":"registry"}]}`)
	const account = `"serviceAccountName":"tight",`
	refused := func(what, of string) string {
		return what + ` is not allowed because service account tight does not reference that ` + of
	}
	for spec, why := range map[string]string{
		`"volumes":[{"name":"v","secret":{"secretName":"other"}}],`:                                                                 refused(`volume with secret.secretName="other"`, "secret"),
		`"imagePullSecrets":[{"name":"registry"},{"name":"other"}],`:                                                                refused(`imagePullSecrets[1].name="other"`, "imagePullSecret"),
		`"initContainers":[{"name":"i","image":"x","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"other","key":"k"}}}]}],`: refused(`init container i with envVar E referencing secret.secretName="other"`, "secret"),
		`"initContainers":[{"name":"i","image":"x","envFrom":[{"secretRef":{"name":"other"}}]}],`:                                   refused(`init container i with envFrom referencing secret.secretName="other"`, "secret"),
	} {
		require.Equal(t, `pods "p" is forbidden: `+why, s.must(t, 403, "POST", podsPath, podNamed("p", account+spec))["message"], spec)
	}
	s.must(t, 201, "POST", podsPath, podNamed("p", account+`"volumes":[{"name":"v","secret":{"secretName":"mine"}}],`))
	got := s.must(t, 403, "PATCH", podsPath+"/p/ephemeralcontainers",
		`{"spec":{"ephemeralContainers":[{"name":"e","image":"x","envFrom":[{"secretRef":{"name":"other"}}]}]}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, `pods "p" is forbidden: `+refused(`ephemeral container e with envFrom referencing secret.secretName="other"`, "secret"), got["message"])
	pod := s.must(t, 200, "PATCH", podsPath+"/p/ephemeralcontainers",
		`{"spec":{"ephemeralContainers":[{"name":"e","image":"x"}]}}`, "Content-Type", "application/merge-patch+json")
	require.Empty(t, at(list(at(pod, "spec", "ephemeralContainers"))[0], "volumeMounts"), "ephemeral containers get no token by themselves")
}

// jsonOf is the JSON of a part of an answer.
func jsonOf(t testing.TB, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}
