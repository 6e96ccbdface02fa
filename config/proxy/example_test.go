package proxy_test

import (
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/config/proxy"
)

func ExampleConfiguration_Choose() {
	c, err := proxy.Parse([]byte(`
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
iptables: {masqueradeBit: 20, minSyncPeriod: 0s}
`), "linux")
	if err != nil {
		fmt.Println(err)
		return
	}
	mode, err := c.Choose("linux", func(m proxy.Mode) error {
		if m == proxy.ModeIPTables {
			return errors.New("the kernel has no ip_tables")
		}
		return nil
	})
	fmt.Println(mode, err)

	c.Mode = proxy.ModeIPTables
	_, err = c.Choose("linux", func(proxy.Mode) error { return errors.New("the kernel has no ip_tables") })
	fmt.Println(err)
	// Output:
	// nftables <nil>
	// mode: iptables cannot be used: the kernel has no ip_tables
}
