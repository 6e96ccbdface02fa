package main

import (
	"testing"

	"github.com/stretchr/testify/require"

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
