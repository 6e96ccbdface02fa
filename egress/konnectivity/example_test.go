package konnectivity_test

import (
	"fmt"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/egress/konnectivity"
)

func Example() {
	selector, err := egress.New(egress.Configuration{Selections: []egress.Selection{{
		Name: "cluster",
		Connection: &egress.Connection{
			ProxyProtocol: egress.ProtocolGRPC,
			Transport:     &egress.Transport{UDS: &egress.UDSTransport{UDSName: "/run/konnectivity.sock"}},
		},
	}}}, egress.Options{GRPC: konnectivity.Connect})
	fmt.Println(selector.Dialer(egress.Cluster) != nil, err)
	// Output:
	// true <nil>
}
