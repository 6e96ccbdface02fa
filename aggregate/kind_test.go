package aggregate_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/kinds/crd"
)

func TestOPS_08_WhatIsWrongWithAnAPIService(t *testing.T) {
	w := newWorld(t, nil)
	const good = `{"metadata":{"name":"v1.a.dev"},"spec":{"group":"a.dev","version":"v1","groupPriorityMinimum":1000,"versionPriority":15}}`
	service := func(more string) []string {
		return []string{`"versionPriority":15`, `"versionPriority":15,"service":{"namespace":"n","name":"s"}` + more}
	}
	for _, c := range []struct {
		change  []string
		message string
	}{
		{[]string{"v1.a.dev", "v2.a.dev"}, "metadata.name: Invalid value: \"v2.a.dev\": must be `spec.version+\".\"+spec.group`: \"v1.a.dev\""},
		{[]string{"v1.a.dev", "v2.", `"group":"a.dev","version":"v1"`, `"version":"v2"`}, "spec.group: Required value: only v1 may have an empty group and it better be legacy kube"},
		{[]string{"v1.a.dev", "v1.A", "a.dev", "A"}, `spec.group: Invalid value: "A"`},
		{[]string{"v1.a.dev", "1.a.dev", `"v1"`, `"1"`}, `spec.version: Invalid value: "1"`},
		{[]string{"1000", "0"}, "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000"},
		{[]string{`"groupPriorityMinimum":1000,`, ""}, "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000"},
		{[]string{"1000", "20001"}, "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000"},
		{[]string{":15", ":-1"}, "spec.versionPriority: Invalid value: -1: must be positive and less than 1000"},
		{[]string{":15", ":1001"}, "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000"},
		{[]string{`"versionPriority":15`, `"versionPriority":15,"caBundle":"AAAA"`}, `spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle`},
		{[]string{`"versionPriority":15`, `"versionPriority":15,"insecureSkipTLSVerify":true`}, "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"},
		{[]string{`"versionPriority":15`, `"versionPriority":15,"service":{}`}, "[spec.service.namespace: Required value, spec.service.name: Required value]"},
		{append(service(""), `"name":"s"`, `"name":"s","port":0`), "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"},
		{service(`,"caBundle":"AAAA","insecureSkipTLSVerify":true`), "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"},
	} {
		object := good
		for i := 0; i+1 < len(c.change); i += 2 {
			require.Contains(t, object, c.change[i])
			object = strings.ReplaceAll(object, c.change[i], c.change[i+1])
		}
		code, body := w.do("POST", services, object)
		require.Equal(t, 422, code, "%s\n%s", object, body)
		var said struct{ Message string }
		require.NoError(t, json.Unmarshal([]byte(body), &said))
		require.Contains(t, said.Message, c.message)
	}
	code, body := w.do("POST", services, good)
	require.Equal(t, 201, code, body)
	require.Contains(t, body, `"reason":"Local"`, "available at once")
	require.NotContains(t, body, `"generation"`)
}

func TestOPS_08_AnAPIServiceHasAStatusOfItsOwn(t *testing.T) {
	w := newWorld(t, nil)
	w.registerAs("a.dev", "gone", "v1")
	w.await("v1.a.dev", "ServiceNotFound")
	code, body := w.do("GET", services+"/v1.a.dev", "")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"port":443`)
	code, body = w.do("PUT", services+"/v1.a.dev", strings.Replace(body, `"resourceVersion"`, `"x"`, 1))
	require.Equal(t, 422, code, body)
	require.Contains(t, body, "metadata.resourceVersion: Invalid value")
	code, body = w.patch(services+"/v1.a.dev/status", `{"metadata":{"labels":{"a":"b"}},"spec":{"versionPriority":3},"status":{"conditions":[{"type":"StatusUpdated","status":"True","reason":"E2E"}]}}`)
	require.Equal(t, 200, code, body)
	require.Contains(t, body, `"versionPriority":15`)
	require.Contains(t, body, "StatusUpdated")
	code, body = w.patch(services+"/v1.a.dev/status", `{"status":{"conditions":[{"type":"Available","status":"Maybe"}]}}`)
	require.Equal(t, 422, code, body)
	require.Contains(t, body, `status.conditions[0].status: Unsupported value: \"Maybe\"`)
	w.await("v1.a.dev", "ServiceNotFound") // the patch has replaced the list
	res := w.send("GET", services, "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	table, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(table), `["v1.a.dev","default/gone","False (ServiceNotFound)",`)
	require.Contains(t, string(table), `["v1.coordination.k8s.io","Local","True",`)
	code, body = w.do("POST", services, `{"metadata":{"name":"v1.b.dev"},"spec":{"group":"b.dev","version":"v1","service":{"namespace":"n","name":"s"},
		"groupPriorityMinimum":1000,"versionPriority":15}}`, "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	require.Equal(t, 201, code, body)
	require.Contains(t, body, `["v1.b.dev","n/s","Unknown",`, "nobody has looked yet")
	res = w.send("GET", services+"/v1.a.dev", "", "Accept", "application/vnd.kubernetes.protobuf")
	require.Equal(t, "application/vnd.kubernetes.protobuf", res.Header.Get("Content-Type"))
}

func (w *world) patch(path, body string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPatch, w.http.URL+path, strings.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("X-User", "alice")
	r.Header.Set("Content-Type", "application/merge-patch+json")
	res, err := w.http.Client().Do(r)
	require.NoError(w.t, err)
	defer func() { _ = res.Body.Close() }()
	out, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return res.StatusCode, string(out)
}

func TestOPS_08_KindsThatComeAndGoHaveAPIServices(t *testing.T) {
	w := newWorld(t, nil, kindwright.Serve(crd.Kinds()))
	const definition = `{"metadata":{"name":"kites.kites.dev"},"spec":{"group":"kites.dev","scope":"Namespaced","names":{"plural":"kites","kind":"Kite"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	code, body := w.do("POST", definitions, definition)
	require.Equal(t, 201, code, body)
	is := func(want int) func() bool {
		return func() bool { code, _ = w.do("GET", services+"/v1.kites.dev", ""); return code == want }
	}
	require.Eventually(t, is(200), 20*time.Second, 10*time.Millisecond)
	_, body = w.do("GET", services+"/v1.kites.dev", "")
	require.Contains(t, body, `"kube-aggregator.kubernetes.io/automanaged":"true"`)
	require.Contains(t, body, `"groupPriorityMinimum":1000,"version":"v1","versionPriority":100`)
	code, body = w.do("DELETE", services+"/v1.kites.dev", "")
	require.Equal(t, 200, code, body)
	require.Eventually(t, is(200), 20*time.Second, 10*time.Millisecond, "it comes back")
	code, body = w.do("DELETE", definitions+"/kites.kites.dev", "")
	require.Equal(t, 200, code, body)
	require.Eventually(t, is(404), 20*time.Second, 10*time.Millisecond, "it goes with its kind")
}

func TestDISC_02_GroupsAndVersionsByPriority(t *testing.T) {
	w := newWorld(t, nil)
	for name, group := range map[string]string{"first": "zz.dev", "second": "aa.dev"} {
		priority := map[string]string{"first": "19000", "second": "500"}[name]
		w.registerAs(group, name, "v1", "2000", priority)
		w.registerAs(group, name, "v2", "2000", "1", `"versionPriority":15`, `"versionPriority":3`)
	}
	var list struct {
		Groups []struct {
			Name     string
			Versions []struct{ Version string }
		}
	}
	require.Eventually(t, func() bool {
		_, body := w.do("GET", "/apis", "")
		require.NoError(t, json.Unmarshal([]byte(body), &list))
		return strings.Contains(body, "aa.dev/v2") && strings.Contains(body, "zz.dev/v2") && strings.Contains(body, "aa.dev/v1") && strings.Contains(body, "zz.dev/v1")
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, "apiregistration.k8s.io", list.Groups[0].Name)
	require.Equal(t, "zz.dev", list.Groups[1].Name)
	require.Equal(t, "v1", list.Groups[1].Versions[0].Version, "the number counts before the version")
	require.Equal(t, "aa.dev", list.Groups[len(list.Groups)-1].Name)
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	_, err := aggregate.New(aggregate.Config{})
	require.ErrorContains(t, err, "Config.Certificate is required")
	var nobody *world
	w := newWorld(t, nil)
	cfg := aggregate.Config{Certificate: keyPairFunc(w), Resolver: nobody}
	_, err = aggregate.New(cfg)
	require.ErrorContains(t, err, "nil pointer")
	cfg.Resolver, cfg.Timeout = w, -1
	_, err = aggregate.New(cfg)
	require.ErrorContains(t, err, "must not be negative")
	_, err = w.front.Fork(nil)
	require.ErrorContains(t, err, "cannot be forked")
}

// What is off costs nothing, and what is on costs local requests nothing.
func TestLocalRequestsAllocateNothingMore(t *testing.T) {
	w := newWorld(t, nil)
	plain := w.start(kindwright.Serve(kinds.ControlPlane()), kindwright.Authenticate(byHeader), kindwright.Authorize(noted))
	cost := func(h http.Handler) float64 {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default", nil)
		r.Header.Set("X-User", "alice")
		return testing.AllocsPerRun(200, func() { h.ServeHTTP(discard{http.Header{}}, r) })
	}
	cost(plain)
	require.InDelta(t, cost(plain), cost(w.front), 0.9)
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
