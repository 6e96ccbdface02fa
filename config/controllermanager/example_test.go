package controllermanager_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/config/controllermanager"
)

func ExampleGeneric_Start() {
	c, err := controllermanager.Parse([]byte(`
apiVersion: controllermanager.config.k8s.io/v1alpha1
kind: GenericControllerManagerConfiguration
Port: 10257
Address: 127.0.0.1
MinResyncPeriod: 12h
ClientConnection: {kubeconfig: /etc/manager/kubeconfig}
ControllerStartInterval: 0s
LeaderElection: {resourceName: manager, resourceNamespace: kube-system}
Controllers: ["*", "-shelves"]
Debugging: {}
LeaderMigrationEnabled: false
BookController: {ConcurrentBookSyncs: 5}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	syncs, err := c.Blocks["BookController"].Count("ConcurrentBookSyncs", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = c.Start(context.Background(),
		controllermanager.Controller{Name: "books", Run: func(context.Context) error {
			fmt.Println(syncs, "syncs at once")
			return nil
		}},
		controllermanager.Controller{Name: "shelves", Run: func(context.Context) error {
			fmt.Println("it is off")
			return nil
		}},
	)
	fmt.Println(err)
	// Output:
	// 5 syncs at once
	// <nil>
}
