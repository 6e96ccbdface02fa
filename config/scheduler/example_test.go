package scheduler_test

import (
	"fmt"

	"github.com/kindwright/kindwright/config/scheduler"
)

func ExampleParse() {
	c, err := scheduler.Parse([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: batch
  percentageOfNodesToScore: 10
- schedulerName: default-scheduler
  pluginConfig:
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 30}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	batch, _ := c.Profile("batch")
	other, _ := c.Profile("") // of pods that name no scheduler
	fmt.Println(c.NodesToScore(batch, 5000), c.NodesToScore(other, 5000))
	fmt.Println(*other.Args("VolumeBinding").(*scheduler.VolumeBindingArgs).BindTimeoutSeconds)

	_, err = scheduler.Parse([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 0
`))
	fmt.Println(err)
	// Output:
	// 500 500
	// 30
	// parallelism: Invalid value: 0: should be an integer value greater than zero
}
