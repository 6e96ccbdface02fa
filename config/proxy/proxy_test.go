package proxy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/config/proxy"
)

const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

func parse(t *testing.T, document string) proxy.Configuration {
	t.Helper()
	c, err := proxy.Parse([]byte(head+document), "linux")
	require.NoError(t, err)
	return c
}

func TestPROXY_01_to_10_WhatIsNotSaid(t *testing.T) {
	c := parse(t, "")
	require.Equal(t, []int32{14, 14, -999}, []int32{*c.IPTables.MasqueradeBit, *c.NFTables.MasqueradeBit, *c.OOMScoreAdj})
	require.True(t, *c.IPTables.LocalhostNodePorts)
	for _, d := range []struct{ is, want time.Duration }{
		{c.IPTables.SyncPeriod.Duration, 30 * time.Second},
		{c.IPTables.MinSyncPeriod.Duration, time.Second},
		{c.IPVS.SyncPeriod.Duration, 30 * time.Second},
		{c.IPVS.MinSyncPeriod.Duration, 0},
		{c.NFTables.SyncPeriod.Duration, 30 * time.Second},
		{c.NFTables.MinSyncPeriod.Duration, time.Second},
		{c.Conntrack.TCPEstablishedTimeout.Duration, 24 * time.Hour},
		{c.Conntrack.TCPCloseWaitTimeout.Duration, time.Hour},
		{c.Conntrack.UDPTimeout.Duration, 0},
		{c.ConfigSyncPeriod.Duration, 15 * time.Minute},
	} {
		require.Equal(t, d.want, d.is)
	}
	require.Equal(t, []string{"0.0.0.0", "0.0.0.0:10256", "127.0.0.1:10249"}, []string{c.BindAddress, c.HealthzBindAddress, c.MetricsBindAddress})
	require.Equal(t, []float32{5, 10}, []float32{c.ClientConnection.QPS, float32(c.ClientConnection.Burst)})

	c = parse(t, "bindAddress: 'fd00::1'\nhealthzBindAddress: 'fd00::2'\nmetricsBindAddress: 10.0.0.1:1")
	require.Equal(t, []string{"[fd00::2]:10256", "10.0.0.1:1"}, []string{c.HealthzBindAddress, c.MetricsBindAddress})
	c = parse(t, "bindAddress: '::'")
	require.Equal(t, []string{"[::]:10256", "[::1]:10249"}, []string{c.HealthzBindAddress, c.MetricsBindAddress})
}

// A period of 0 that is said is not one that is left out.
func TestPROXY_03_04_APeriodOfZero(t *testing.T) {
	for _, block := range []string{"iptables", "ipvs", "nftables"} {
		_, err := proxy.Parse([]byte(head+block+": {syncPeriod: 0s}"), "linux")
		require.ErrorContains(t, err, block+`.syncPeriod: Invalid value: "0s": must be greater than 0`)
	}
	require.Zero(t, parse(t, "iptables: {minSyncPeriod: 0s}").IPTables.MinSyncPeriod.Duration, "each change at once")
}

func TestPROXY_05_to_10_BlocksAreJudgedWhateverTheMode(t *testing.T) {
	for document, want := range map[string]string{
		"ipvs: {excludeCIDRs: [10.0.0.0/8, x]}":                  `ipvs.excludeCIDRs[1]: Invalid value: "x": must be a valid CIDR`,
		"ipvs: {scheduler: fastest}":                             `ipvs.scheduler: Unsupported value: "fastest": supported values: "rr", "wrr"`,
		"ipvs: {tcpTimeout: -1s}":                                `ipvs.tcpTimeout: Invalid value: "-1s": must be greater than or equal to 0`,
		"nftables: {masqueradeBit: 32}":                          `nftables.masqueradeBit: Invalid value: 32: must be within the range [0, 31]`,
		"conntrack: {udpStreamTimeout: -1s}":                     `conntrack.udpStreamTimeout: Invalid value: "-1s"`,
		"winkernel: {networkname: x}":                            `winkernel.networkname: Forbidden: unknown field, did you mean "networkName"?`,
		"ipvs: {syncPeriod: 1s, minSyncPeriod: 2s}":              `ipvs.syncPeriod: Invalid value: "2s": must be greater than or equal to ipvs.minSyncPeriod`,
		"detectLocalMode: ClusterCIDR\nclusterCIDR: 1/8,2/8,3/8": `clusterCIDR: Invalid value: "1/8"`,
	} {
		_, err := proxy.Parse([]byte(head+document), "linux")
		require.ErrorContains(t, err, want)
	}
}

func TestPROXY_11_14_ModesOfAPlatform(t *testing.T) {
	for _, c := range []struct {
		mode, goos string
		ok         bool
	}{
		{"", "linux", true},
		{"iptables", "linux", true},
		{"ipvs", "linux", true},
		{"nftables", "linux", true},
		{"kernelspace", "linux", false},
		{"userspace", "linux", false},
		{"", "windows", true},
		{"kernelspace", "windows", true},
		{"iptables", "windows", false},
	} {
		_, err := proxy.Parse([]byte(head+"mode: '"+c.mode+"'"), c.goos)
		if c.ok {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorContains(t, err, "mode: Invalid value: \""+c.mode+"\": must be ", "%+v", c)
		}
	}
}

func TestPROXY_12_13_TheModeIsChosen(t *testing.T) {
	missing := errors.New("no such module")
	only := func(modes ...proxy.Mode) func(proxy.Mode) error {
		return func(m proxy.Mode) error {
			for _, one := range modes {
				if m == one {
					return nil
				}
			}
			return missing
		}
	}
	var any proxy.Configuration
	for _, c := range []struct {
		usable []proxy.Mode
		want   proxy.Mode
	}{
		{[]proxy.Mode{"iptables", "ipvs", "nftables"}, "iptables"},
		{[]proxy.Mode{"ipvs", "nftables"}, "nftables"},
		{[]proxy.Mode{"ipvs"}, "ipvs"},
	} {
		got, err := any.Choose("linux", only(c.usable...))
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	_, err := any.Choose("linux", only())
	require.ErrorIs(t, err, missing)

	ipvs := proxy.Configuration{Mode: "ipvs"}
	got, err := ipvs.Choose("linux", only("ipvs", "iptables"))
	require.NoError(t, err)
	require.Equal(t, proxy.ModeIPVS, got)
	_, err = ipvs.Choose("linux", only("iptables"))
	require.ErrorIs(t, err, missing, "no other mode takes its place")
	_, err = ipvs.Choose("windows", only("ipvs"))
	require.ErrorContains(t, err, "windows")
	got, err = any.Choose("windows", only("kernelspace"))
	require.NoError(t, err)
	require.Equal(t, proxy.ModeKernelspace, got)
}
