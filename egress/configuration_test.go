package egress_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/egress"
)

const head = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n"

// made reads and validates a document.
func made(document string) (*egress.Selector, error) {
	c, err := egress.Parse([]byte(document))
	if err != nil {
		return nil, err
	}
	return egress.New(c, egress.Options{GRPC: func(context.Context, string) (egress.DialFunc, error) { return nil, net.ErrClosed }})
}

// cluster is a document that says this of the traffic to the cluster.
func cluster(connection string) string {
	return head + "egressSelections: [{name: cluster, connection: {" + connection + "}}]"
}

func TestEGRESS_01_02_DocumentsOfBothVersionsAndGroups(t *testing.T) {
	for _, version := range []string{"apiserver.k8s.io/v1beta1", "apiserver.k8s.io/v1alpha1", "apiserver.example.com/v1beta1"} {
		s, err := made("apiVersion: " + version + "\nkind: EgressSelectorConfiguration\n" +
			"egressSelections: [{name: Master, connection: {proxyProtocol: Direct}}, {name: CLUSTER, connection: {proxyProtocol: Direct}}, {name: etcd, connection: {proxyProtocol: Direct}}]")
		require.NoError(t, err, version)
		for _, traffic := range []egress.Traffic{egress.ControlPlane, egress.Cluster, egress.Etcd} {
			require.True(t, s.Selects(traffic), traffic)
			require.Nil(t, s.Dialer(traffic), "Direct is no tunnel")
		}
	}
	var none *egress.Selector
	require.False(t, none.Selects(egress.Cluster))
	require.Nil(t, none.Dialer(egress.Cluster))

	c, err := egress.Parse([]byte(head))
	require.NoError(t, err)
	require.ErrorContains(t, c.Validate(), "egressSelections: Required value")
	s, err := egress.New(c, egress.Options{OptionalSelections: true})
	require.NoError(t, err, "as in Kubernetes")
	require.False(t, s.Selects(egress.Cluster))
	_, err = made(head + "egressSelections: []")
	require.NoError(t, err)
}

// CFG-02, CFG-03: documents are read strictly.
func TestEGRESS_01_DocumentsThatAreNotRead(t *testing.T) {
	for document, want := range map[string]string{
		"kind: Lamp\napiVersion: v1":                                                             `kind: Invalid value: "Lamp"`,
		"apiVersion: apiserver.k8s.io/v1\nkind: EgressSelectorConfiguration":                     `apiVersion: Invalid value: "apiserver.k8s.io/v1"`,
		head + "egressSelection: []":                                                             `egressSelection: Forbidden: unknown field, did you mean "egressSelections"?`,
		head + "egressSelections: [{Name: cluster}]":                                             "egressSelections[0].Name: Forbidden: unknown field",
		head + "egressSelections: []\negressSelections: []":                                      "egressSelections",
		head + "egressSelections: {}":                                                            "egressSelections: Invalid value",
		cluster("proxyProtocol: 1"):                                                              "egressSelections[0].connection.proxyProtocol: Invalid value: 1: must be a string",
		cluster("proxyProtocol: GRPC, transport: {uds: {udsName: /a, udsname: /b}}"):             "transport.uds.udsname: Forbidden: unknown field",
		head + "egressSelections: [" + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "]": "",
	} {
		_, err := egress.Parse([]byte(document))
		require.ErrorContains(t, err, want, document)
		require.ErrorContains(t, err, "failed to read egress selector config: ")
	}
}

func TestEGRESS_02_03_04_05_06_07_08_09_10_11_12_14_WhatIsWrongIsNamed(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	https := func(files string) string {
		return cluster("proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://a', tlsConfig: {" + files + "}}}")
	}
	url := func(text string) string {
		return cluster("proxyProtocol: HTTPConnect, transport: {tcp: {url: '" + text + "'}}")
	}
	const at = "egressSelections[0].connection."
	for _, c := range []struct{ document, want string }{
		{head + "egressSelections: [{connection: {proxyProtocol: Direct}}]", "egressSelections[0].name: Required value"},
		{head + "egressSelections: [{name: Node, connection: {proxyProtocol: Direct}}]", `egressSelections[0].name: Unsupported value: "node": supported values: "cluster", "controlplane", "etcd"`},
		{head + "egressSelections: [{name: cluster, connection: {proxyProtocol: Direct}}, {name: Cluster, connection: {proxyProtocol: Direct}}]", `egressSelections[1].name: Duplicate value: "cluster"`},
		{head + "egressSelections: [{name: controlplane, connection: {proxyProtocol: Direct}}, {name: master, connection: {proxyProtocol: Direct}}]", `egressSelections[1].name: Duplicate value: "controlplane"`},
		{head + "egressSelections: [{name: cluster}]", "egressSelections[0].connection: Required value"},
		{cluster(""), at + "proxyProtocol: Required value: must be Direct, HTTPConnect or GRPC"},
		{cluster("proxyProtocol: httpConnect"), at + `proxyProtocol: Unsupported value: "httpConnect": supported values: "Direct", "HTTPConnect", "GRPC"`},
		{cluster("proxyProtocol: Direct, transport: {}"), at + `transport: Invalid value: "direct": config must be absent for direct connect`},
		{cluster("proxyProtocol: HTTPConnect"), at + "transport: Required value: transport must be set for HTTPConnect"},
		{cluster("proxyProtocol: GRPC"), at + "transport: Required value: transport must be set for GRPC"},
		{cluster("proxyProtocol: HTTPConnect, transport: {}"), at + "transport.tcp: Required value: One of TCP or UDS must be set"},
		{cluster("proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://a'}, uds: {udsName: /a}}"), at + `transport.tcp: Invalid value: "tcp": TCP and UDS cannot both be set`},
		{cluster("proxyProtocol: GRPC, transport: {}"), at + "transport.uds: Required value: UDS must be set with GRPC"},
		{cluster("proxyProtocol: GRPC, transport: {tcp: {url: 'http://a'}}"), at + "transport.uds: Required value: UDS must be set with GRPC"},
		{cluster("proxyProtocol: GRPC, transport: {tcp: {url: 'http://a'}, uds: {udsName: /a}}"), at + "transport.tcp: Forbidden: GRPC is not supported with TCP"},
		{cluster("proxyProtocol: HTTPConnect, transport: {uds: {}}"), at + `transport.uds.udsName: Invalid value: "nil": must be present for UDS connections`},
		{cluster("proxyProtocol: GRPC, transport: {uds: {udsName: 'unix:///a'}}"), at + `transport.uds.udsName: Invalid value: "unix:///a": must be a path, without unix://`},
		{url(""), at + "transport.tcp.url: Required value: supported connection protocols are http:// and https://"},
		{url("socks5://a"), at + `transport.tcp.url: Invalid value: "socks5://a": supported connection protocols are http:// and https://`},
		{url("a:1"), at + "transport.tcp.url: Invalid value"},
		{url("http://"), "must have a host"},
		{url("http://a:"), "must have a host, and a port"},
		{url("http://a:70000"), "must have a host, and a port"},
		{url("http://u:marked@a"), "must not have a user"},
		{url("http://u:marked@a:b"), `transport.tcp.url: Invalid value: "<url>": cannot be parsed`},
		{url("https://a"), at + "transport.tcp.tlsConfig: Required value: TLSConfig must be present when using HTTPS"},
		{cluster("proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://a', tlsConfig: {caBundle: " + there + "}}}"), at + `transport.tcp.tlsConfig: Invalid value: "nil": config must not be present when using HTTP`},
		{https("clientKey: " + there), at + `transport.tcp.tlsConfig.clientCert: Invalid value: "nil": Using TLS requires clientCert`},
		{https("clientCert: " + there), at + `transport.tcp.tlsConfig.clientKey: Invalid value: "nil": Using TLS requires clientKey`},
		{https("clientCert: " + there + ", clientKey: /absent"), at + `transport.tcp.tlsConfig.clientKey: Invalid value: "/absent": TLS client key does not exist`},
		{https("clientKey: " + there + ", clientCert: /absent"), at + `transport.tcp.tlsConfig.clientCert: Invalid value: "/absent": TLS client cert does not exist`},
		{https("clientKey: " + there + ", clientCert: " + there + ", caBundle: /absent"), at + `transport.tcp.tlsConfig.caBundle: Invalid value: "/absent": TLS config ca bundle does not exist`},
		{https("clientKey: " + there + ", clientCert: " + there), `failed to create dialer for egressSelection "cluster": failed to read key pair ` + there},
	} {
		_, err := made(c.document)
		require.ErrorContains(t, err, c.want, c.document)
		require.NotContains(t, err.Error(), "marked")
	}
	for _, good := range []string{
		url("http://a"), url("http://[::1]:8131/path"), cluster("proxyProtocol: GRPC, transport: {uds: {udsName: '@abstract'}}"),
		cluster("proxyProtocol: HTTPConnect, transport: {uds: {udsName: /a/b}}"),
	} {
		s, err := made(good)
		require.NoError(t, err, good)
		require.NotNil(t, s.Dialer(egress.Cluster))
	}
	c, err := egress.Parse([]byte(cluster("proxyProtocol: GRPC, transport: {uds: {udsName: /a}}")))
	require.NoError(t, err)
	_, err = egress.New(c, egress.Options{})
	require.EqualError(t, err, "failed to validate egress selector configuration: "+at+`proxyProtocol: Invalid value: "GRPC": this server has no tunnels of GRPC`)
}

func TestAFileIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "egress.yaml")
	_, err := egress.Load(path, egress.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte(cluster("proxyProtocol: Direct")), 0o600))
	s, err := egress.Load(path, egress.Options{})
	require.NoError(t, err)
	require.True(t, s.Selects(egress.Cluster))
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = egress.Load(path, egress.Options{})
	require.ErrorContains(t, err, "failed to read egress selector config")
}
