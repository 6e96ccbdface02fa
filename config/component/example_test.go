package component_test

import (
	"fmt"

	"github.com/kindwright/kindwright/config/component"
)

func ExampleLeaderElectionConfiguration_Election() {
	c := component.LeaderElectionConfiguration{ResourceNamespace: "kube-system", ResourceName: "my-controller"}
	e, err := c.Election("host-1")
	fmt.Println(e.Lease, e.Duration, e.Deadline, e.Retry, err)

	c.RenewDeadline = c.LeaseDuration
	c.LeaseDuration.Duration = 5e9
	_, err = c.Election("host-1")
	fmt.Println(err)
	// Output:
	// kube-system/my-controller 15s 10s 2s <nil>
	// component: renewDeadline: Invalid value: "10s": must be at most leaseDuration
}
