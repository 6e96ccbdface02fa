package egress_test

import (
	"fmt"

	"github.com/kindwright/kindwright/egress"
)

func Example() {
	c, err := egress.Parse([]byte(`
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: /run/tunnel.sock}}
- {name: etcd, connection: {proxyProtocol: Direct}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	selector, err := egress.New(c, egress.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range []egress.Traffic{egress.ControlPlane, egress.Cluster, egress.Etcd} {
		fmt.Println(t, selector.Selects(t), selector.Dialer(t) != nil)
	}
	c.Selections[0].Connection.Transport = nil
	fmt.Println(c.Validate())
	// Output:
	// controlplane false false
	// cluster true true
	// etcd true false
	// failed to validate egress selector configuration: egressSelections[0].connection.transport: Required value: transport must be set for HTTPConnect
}
