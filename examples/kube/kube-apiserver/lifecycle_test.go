package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/storage/memory"
)

// A gate has the state of the emulated release: its default, its lock, and whether it exists.
func TestVER_13_FLAG_01_GatesOfARelease(t *testing.T) {
	for minor, want := range map[int]gate{29: {absent: true}, 30: {}, 31: {on: true}, 32: {on: true, locked: true}, 36: {on: true, locked: true}} {
		require.Equal(t, want, knownGates(minor)[gateFieldSelectors], minor)
	}
	o := parsed(t, "--emulated-version=kube=1.31", "--feature-gates="+gateFieldSelectors+"=false")
	require.Empty(t, o.withoutEffectOf)
	require.Len(t, o.definitions(), 3)
	_, err := parse([]string{"--emulated-version=1.32", "--feature-gates=" + gateFieldSelectors + "=false"})
	require.ErrorContains(t, err, "feature is locked to true")
	_, err = parse([]string{"--emulated-version=1.29", "--feature-gates=" + gateFieldSelectors + "=true"})
	require.ErrorContains(t, err, "feature is PreAlpha at emulated version 1.29")
	_, err = kindwright.New(memory.New(), append(parsed(t, "--runtime-config=api/all=false").settings(), kindwright.Serve())...)
	require.ErrorContains(t, err, "leaves nothing to serve")
}

// A second range is for services with both families.
func TestTwoRangesOfServices(t *testing.T) {
	o := parsed(t, "--service-cluster-ip-range=fd00::/112,10.0.0.0/24")
	require.Equal(t, "fd00::/112", o.serviceRange.String())
	require.Equal(t, "10.0.0.0/24", o.secondRange.String())
	require.Empty(t, o.withoutEffectOf)
}

// A version is served from the release on that it came with, until the one that no longer has it.
func TestVER_13_VersionsOfARelease(t *testing.T) {
	const v1, beta = "/apis/networking.k8s.io/v1/servicecidrs", "/apis/networking.k8s.io/v1beta1/servicecidrs"
	const policies = "/apis/admissionregistration.k8s.io/v1beta1/validatingadmissionpolicies"
	for name, c := range map[string]struct {
		args               []string
		v1, beta, policies int
	}{
		"newest":       {nil, 200, 200, 404}, // the beta of networks goes with 1.37, as its types say
		"1.33":         {[]string{"--emulated-version=1.33"}, 200, 200, 200},
		"1.31":         {[]string{"--emulated-version=kube=1.31"}, 404, 200, 200},
		"forward":      {[]string{"--emulated-version=1.31", "--emulation-forward-compatible=true"}, 200, 200, 200},
		"asked for":    {[]string{"--emulated-version=1.31", "--runtime-config-emulation-forward-compatible=true", "--runtime-config=networking.k8s.io/v1=true"}, 200, 200, 200},
		"insisted on":  {[]string{"--runtime-config=admissionregistration.k8s.io/v1beta1/validatingadmissionpolicies=true"}, 200, 200, 404},
		"not asked":    {[]string{"--emulated-version=1.31", "--runtime-config-emulation-forward-compatible=true"}, 404, 200, 200},
		"older policy": {[]string{"--emulated-version=1.30"}, 404, 404, 200},
	} {
		t.Run(name, func(t *testing.T) {
			s := run(t, append(c.args, "--data-dir="+t.TempDir(), "--runtime-config=api/beta=true")...)
			s.text(t, "master", v1, c.v1)
			s.text(t, "master", beta, c.beta)
			s.text(t, "master", policies, c.policies)
			s.text(t, "master", "/apis/apps/v1/deployments", 200)
		})
	}
}

// What is served under an emulated release are the kinds that their types say it had.
func TestVER_13_KindsOfARelease(t *testing.T) {
	type emergent interface{ APILifecycleIntroduced() (major, minor int) }
	kinds := func(release string) map[schema.GroupVersionKind]bool {
		s := run(t, "--data-dir="+t.TempDir(), "--emulated-version="+release, "--runtime-config=api/all=true",
			"--feature-gates=AllAlpha=true,AllBeta=true")
		var groups metav1.APIGroupList
		require.NoError(t, json.Unmarshal([]byte(s.text(t, "master", "/apis", 200)), &groups))
		out := map[schema.GroupVersionKind]bool{}
		for _, g := range groups.Groups {
			for _, v := range g.Versions {
				var resources metav1.APIResourceList
				require.NoError(t, json.Unmarshal([]byte(s.text(t, "master", "/apis/"+v.GroupVersion, 200)), &resources))
				for _, r := range resources.APIResources {
					if !strings.Contains(r.Name, "/") {
						out[schema.GroupVersionKind{Group: g.Name, Version: v.Version, Kind: r.Kind}] = true
					}
				}
			}
		}
		return out
	}
	newest := kinds("1.36")
	for release, minor := range map[string]int{"1.33": 33, "1.34": 34, "1.35": 35} {
		served := kinds(release)
		looked := 0
		for kind := range newest {
			object, err := scheme.Scheme.New(kind)
			if err != nil {
				continue // a kind of another library
			}
			if e, ok := object.(emergent); ok {
				_, since := e.APILifecycleIntroduced()
				require.Equal(t, since <= minor, served[kind], "%v came with 1.%d, under 1.%d", kind, since, minor)
				looked++
			}
		}
		require.Greater(t, looked, 15)
	}
}

// Policies that mutate are in force where their feature is on, whatever the store has from before.
func TestPOL_05_VER_13_MutatingPoliciesHaveAGate(t *testing.T) {
	const group, data = "/apis/admissionregistration.k8s.io/v1/", "--data-dir="
	dir := t.TempDir()
	s := run(t, data+dir)
	code, out := s.do(t, "master", "POST", group+"mutatingadmissionpolicies", `{"metadata":{"name":"label"},"spec":{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},
		"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'marked': 'yes'}}}"}}]}}`)
	require.Equal(t, 201, code, out)
	code, out = s.do(t, "master", "POST", group+"mutatingadmissionpolicybindings", `{"metadata":{"name":"label"},"spec":{"policyName":"label"}}`)
	require.Equal(t, 201, code, out)
	s.stop()
	for _, c := range []struct {
		args  []string
		label any
	}{
		{nil, "yes"},
		{[]string{"--feature-gates=MutatingAdmissionPolicy=false"}, nil},
		{[]string{"--emulated-version=1.35"}, nil},
		{[]string{"--emulated-version=1.35", "--feature-gates=MutatingAdmissionPolicy=true"}, "yes"},
		{[]string{"--emulated-version=1.31"}, nil},
	} {
		s := run(t, append(c.args, data+dir)...)
		code, out := s.do(t, "master", "POST", configMap+"?dryRun=All", `{"metadata":{"name":"a"}}`)
		require.Equal(t, 201, code, out)
		labels, _ := out["metadata"].(map[string]any)["labels"].(map[string]any)
		require.Equal(t, c.label, labels["marked"], c.args)
		s.stop()
	}
}

// New expressions are fit for the oldest release that a server has to be compatible with.
func TestCEL_25_TheOldestReleaseOfExpressions(t *testing.T) {
	const path, sorts = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", `{"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},"validations":[{"expression":"[2, 1].sort() == [1, 2]"}]}}`
	for version, c := range map[string]struct {
		code  int
		minor string
	}{"1.33": {422, "33"}, "kube=1.34": {201, "34"}, "": {201, "35"}} {
		args := []string{"--data-dir=" + t.TempDir()}
		if version != "" {
			args = append(args, "--min-compatibility-version="+version)
		}
		s := run(t, args...)
		code, out := s.do(t, "master", "POST", path+"?dryRun=All", sorts) // lists are sorted since 1.34
		require.Equal(t, c.code, code, out)
		_, out = s.do(t, "master", "GET", "/version", "")
		require.Equal(t, []any{"36", c.minor}, []any{out["emulationMinor"], out["minCompatibilityMinor"]})
	}
	for args, want := range map[string]string{
		"--emulated-version=1.33 --min-compatibility-version=1.34": "MinCompatibilityVersion: 1.34 is later than the emulated version 1.33",
		"--min-compatibility-version=soon":                         "MinCompatibilityVersion: ",
	} {
		_, err := kindwright.New(memory.New(), append(parsed(t, strings.Fields(args)...).settings(), kindwright.Serve())...)
		require.ErrorContains(t, err, want)
	}
}
