package controllermanager_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	cm "github.com/kindwright/kindwright/config/controllermanager"
	"github.com/kindwright/kindwright/meta"
)

const head = "apiVersion: controllermanager.config.k8s.io/v1alpha1\nkind: GenericControllerManagerConfiguration\n"

const whole = head + `
Port: 10257
Address: 0.0.0.0
MinResyncPeriod: 12h
ClientConnection: {kubeconfig: /etc/kubeconfig, qps: 20, burst: 30}
ControllerStartInterval: 1s
LeaderElection: {resourceName: manager, resourceNamespace: kube-system}
Controllers: ["*", "-tokens", bootstrap]
Debugging: {enableProfiling: false}
LeaderMigrationEnabled: true
LeaderMigration: {leaderName: m, resourceLock: leases, controllerLeaders: [{name: route-controller, component: cloud}, {name: service, component: "*"}]}
KubeCloudShared:
  ClusterName: here
  ClusterCIDR: 10.0.0.0/8,fd00::/64
  AllocateNodeCIDRs: true
  CIDRAllocatorType: RangeAllocator
  ConfigureCloudRoutes: false
  RouteReconciliationPeriod: 10s
  NodeMonitorPeriod: 5s
  NodeSyncPeriod: 0s
DeploymentController: {ConcurrentDeploymentSyncs: 5}
EndpointController: {ConcurrentEndpointSyncs: 3, EndpointUpdatesBatchPeriod: 500ms}
HPAController: {HorizontalPodAutoscalerTolerance: 0.1}
`

func TestCTRLMGR_01_to_12_TheWholeDocument(t *testing.T) {
	c, err := cm.Parse([]byte(whole))
	require.NoError(t, err)
	require.Equal(t, int32(10257), c.Port)
	require.Equal(t, "0.0.0.0", c.Address)
	require.Equal(t, 12*time.Hour, c.MinResyncPeriod.Duration)
	require.Equal(t, int32(30), c.ClientConnection.Burst)
	require.Equal(t, time.Second, c.ControllerStartInterval.Duration)
	require.True(t, c.LeaderElection.Elects())
	require.False(t, c.Debugging.Profiles())
	require.True(t, c.LeaderMigrationEnabled)
	no := false
	require.Equal(t, cm.KubeCloudSharedConfiguration{
		ClusterName: "here", ClusterCIDR: "10.0.0.0/8,fd00::/64", AllocateNodeCIDRs: true, CIDRAllocatorType: "RangeAllocator",
		ConfigureCloudRoutes: &no, RouteReconciliationPeriod: meta.NewDuration(10 * time.Second), NodeMonitorPeriod: meta.NewDuration(5 * time.Second),
	}, c.KubeCloudShared)
	require.Len(t, c.Blocks, 3)
	n, err := c.Blocks["EndpointController"].Count("ConcurrentEndpointSyncs", 1)
	require.NoError(t, err)
	require.Equal(t, int32(3), n)
	d, err := c.Blocks["EndpointController"].Period("endpointUpdatesBatchPeriod", time.Second)
	require.NoError(t, err)
	require.Equal(t, 500*time.Millisecond, d)
	n, err = c.Blocks["JobController"].Count("ConcurrentJobSyncs", 7)
	require.NoError(t, err)
	require.Equal(t, int32(7), n, "a block that is not there says nothing")
	_, err = c.Blocks["HPAController"].Count("HorizontalPodAutoscalerTolerance", 7)
	require.ErrorContains(t, err, "is not a count")
}

// Each field is known with a capital letter and with a small one, and not twice.
func TestCTRLMGR_13_SpellingOfFields(t *testing.T) {
	small := head + `
port: 1
address: "::1"
minResyncPeriod: 1m
clientConnection: {}
controllerStartInterval: 0s
leaderElection: {leaderElect: false}
controllers: []
debugging: {}
leaderMigrationEnabled: false
kubeCloudShared: {clusterName: here, cidrAllocatorType: CloudAllocator, cloudProvider: {name: cloud}}
deploymentController: {concurrentDeploymentSyncs: 5}
`
	c, err := cm.Parse([]byte(small))
	require.NoError(t, err)
	require.Equal(t, int32(1), c.Port)
	require.Equal(t, []string{"here", "CloudAllocator", "cloud"}, []string{c.KubeCloudShared.ClusterName, c.KubeCloudShared.CIDRAllocatorType, c.KubeCloudShared.CloudProvider.Name})
	n, err := c.Blocks["deploymentController"].Count("ConcurrentDeploymentSyncs", 1)
	require.NoError(t, err)
	require.Equal(t, int32(5), n)

	_, err = cm.Parse([]byte(small + "Port: 2\n"))
	require.ErrorContains(t, err, "port: Forbidden: says something else than Port")
	_, err = cm.Parse([]byte(small + "PORT: 2\n"))
	require.ErrorContains(t, err, "PORT: Forbidden: unknown field")
}

// READ-33: what controllers share can be in a field of its own, as in Kubernetes.
func TestCTRLMGR_01_to_12_ADocumentWithGeneric(t *testing.T) {
	kind := "apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: KubeControllerManagerConfiguration\n"
	shared := "Address: 0.0.0.0, MinResyncPeriod: 1s, ClientConnection: {qps: 3}, ControllerStartInterval: 0s, " +
		"LeaderElection: {leaderElect: false}, Controllers: [], Debugging: {}, LeaderMigrationEnabled: false}\n"
	c, err := cm.Parse([]byte(kind + "Generic: {Port: 5, " + shared + "JobController: {ConcurrentJobSyncs: 5}\nkubeCloudShared: {clusterName: here}"))
	require.NoError(t, err)
	require.Equal(t, int32(5), c.Port)
	require.InDelta(t, 3, c.ClientConnection.QPS, 0)
	require.Equal(t, "here", c.KubeCloudShared.ClusterName)
	require.Len(t, c.Blocks, 1)
	_, err = cm.Parse([]byte(kind + "generic: {Port: 70000, " + shared))
	require.ErrorContains(t, err, "Generic.Port: Invalid value: 70000")
	_, err = cm.Parse([]byte(kind + "Generic: {" + shared))
	require.ErrorContains(t, err, "Generic.Port: Required value")
	_, err = cm.Parse([]byte(kind + "Generic: {Port: 1, " + shared + "Port: 3"))
	require.ErrorContains(t, err, "Port: Forbidden: unknown field")
}

func TestCTRLMGR_01_to_12_WhatIsWrongIsNamed(t *testing.T) {
	_, err := cm.Parse([]byte(head))
	for _, name := range []string{
		"Port", "Address", "MinResyncPeriod", "ClientConnection", "ControllerStartInterval", "LeaderElection", "Controllers",
		"Debugging", "LeaderMigrationEnabled",
	} {
		require.ErrorContains(t, err, name+": Required value")
	}
	require.NotContains(t, err.Error(), "LeaderMigration: ")
	for change, want := range map[string]string{
		"Port: 70000":                                     "Port: Invalid value: 70000",
		"Address: here":                                   `Address: Invalid value: "here": must be an IP address`,
		"MinResyncPeriod: -1s":                            `MinResyncPeriod: Invalid value: "-1s": must not be negative`,
		"LeaderElection: {}":                              "LeaderElection.resourceName: Required value",
		"ClientConnection: {burst: -1}":                   "ClientConnection.burst: Invalid value: -1: must be non-negative",
		"Controllers: [a, '-', '-*']":                     `[Controllers[1]: Invalid value: "-"`,
		"LeaderMigrationEnabled: true":                    "LeaderMigration: Required value",
		"KubeCloudShared: {AllocateNodeCIDRs: true}":      "KubeCloudShared.ClusterCIDR: Required value",
		"KubeCloudShared: {ClusterCIDR: x}":               `KubeCloudShared.ClusterCIDR: Invalid value: "x"`,
		"KubeCloudShared: {NodeSyncPeriod: -1s}":          `KubeCloudShared.NodeSyncPeriod: Invalid value: "-1s"`,
		"KubeCloudShare: {}":                              `KubeCloudShare: Forbidden: unknown field, did you mean "KubeCloudShared"?`,
		"Ports: 3":                                        `Ports: Forbidden: unknown field, did you mean "Port"?`,
		"JobController: {ConcurrentJobSyncs: 1.5}":        "JobController.ConcurrentJobSyncs: Invalid value: 1.5",
		"JobController: {ConcurrentJobSyncs: 3000000000}": "JobController.ConcurrentJobSyncs: Invalid value: 3000000000",
		"JobController: {BatchPeriod: 3}":                 "JobController.BatchPeriod: Invalid value: 3: 3 is not a duration",
		"LeaderMigrationEnabled: true\nLeaderMigration: {leaderName: '', resourceLock: x, controllerLeaders: []}": "LeaderMigration.leaderName: Required value",
	} {
		fields := map[string]string{
			"Port": "1", "Address": "0.0.0.0", "MinResyncPeriod": "1s", "ClientConnection": "{}", "ControllerStartInterval": "0s",
			"LeaderElection": "{leaderElect: false}", "Controllers": "[]", "Debugging": "{}", "LeaderMigrationEnabled": "false",
		}
		document := head
		for name, value := range fields {
			if len(change) <= len(name) || change[:len(name)+1] != name+":" {
				document += name + ": " + value + "\n"
			}
		}
		_, err := cm.Parse([]byte(document + change))
		require.ErrorContains(t, err, want, change)
	}
}

func TestCTRLMGR_03_ResyncIsBetweenAPeriodAndTwiceIt(t *testing.T) {
	least, most := time.Hour, time.Duration(0)
	for range 10_000 {
		d := cm.ResyncPeriod(time.Minute)
		least, most = min(least, d), max(most, d)
	}
	require.GreaterOrEqual(t, least, time.Minute)
	require.Less(t, most, 2*time.Minute)
	require.Less(t, least, 61*time.Second)
	require.Greater(t, most, 119*time.Second)
	require.Zero(t, cm.ResyncPeriod(0))
}

func TestCTRLMGR_07_TheFirstItemForANameCounts(t *testing.T) {
	for _, one := range []struct {
		controllers []string
		want        string // which of foo, bar and the one that is off by default run
	}{
		{nil, ""},
		{[]string{"*"}, "foo bar "},
		{[]string{"*", "off"}, "foo bar off "},
		{[]string{"foo"}, "foo "},
		{[]string{"-foo"}, ""},
		{[]string{"*", "-foo"}, "bar "},
		{[]string{"-foo", "*"}, "bar "},
		{[]string{"foo", "-foo"}, "foo "},
		{[]string{"-foo", "foo", "*"}, "bar "},
		{[]string{"*", "-off", "off"}, "foo bar "},
	} {
		got := ""
		for _, c := range []cm.Controller{{Name: "foo"}, {Name: "bar"}, {Name: "off", OnlyByName: true}} {
			if (cm.Generic{Controllers: one.controllers}).Enabled(c) {
				got += c.Name + " "
			}
		}
		require.Equal(t, one.want, got, "%v", one.controllers)
	}
}

func TestCTRLMGR_05_ControllersStartOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cm.Generic{Controllers: []string{"*", "-b"}, ControllerStartInterval: meta.NewDuration(3 * time.Second)}
		began := time.Now()
		var mu sync.Mutex
		started := map[string]time.Duration{}
		mistake := errors.New("a mistake")
		run := func(name string, then func(context.Context) error) cm.Controller {
			return cm.Controller{Name: name, Run: func(ctx context.Context) error {
				mu.Lock()
				started[name] = time.Since(began)
				mu.Unlock()
				return then(ctx)
			}}
		}
		wait := func(ctx context.Context) error { <-ctx.Done(); return nil }
		err := c.Start(t.Context(), run("a", wait), run("b", wait), run("c", wait), run("d", func(context.Context) error {
			time.Sleep(time.Second)
			return mistake
		}), run("e", wait))
		require.ErrorIs(t, err, mistake)
		require.ErrorContains(t, err, "d: ")
		require.Equal(t, map[string]time.Duration{"a": 0, "c": 3 * time.Second, "d": 6 * time.Second}, started, "e had no turn before the mistake")
		require.Equal(t, 7*time.Second, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		require.NoError(t, c.Start(ctx, run("a", wait), run("b", wait), run("c", wait)))
		require.ErrorContains(t, c.Start(t.Context(), run("a", wait)), `"-b" is not in the list of known controllers`)
	})
}

func TestLEADERMIG_01_to_06_WhereAControllerRuns(t *testing.T) {
	c, err := cm.Parse([]byte(whole))
	require.NoError(t, err)
	for _, one := range []struct {
		component, controller string
		want                  cm.Lock
	}{
		{"cloud", "route-controller", cm.MigrationLock},
		{"cloud", "route", cm.MigrationLock},
		{"kube", "route-controller", cm.NoLock},
		{"kube", "service-controller", cm.MigrationLock},
		{"kube", "deployment-controller", cm.MainLock},
	} {
		require.Equal(t, one.want, c.MigrationLock(one.component, one.controller), "%+v", one)
	}
	c.LeaderMigrationEnabled = false
	require.Equal(t, cm.MainLock, c.MigrationLock("kube", "route-controller"))

	for document, want := range map[string]string{
		"resourceLock: leases\ncontrollerLeaders: []":                         "leaderName: Required value",
		"leaderName: a\ncontrollerLeaders: []":                                "resourceLock: Required value",
		"leaderName: a\nresourceLock: leases":                                 "controllerLeaders: Required value",
		"leaderName: a\nresourceLock: leases\ncontrollerLeaders: [{name: a}]": "controllerLeaders[0].component: Required value",
		"leaderName: a\nresourceLock: configmaps\ncontrollerLeaders: []":      `resourceLock: Invalid value: "configmaps"`,
		"leaderName: a\nresourceLock: leases\ncontrollerLeaders: [{Name: a}]": "controllerLeaders[0].Name: Forbidden: unknown field",
	} {
		_, err := cm.ParseLeaderMigration([]byte("apiVersion: controllermanager.config.k8s.io/v1alpha1\nkind: LeaderMigrationConfiguration\n" + document))
		require.ErrorContains(t, err, want, document)
	}
}

func TestLEADERMIG_07_TheDefaultMovesTheControllersOfClouds(t *testing.T) {
	c := cm.DefaultLeaderMigration()
	require.NoError(t, c.Validate())
	require.Equal(t, "cloud-provider-extraction-migration leases", fmt.Sprint(c.LeaderName, " ", c.ResourceLock))
	for _, controller := range []string{"route", "service", "cloud-node-lifecycle"} {
		require.Equal(t, cm.MigrationLock, c.Lock("kube-controller-manager", controller))
	}
	require.Equal(t, cm.MainLock, c.Lock("kube-controller-manager", "deployment"))
}
