package program

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFLAG_07_RuntimeConfig(t *testing.T) {
	s := serveIn(t, t.TempDir(), "--runtime-config=api/all=false,v1", "--runtime-config=example.dev/v1/widgets")
	c := admin(t, s.kubeconfig)
	assert.Equal(t, http.StatusOK, c.do(t, "GET", widgetsPath, "").code)
	assert.Equal(t, http.StatusNotFound, c.do(t, "GET", gadgetsPath, "").code)
	assert.Equal(t, http.StatusNotFound, c.do(t, "GET", "/apis/coordination.k8s.io/v1/leases", "").code)
	assert.Equal(t, http.StatusOK, c.do(t, "GET", "/api/v1/namespaces/default", "").code)
}

func TestFLAG_01_08_GatesAndReleases(t *testing.T) {
	const initial = widgetsPath + "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	s := serveIn(t, t.TempDir(), "--emulated-version=1.31")
	c := admin(t, s.kubeconfig)
	assert.Equal(t, http.StatusUnprocessableEntity, c.do(t, "GET", initial, "").code)
	assert.Contains(t, string(c.do(t, "GET", "/version", "").body), `"emulationMinor":"31"`)
	s = serveIn(t, t.TempDir(), "--emulated-version=1.31", "--feature-gates=WatchList=true")
	assert.Equal(t, http.StatusOK, admin(t, s.kubeconfig).do(t, "GET", initial, "").code)
}

func TestFLAG_01_07_08_WrongWordsEndTheStart(t *testing.T) {
	for flag, want := range map[string]string{
		"--feature-gates=NoSuchGate=true":         `unrecognized feature gate: "NoSuchGate"`,
		"--emulated-version=1.99":                 "emulation version 1.99 is not between",
		"--runtime-config=example.dev/v7":         `no version "v7" of group "example.dev"`,
		"--runtime-config=example.dev/v1/Widgets": "lower case",
		"--feature-gates=ServerSideApply=false":   "locked to true",
		"--runtime-config=api/all=false":          "nothing to serve",
	} {
		var out, errOut bytes.Buffer
		code := command(t.Context(), []string{"--storage=memory", "--data-dir=" + t.TempDir(), "--listen=127.0.0.1:0", flag}, &out, &errOut)
		assert.Equal(t, exitFailure, code, flag)
		assert.Contains(t, errOut.String(), want)
		assert.Empty(t, out.String(), "it does not serve")
	}
}
