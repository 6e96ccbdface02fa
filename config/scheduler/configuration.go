package scheduler

import (
	"fmt"
	"reflect"

	"github.com/kindwright/kindwright/config/component"
	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/status"
)

// Configuration is the document KubeSchedulerConfiguration. Source: SCHED-01 to SCHED-10.
type Configuration struct {
	// Parallelism is how many goroutines work at once. Default: 16.
	Parallelism *int32 `json:"parallelism,omitempty"`

	// LeaderElection says which of several processes schedules. Default: by the Lease kube-scheduler in
	// kube-system.
	LeaderElection component.LeaderElectionConfiguration `json:"leaderElection"`

	// ClientConnection says how the scheduler reaches the server.
	ClientConnection component.ClientConnectionConfiguration `json:"clientConnection"`

	// Profiles and contention profiles are served by default.
	component.DebuggingConfiguration `json:",inline"`

	// PercentageOfNodesToScore is how many of a hundred nodes are enough to choose from. Default: 0, which
	// stands for 5 to 50, depending on the size of the cluster. See [Configuration.PercentageOfNodes].
	PercentageOfNodesToScore *int32 `json:"percentageOfNodesToScore,omitempty"`

	// PodInitialBackoffSeconds and PodMaxBackoffSeconds say how long a pod waits that did not fit: the
	// first time, and at most. Default: 1 and 10.
	PodInitialBackoffSeconds *int64 `json:"podInitialBackoffSeconds,omitempty"`
	PodMaxBackoffSeconds     *int64 `json:"podMaxBackoffSeconds,omitempty"`

	// Profiles are what pods choose by the name of their scheduler. Default: one with the name
	// default-scheduler.
	Profiles []Profile `json:"profiles,omitempty"`

	// Extenders are other programs that have a say.
	Extenders []Extender `json:"extenders,omitempty"`

	// DelayCacheUntilActive has processes that do not lead keep nothing in memory, so that a new leader
	// takes longer to begin.
	DelayCacheUntilActive bool `json:"delayCacheUntilActive,omitempty"`
}

// What a Configuration says where nothing is said.
const (
	DefaultSchedulerName = "default-scheduler"
	defaultParallelism   = 16
	defaultFirstBackoff  = 1
	defaultMaxBackoff    = 10
	lockName             = "kube-scheduler"
	lockNamespace        = "kube-system"
)

var kind = documents.Kind{
	Name: "KubeSchedulerConfiguration", Group: "kubescheduler.config.k8s.io", AnyDomain: "kubescheduler.config", Versions: []string{"v1"},
}

// Parse reads the document, fills in the defaults, and validates it. Errors name the field.
func Parse(document []byte) (Configuration, error) {
	c, err := documents.Parse[Configuration](document, kind)
	if err == nil {
		err = c.readArgs()
	}
	if err != nil {
		return Configuration{}, err
	}
	c.Default()
	return c, c.Validate()
}

// Default fills in what is not said.
func (c *Configuration) Default() {
	documents.Default(&c.Parallelism, defaultParallelism)
	documents.Default(&c.PercentageOfNodesToScore, 0)
	documents.Default(&c.PodInitialBackoffSeconds, defaultFirstBackoff)
	documents.Default(&c.PodMaxBackoffSeconds, defaultMaxBackoff)
	if len(c.Profiles) == 0 {
		c.Profiles = []Profile{{}}
	}
	if len(c.Profiles) == 1 && c.Profiles[0].SchedulerName == nil {
		documents.Default(&c.Profiles[0].SchedulerName, DefaultSchedulerName)
	}
	for i := range c.Profiles {
		c.Profiles[i].defaults()
	}
	for i := range c.Extenders {
		c.Extenders[i].defaults()
	}
	if c.LeaderElection.ResourceName == "" {
		c.LeaderElection.ResourceName = lockName
	}
	if c.LeaderElection.ResourceNamespace == "" {
		c.LeaderElection.ResourceNamespace = lockNamespace
	}
	c.LeaderElection.Default()
	c.ClientConnection.Default()
	c.DebuggingConfiguration.Default()
	if c.DebuggingConfiguration.Profiles() {
		documents.Default(&c.EnableContentionProfiling, true)
	}
}

// of returns the value of a field, or the zero value.
func of[T any](field *T) (value T) {
	if field != nil {
		value = *field
	}
	return value
}

// Validate reports everything that is wrong with a configuration that has its defaults, with the path of
// each field.
func (c Configuration) Validate() error {
	var f status.Fields
	c.ClientConnection.Check(f.At("clientConnection"))
	c.LeaderElection.Check(f.At("leaderElection"))
	if n := of(c.Parallelism); n <= 0 {
		f.At("parallelism").Invalid(n, "should be an integer value greater than zero")
	}
	checkPercentage(f.At("percentageOfNodesToScore"), c.PercentageOfNodesToScore)
	first, most := of(c.PodInitialBackoffSeconds), of(c.PodMaxBackoffSeconds)
	if first <= 0 {
		f.At("podInitialBackoffSeconds").Invalid(first, "must be greater than 0")
	}
	if most <= first {
		f.At("podMaxBackoffSeconds").Invalid(most, "must be greater than podInitialBackoffSeconds") // READ-13
	}
	c.checkProfiles(f.At("profiles"))
	checkExtenders(f.At("extenders"), c.Extenders)
	return documents.Problems(f.Errors())
}

func checkPercentage(at status.Field, percentage *int32) {
	if percentage != nil && (*percentage < 0 || *percentage > 100) {
		at.Invalid(*percentage, "not in valid range [0-100]")
	}
}

func (c Configuration) checkProfiles(at status.Field) {
	if len(c.Profiles) == 0 {
		at.Required("")
		return
	}
	seen := map[string]int{}
	for i, p := range c.Profiles {
		one := at.Index(i)
		p.check(one)
		name := of(p.SchedulerName)
		if first, ok := seen[name]; ok {
			one.Child("schedulerName").Duplicate(at.Index(first).Child("schedulerName").Path().String())
		}
		seen[name] = i
	}
	c.checkQueueSort(at)
}

// checkQueueSort reports profiles that sort the queue in different ways: there is one queue.
func (c Configuration) checkQueueSort(at status.Field) {
	sorts := func(p Profile) (set PluginSet, args any) {
		set = of(p.Plugins).QueueSort
		if len(set.Enabled) > 0 {
			args = p.Args(set.Enabled[0].Name)
		}
		return set, args
	}
	set, args := sorts(c.Profiles[0])
	if n := len(set.Enabled); n > 1 {
		at.Index(0).Child("plugins").Child("queueSort").Child("Enabled").Invalid(n, "only one queue sort plugin can be enabled")
	}
	for i, p := range c.Profiles[1:] {
		other, otherArgs := sorts(p)
		switch one := at.Index(i + 1); {
		case !reflect.DeepEqual(set, other):
			one.Child("plugins").Child("queueSort").Invalid(fmt.Sprint(other.names()), "must be the same for all profiles")
		case !reflect.DeepEqual(args, otherArgs):
			one.Child("pluginConfig").Child("args").Invalid(otherArgs, "queueSort must be the same for all profiles")
		}
	}
}

// Profile returns the profile of pods whose schedulerName is name. Pods without a name have the one of
// default-scheduler. It is false if this scheduler leaves such pods alone. Source: SCHED-08.
func (c Configuration) Profile(name string) (Profile, bool) {
	if name == "" {
		name = DefaultSchedulerName
	}
	for _, p := range c.Profiles {
		if of(p.SchedulerName) == name {
			return p, true
		}
	}
	return Profile{}, false
}

// The bounds of the percentage that depends on the size of a cluster, and the least number of nodes.
const (
	leastPercentage = 5
	mostPercentage  = 50
	nodesPerPercent = 125
	leastNodes      = 100
)

// PercentageOfNodes returns how many of a hundred nodes are scored for pods of a profile, in a cluster of
// this many nodes: what the profile says, or else the configuration. Zero stands for 50 in a small
// cluster, one less for each 125 nodes, and at least 5. Source: SCHED-04, SCHED-05.
func (c Configuration) PercentageOfNodes(p Profile, nodes int) int {
	percentage := p.PercentageOfNodesToScore
	if percentage == nil {
		percentage = c.PercentageOfNodesToScore
	}
	if said := of(percentage); said != 0 {
		return int(said)
	}
	return max(leastPercentage, mostPercentage-nodes/nodesPerPercent)
}

// NodesToScore returns how many of this many nodes are scored for pods of a profile: by the percentage,
// but 100 at least.
func (c Configuration) NodesToScore(p Profile, nodes int) int {
	percentage := c.PercentageOfNodes(p, nodes)
	if nodes < leastNodes || percentage >= 100 {
		return nodes
	}
	return max(leastNodes, nodes*percentage/100)
}
