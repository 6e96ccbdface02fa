package behind

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/aggregate"
)

const fleet = "/apis/fleet.example.com/v1/namespaces/default/ships"

// rights gives the account of the extension server what its manifests say, and what a server outside
// of the cluster needs for its Service. It returns the path of its kubeconfig.
func (h *host) rights() string {
	h.t.Helper()
	k := h.kubectl()
	manifests := run(h.t, filepath.Join(programs, "extension"), "--manifests", "--image", "fleet:1", "--namespace", "default")
	var kept []string
	for _, document := range strings.Split(manifests, "---\n") {
		if regexp.MustCompile(`(?m)^kind: (ServiceAccount|ClusterRoleBinding|RoleBinding|ClusterRole|Role)$`).MatchString(document) {
			kept = append(kept, document)
		}
	}
	k.pipe(strings.Join(kept, "---\n"), "apply", "--server-side", "-f", "-")
	k.pipe(`apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: fleet-service, namespace: default}
rules: [{apiGroups: [""], resources: [services], verbs: [get, create, update, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: fleet-service, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: fleet-service}
subjects: [{kind: ServiceAccount, name: fleet, namespace: default}]
`, "apply", "--server-side", "-f", "-")
	return h.connection("fleet.kubeconfig", h.accountToken(""))
}

// accountToken returns a token of the extension's account, which ends with a secret if there is one.
// The client of kubectl keeps the authorities of the host for minutes, so it is not used for this.
func (h *host) accountToken(secret string) string {
	h.t.Helper()
	bound := ""
	if secret != "" {
		bound = fmt.Sprintf(`,"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":%q}`, secret)
	}
	var request struct{ Status struct{ Token string } }
	require.NoError(h.t, json.Unmarshal([]byte(h.must("POST", "/api/v1/namespaces/default/serviceaccounts/fleet/token",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600`+bound+`}}`)), &request))
	require.NotEmpty(h.t, request.Status.Token)
	return request.Status.Token
}

func run(t testing.TB, program string, args ...string) string {
	t.Helper()
	p := launch(t, program, args...)
	<-p.ended
	require.True(t, p.ProcessState.Success(), p.out.String())
	return p.out.String()
}

// extension starts examples/extension behind the host and waits until the host has it.
func (h *host) extension() (*process, string) {
	h.t.Helper()
	kubeconfig, address := h.rights(), freeAddress(h.t)
	p := launch(h.t, filepath.Join(programs, "extension"), "--kubeconfig", kubeconfig, "--namespace", "default",
		"--listen", address, "--advertise", address, "--data-dir", h.t.TempDir())
	h.available("v1.fleet.example.com")
	return p, address
}

// available waits until an APIService is.
func (h *host) available(name string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		code, body := h.do("root-token", "GET", "/apis/apiregistration.k8s.io/v1/apiservices/"+name, "")
		var s aggregate.APIService
		return code == 200 && json.Unmarshal([]byte(body), &s) == nil && len(s.Status.Conditions) == 1 &&
			s.Status.Conditions[0].Status == "True" && s.Status.Conditions[0].Reason == "Passed"
	}, waitLimit, often, "APIService %s", name)
}

// kubectl gets, watches, applies, explains, scales and reads the stream of objects of an extension server.
func TestOPS_08_KubectlBehindTheHost(t *testing.T) {
	h := newHost(t)
	h.extension()
	k := h.kubectl()
	k.run("api-resources --api-group=fleet.example.com", `^ships +fleet.example.com/v1 +true +Ship$`, `^ports +fleet.example.com/v1 +false +Port$`)
	ship := "apiVersion: fleet.example.com/v1\nkind: Ship\nmetadata: {name: santa-maria}\nspec: {crew: 39, port: palos}\n"
	watched, ended := &buffer{}, make(chan int, 1)
	go func() { ended <- k.start("", watched, "get", "ships", "--watch", "--request-timeout=20s") }()
	require.Contains(t, k.pipe(ship, "apply", "--server-side", "-f", "-"), "serverside-applied")
	require.Contains(t, k.pipe(strings.Replace(ship, "39", "40", 1), "apply", "--server-side", "-f", "-"), "serverside-applied")
	k.run("get ships", `^NAME +CREW +PORT +AGE$`, `^santa-maria +40 +palos`)
	require.Eventually(t, func() bool {
		return regexp.MustCompile(`(?s)santa-maria +39.*santa-maria +40`).MatchString(watched.String())
	},
		waitLimit, often, "%s", watched)
	k.run("get ships --field-selector=spec.port=palos -o name", `^ship.fleet.example.com/santa-maria$`)
	require.Eventually(t, func() bool { return k.start("", &buffer{}, "explain", "ship") == 0 }, waitLimit, often,
		"the host fetches the documents of the extension in its own time")
	k.run("explain ship.spec", `^ +crew\s+<integer>`, `How many sail it\.`)
	require.Eventually(t, func() bool { return k.start("", &buffer{}, "explain", "ship", "--output=plaintext-openapiv2") == 0 }, waitLimit, often)
	k.run("explain ship.spec --output=plaintext-openapiv2", `^ +crew\s+<integer>`)
	k.run("scale ship santa-maria --replicas=41", `scaled`)
	k.run("get ship santa-maria -o jsonpath={.spec.crew}", `^41$`)
	k.run("get --raw "+fleet+"/santa-maria/log", `^santa-maria: entry 1, 0 aboard$`)
	k.run("label ship santa-maria navy=royal", `labeled`)
	k.run("annotate ship santa-maria a=b", `annotated`)
	k.run("patch ship santa-maria --type=merge -p={\"spec\":{\"crew\":42}}", `patched`)
	require.Contains(t, k.pipe("apiVersion: fleet.example.com/v1\nkind: Distance\nmetadata: {name: a}\nfrom: {east: 1, north: 1}\nto: {east: 4, north: 5}\n", "create", "-o", "yaml", "-f", "-"), "miles: 5")
	k.fails("get ship nina", `ships.fleet.example.com "nina" not found`)
	require.NotZero(t, k.start(strings.Replace(ship, "39", "-1", 1), &buffer{}, "apply", "--server-side", "-f", "-"))
	k.run("wait ship santa-maria --for=jsonpath={.spec.crew}=42 --timeout=10s", `condition met`)
	k.run("delete ship santa-maria", `deleted`)
	k.run("get ships", `No resources found`)
	h.follows(t)
	<-ended
}

// The stream of a log arrives line by line, through the host.
func (h *host) follows(t *testing.T) {
	t.Helper()
	h.must("POST", fleet, `{"metadata":{"name":"pinta"}}`)
	k, out := h.kubectl(), &buffer{}
	ended := make(chan int, 1)
	go func() {
		ended <- k.start("", out, "get", "--request-timeout=5s", "--raw", fleet+"/pinta/log?follow=true")
	}()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "pinta: entry 2") }, waitLimit, often)
	select {
	case <-ended:
	case <-time.After(waitLimit):
		require.FailNow(t, "the stream goes on")
	}
}
