package scheduler_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/config/scheduler"
)

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func parse(t *testing.T, document string) scheduler.Configuration {
	t.Helper()
	c, err := scheduler.Parse([]byte(head + document))
	require.NoError(t, err)
	return c
}

func TestSCHED_01_to_10_WhatIsNotSaid(t *testing.T) {
	c := parse(t, "")
	require.Equal(t, int32(16), *c.Parallelism)
	require.Zero(t, *c.PercentageOfNodesToScore)
	require.Equal(t, []int64{1, 10}, []int64{*c.PodInitialBackoffSeconds, *c.PodMaxBackoffSeconds})
	require.False(t, c.DelayCacheUntilActive)
	require.True(t, *c.EnableProfiling)
	require.True(t, c.Contention())
	require.Equal(t, []float32{50, 100}, []float32{c.ClientConnection.QPS, float32(c.ClientConnection.Burst)})
	require.Equal(t, "application/vnd.kubernetes.protobuf", c.ClientConnection.ContentType)
	e, err := c.LeaderElection.Election("me")
	require.NoError(t, err)
	require.Equal(t, "kube-system/kube-scheduler", e.Lease.String())
	require.Len(t, c.Profiles, 1)
	require.Equal(t, "default-scheduler", *c.Profiles[0].SchedulerName)

	c = parse(t, "enableProfiling: false\nenableContentionProfiling: true\nclientConnection: {qps: 1.5}\npodInitialBackoffSeconds: null\ndelayCacheUntilActive: true")
	require.False(t, c.Contention(), "it counts with profiles only")
	require.InDelta(t, 1.5, c.ClientConnection.QPS, 0)
	require.Equal(t, int64(1), *c.PodInitialBackoffSeconds)
	require.True(t, c.DelayCacheUntilActive)
}

func TestSCHED_08_PodsChooseAProfile(t *testing.T) {
	c := parse(t, "profiles: [{schedulerName: batch}, {schedulerName: default-scheduler, percentageOfNodesToScore: 7}]")
	p, ok := c.Profile("")
	require.True(t, ok)
	require.Equal(t, int32(7), *p.PercentageOfNodesToScore)
	p, ok = c.Profile("batch")
	require.True(t, ok)
	require.Nil(t, p.PercentageOfNodesToScore)
	_, ok = c.Profile("other")
	require.False(t, ok)
	_, ok = parse(t, "profiles: [{schedulerName: batch}]").Profile("")
	require.False(t, ok, "nobody is default-scheduler here")
}

func TestSCHED_04_05_HowManyNodesAreScored(t *testing.T) {
	c := parse(t, "profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 20}, {schedulerName: c, percentageOfNodesToScore: 0}]")
	c30 := parse(t, "percentageOfNodesToScore: 30\nprofiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 20}]")
	for _, one := range []struct {
		c           scheduler.Configuration
		profile     string
		nodes       int
		percent, of int
	}{
		{c, "a", 10, 50, 10},
		{c, "a", 99, 50, 99},
		{c, "a", 1000, 42, 420},
		{c, "a", 125, 49, 100},
		{c, "a", 5000, 10, 500},
		{c, "a", 6000, 5, 300},
		{c, "a", 100_000, 5, 5000},
		{c, "b", 5000, 20, 1000},
		{c, "c", 5000, 10, 500},
		{c30, "a", 5000, 30, 1500},
		{c30, "b", 5000, 20, 1000},
	} {
		p, ok := one.c.Profile(one.profile)
		require.True(t, ok)
		require.Equal(t, one.percent, one.c.PercentageOfNodes(p, one.nodes), "%+v", one)
		require.Equal(t, one.of, one.c.NodesToScore(p, one.nodes), "%+v", one)
	}
	require.Equal(t, 300, parse(t, "percentageOfNodesToScore: 100").NodesToScore(scheduler.Profile{}, 300))
}

func TestSCHED_21_to_31_ArgumentsOfPlugins(t *testing.T) {
	c := parse(t, `
profiles:
- pluginConfig:
  - {name: DefaultPreemption, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: DefaultPreemptionArgs, minCandidateNodesPercentage: 0}}
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: gpu}, {name: cpu, weight: 3}]}}}
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 0, shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}}
  - {name: NodeAffinity}
  - {name: Own, args: {a: [1]}}
`)
	p := c.Profiles[0]
	preemption := p.Args("DefaultPreemption").(*scheduler.DefaultPreemptionArgs)
	require.Equal(t, []int32{0, 100}, []int32{*preemption.MinCandidateNodesPercentage, *preemption.MinCandidateNodesAbsolute})
	require.Equal(t, "DefaultPreemptionArgs", preemption.Kind)
	fit := p.Args("NodeResourcesFit").(*scheduler.NodeResourcesFitArgs)
	require.Equal(t, []scheduler.Resource{{Name: "gpu", Weight: 1}, {Name: "cpu", Weight: 3}}, fit.ScoringStrategy.Resources)
	binding := p.Args("VolumeBinding").(*scheduler.VolumeBindingArgs)
	require.Zero(t, *binding.BindTimeoutSeconds, "0 waits for none")
	require.Len(t, binding.Shape, 2)
	require.IsType(t, &scheduler.NodeAffinityArgs{}, p.Args("NodeAffinity"))
	require.Equal(t, map[string]any{"a": []any{int64(1)}}, p.Args("Own"))
	require.Nil(t, p.Args("Other"))

	half := []scheduler.Resource{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}
	require.Equal(t, int64(600), *scheduler.Profile{}.Args("VolumeBinding").(*scheduler.VolumeBindingArgs).BindTimeoutSeconds)
	require.Equal(t, int32(1), *p.Args("InterPodAffinity").(*scheduler.InterPodAffinityArgs).HardPodAffinityWeight)
	require.Equal(t, half, p.Args("NodeResourcesBalancedAllocation").(*scheduler.NodeResourcesBalancedAllocationArgs).Resources)
	require.Equal(t, scheduler.ScoringStrategy{Type: "LeastAllocated", Resources: half}, *scheduler.Profile{}.Args("NodeResourcesFit").(*scheduler.NodeResourcesFitArgs).ScoringStrategy)
	require.Equal(t, "System", p.Args("PodTopologySpread").(*scheduler.PodTopologySpreadArgs).DefaultingType)
	require.Equal(t, 10*time.Second, p.Args("DynamicResources").(*scheduler.DynamicResourcesArgs).FilterTimeout.Duration)
}

// What Kubernetes does not judge: it looks for the arguments of NodeResourcesFit under another name, and
// for a shape behind a gate.
func TestSCHED_26_27_30_ArgumentsAreJudged(t *testing.T) {
	at := "profiles[0].pluginConfig[0].args."
	for args, want := range map[string]string{
		"{name: NodeResourcesFit, args: {ignoredResourceGroups: [a/b]}}":                                                   at + "ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
		"{name: NodeResourcesFit, args: {ignoredResources: ['-']}}":                                                        at + "ignoredResources[0]: Invalid value: \"-\"",
		"{name: NodeResourcesFit, args: {scoringStrategy: {type: Best}}}":                                                  at + "scoringStrategy.type: Unsupported value: \"Best\"",
		"{name: NodeResourcesFit, args: {scoringStrategy: {}}}":                                                            at + "scoringStrategy.type: Unsupported value: \"\"",
		"{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio}}}":                              at + "scoringStrategy.requestedToCapacityRatio: Required value",
		"{name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}}": at + "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
		"{name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {}}}}":          at + "scoringStrategy.requestedToCapacityRatio: Forbidden",
		"{name: VolumeBinding, args: {shape: []}}":                                                                         at + "shape: Required value",
		"{name: VolumeBinding, args: {shape: [{utilization: 101, score: 11}]}}":                                            at + "shape[0].utilization: Invalid value: 101: not in valid range [0, 100], " + at + "shape[0].score: Invalid value: 11: not in valid range [0, 10]]",
		"{name: VolumeBinding, args: {shape: [{utilization: 5, score: 1}, {utilization: 5, score: 1}]}}":                   at + "shape[1].utilization: Invalid value: 5: values must be sorted in increasing order",
		"{name: VolumeBinding, args: {apiVersion: v1}}":                                                                    at + "apiVersion: Invalid value: \"v1\"",
		"{name: VolumeBinding, args: {kind: NodeAffinityArgs}}":                                                            at + "kind: Invalid value: \"NodeAffinityArgs\": must be VolumeBindingArgs",
		"{name: VolumeBinding, args: {bindTimeoutSecond: 1}}":                                                              at + "bindTimeoutSecond: Forbidden: unknown field, did you mean \"bindTimeoutSeconds\"?",
		"{name: VolumeBinding, args: 3}":                                                                                   "must be an object",
	} {
		_, err := scheduler.Parse([]byte(head + "profiles: [{pluginConfig: [" + args + "]}]"))
		require.ErrorContains(t, err, want, args)
	}
}

func TestSCHED_11_to_20_Extenders(t *testing.T) {
	c := parse(t, `
extenders:
- {urlPrefix: "http://here/x/", filterVerb: filter, managedResources: [{name: example.com/gpu, ignoredByScheduler: true}], ignorable: true, nodeCacheCapable: true}
- {urlPrefix: "http://here", prioritizeVerb: score, weight: 2, httpTimeout: 1m30s}
`)
	one, two := c.Extenders[0], c.Extenders[1]
	require.Equal(t, "http://here/x/filter", one.URL(one.FilterVerb))
	require.Empty(t, one.URL(one.BindVerb), "it does not bind")
	require.Equal(t, "http://here/score", two.URL(two.PrioritizeVerb))
	require.Equal(t, 5*time.Second, one.HTTPTimeout.Duration)
	require.Equal(t, 90*time.Second, two.HTTPTimeout.Duration)
	require.True(t, one.Manages("cpu", "example.com/gpu"))
	require.False(t, one.Manages("cpu"))
	require.True(t, two.Manages("cpu"), "one that manages nothing in particular is always asked")
}

func TestSCHED_16_DataCountsBeforeFiles(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler()) // it logs handshakes that fail on purpose
	defer srv.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	dir := t.TempDir()
	bad, good := filepath.Join(dir, "bad"), filepath.Join(dir, "good")
	require.NoError(t, os.WriteFile(bad, []byte("nothing"), 0o600))
	require.NoError(t, os.WriteFile(good, authority, 0o600))
	reaches := func(document string) error {
		c, err := scheduler.Parse([]byte(head + "extenders: [{urlPrefix: https://here, enableHTTPS: true, tlsConfig: " + document + "}]"))
		if err != nil {
			return err
		}
		config, err := c.Extenders[0].TLSConfig.Config()
		if err != nil {
			return err
		}
		connection, err := tls.Dial("tcp", srv.Listener.Addr().String(), config)
		if err != nil {
			return err
		}
		return connection.Close()
	}
	data := base64.StdEncoding.EncodeToString(authority)
	require.NoError(t, reaches("{serverName: example.com, caData: "+data+", caFile: "+bad+"}"))
	require.NoError(t, reaches("{serverName: example.com, caFile: "+good+"}"))
	require.NoError(t, reaches("{insecure: true}"))
	require.ErrorContains(t, reaches("{serverName: other.example.org, caFile: "+good+"}"), "not other.example.org")
	require.ErrorContains(t, reaches("{serverName: example.com}"), "unknown authority", "nobody is trusted by default")
	require.ErrorContains(t, reaches("{caFile: "+bad+"}"), "has no certificate")
	require.ErrorContains(t, reaches("{caFile: "+bad+"x}"), "caFile: ")
	require.ErrorContains(t, reaches("{certFile: "+good+"}"), "must be specified together")
	require.ErrorContains(t, reaches("{insecure: true, caData: "+data+"}"), "insecure")
	err := reaches("{keyData: ['s3cret']}")
	require.ErrorContains(t, err, `keyData: Invalid value: "<secret>"`)
	require.NotContains(t, err.Error(), "s3cret")
}
