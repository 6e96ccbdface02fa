package controllermanager

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/config/component"
	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Configuration is the document KubeControllerManagerConfiguration, or GenericControllerManagerConfiguration:
// what the controllers of a program share, and a block for each controller. What they share is in a field
// Generic, as in Kubernetes, or beside the blocks. Fields begin with capital letters; small ones are as
// good. Source: CTRLMGR-01 to CTRLMGR-13, READ-33, READ-34.
type Configuration struct {
	Generic

	// KubeCloudShared is what the controllers of a cloud share.
	KubeCloudShared KubeCloudSharedConfiguration `json:"KubeCloudShared" config:"also=kubeCloudShared"`

	// Blocks has the block of each controller, by its name in the document, such as DeploymentController.
	Blocks map[string]Block `json:"-" config:"rest"`

	nested bool // the document has a field Generic
}

// nested is a document with a field Generic.
type nested struct {
	Generic         Generic                      `json:"Generic" config:"also=generic"`
	KubeCloudShared KubeCloudSharedConfiguration `json:"KubeCloudShared" config:"also=kubeCloudShared"`
	Blocks          map[string]Block             `json:"-" config:"rest"`
}

// Generic is what all controllers of a program share.
type Generic struct {
	// Port and Address are where the program serves its health and its metrics.
	Port    int32  `json:"Port" config:"required,also=port"`
	Address string `json:"Address" config:"required,also=address"`

	// MinResyncPeriod is how often a controller goes through all objects again, at most. See
	// [ResyncPeriod].
	MinResyncPeriod meta.Duration `json:"MinResyncPeriod" config:"required,also=minResyncPeriod"`

	// ClientConnection says how the program reaches the server.
	ClientConnection component.ClientConnectionConfiguration `json:"ClientConnection" config:"required,also=clientConnection"`

	// ControllerStartInterval is the time between the starts of two controllers.
	ControllerStartInterval meta.Duration `json:"ControllerStartInterval" config:"required,also=controllerStartInterval"`

	// LeaderElection says which of several processes works.
	LeaderElection component.LeaderElectionConfiguration `json:"LeaderElection" config:"required,also=leaderElection"`

	// Controllers says which controllers run: "foo" does, "-foo" does not, and "*" stands for all that run
	// by default. The first item for a name counts.
	Controllers []string `json:"Controllers" config:"required,also=controllers"`

	// Debugging says which profiles are served.
	Debugging component.DebuggingConfiguration `json:"Debugging" config:"required,also=debugging"`

	// LeaderMigrationEnabled says whether LeaderMigration counts.
	LeaderMigrationEnabled bool `json:"LeaderMigrationEnabled" config:"required,also=leaderMigrationEnabled"`

	// LeaderMigration says which controllers move to or from another program. It is required where
	// LeaderMigrationEnabled is true.
	LeaderMigration *LeaderMigrationConfiguration `json:"LeaderMigration" config:"also=leaderMigration"`
}

// KubeCloudSharedConfiguration is what the controllers of a cloud share. Source: CTRLMGR-12.
type KubeCloudSharedConfiguration struct {
	// ClusterName prefixes the names of what is made in the cloud.
	ClusterName string `json:"ClusterName" config:"also=clusterName"`

	// ClusterCIDR has the addresses of Pods: a range, or one of IPv4 and one of IPv6.
	ClusterCIDR string `json:"ClusterCIDR" config:"also=clusterCIDR"`

	// AllocateNodeCIDRs gives each node a part of ClusterCIDR, in the way that CIDRAllocatorType says.
	AllocateNodeCIDRs bool   `json:"AllocateNodeCIDRs" config:"also=allocateNodeCIDRs"`
	CIDRAllocatorType string `json:"CIDRAllocatorType" config:"also=cidrAllocatorType"`

	// ConfigureCloudRoutes makes routes in the cloud for what AllocateNodeCIDRs gives to nodes. Nil stands
	// for true.
	ConfigureCloudRoutes *bool `json:"ConfigureCloudRoutes" config:"also=configureCloudRoutes"`

	// How often routes are compared, nodes are looked at, and the addresses of nodes are asked for.
	RouteReconciliationPeriod meta.Duration `json:"RouteReconciliationPeriod" config:"also=routeReconciliationPeriod"`
	NodeMonitorPeriod         meta.Duration `json:"NodeMonitorPeriod" config:"also=nodeMonitorPeriod"`
	NodeSyncPeriod            meta.Duration `json:"NodeSyncPeriod" config:"also=nodeSyncPeriod"`

	// CloudProvider names the cloud and its configuration file.
	CloudProvider CloudProviderConfiguration `json:"CloudProvider" config:"also=cloudProvider"`

	ExternalCloudVolumePlugin    string `json:"ExternalCloudVolumePlugin" config:"also=externalCloudVolumePlugin"`
	UseServiceAccountCredentials bool   `json:"UseServiceAccountCredentials" config:"also=useServiceAccountCredentials"`
	AllowUntaggedCloud           bool   `json:"AllowUntaggedCloud" config:"also=allowUntaggedCloud"`
}

// CloudProviderConfiguration names a cloud.
type CloudProviderConfiguration struct {
	Name            string `json:"Name" config:"also=name"`
	CloudConfigFile string `json:"CloudConfigFile" config:"also=cloudConfigFile"`
}

// kinds are the documents that Parse reads.
func kinds() []documents.Kind {
	versions := []string{"v1alpha1"}
	return []documents.Kind{
		{Name: "KubeControllerManagerConfiguration", Group: "controllermanager.config.k8s.io", AnyDomain: "controllermanager.config", Versions: versions},
		{Name: "KubeControllerManagerConfiguration", Group: "kubecontrollermanager.config.k8s.io", AnyDomain: "kubecontrollermanager.config", Versions: versions},
		{Name: "GenericControllerManagerConfiguration", Group: "controllermanager.config.k8s.io", AnyDomain: "controllermanager.config", Versions: versions},
	}
}

// Parse reads the document, fills in the recommended values of its parts, and validates it. Errors name
// the field.
func Parse(document []byte) (Configuration, error) {
	var c Configuration
	d, err := documents.Read(document, kinds()...)
	switch {
	case err != nil:
	case d.Has("Generic", "generic"):
		var n nested
		err = d.Decode(&n)
		c = Configuration{Generic: n.Generic, KubeCloudShared: n.KubeCloudShared, Blocks: n.Blocks, nested: true}
	default:
		err = d.Decode(&c)
	}
	if err != nil {
		return Configuration{}, err
	}
	c.ClientConnection.Default()
	c.LeaderElection.Default()
	c.Debugging.Default()
	return c, c.Validate()
}

// Validate reports everything that is wrong with a configuration, with the path of each field.
func (c Configuration) Validate() error {
	var f status.Fields
	if c.nested {
		c.Generic.check(f.At("Generic"))
	} else {
		c.Generic.check(f.At())
	}
	c.KubeCloudShared.check(f.At("KubeCloudShared"))
	for _, name := range slices.Sorted(maps.Keys(c.Blocks)) {
		c.Blocks[name].check(f.At(name))
	}
	return documents.Problems(f.Errors())
}

func (c Generic) check(at status.Field) {
	if c.Port < 0 || c.Port > 65535 {
		at.Child("Port").Invalid(c.Port, "must be between 0 and 65535, inclusive")
	}
	if _, err := netip.ParseAddr(c.Address); err != nil {
		at.Child("Address").Invalid(c.Address, "must be an IP address")
	}
	for _, d := range []struct {
		name string
		is   meta.Duration
	}{{"MinResyncPeriod", c.MinResyncPeriod}, {"ControllerStartInterval", c.ControllerStartInterval}} {
		if d.is.Duration < 0 {
			at.Child(d.name).Invalid(d.is, "must not be negative")
		}
	}
	c.ClientConnection.Check(at.Child("ClientConnection"))
	c.LeaderElection.Check(at.Child("LeaderElection"))
	for i, item := range c.Controllers {
		if strings.TrimPrefix(item, "-") == "" || item == "-*" {
			at.Child("Controllers").Index(i).Invalid(item, `must be "*", a name, or a name after "-"`)
		}
	}
	switch {
	case c.LeaderMigrationEnabled && c.LeaderMigration == nil:
		at.Child("LeaderMigration").Required("must be set where LeaderMigrationEnabled is true")
	case c.LeaderMigrationEnabled:
		c.LeaderMigration.check(at.Child("LeaderMigration"))
	}
}

func (c KubeCloudSharedConfiguration) check(at status.Field) {
	if c.ClusterCIDR != "" {
		for cidr := range strings.SplitSeq(c.ClusterCIDR, ",") {
			if _, err := netip.ParsePrefix(strings.TrimSpace(cidr)); err != nil {
				at.Child("ClusterCIDR").Invalid(c.ClusterCIDR, "must be a range of addresses, or two with a comma between them")
				break
			}
		}
	} else if c.AllocateNodeCIDRs {
		at.Child("ClusterCIDR").Required("AllocateNodeCIDRs gives parts of it to nodes")
	}
	for _, d := range []struct {
		name string
		is   meta.Duration
	}{
		{"RouteReconciliationPeriod", c.RouteReconciliationPeriod},
		{"NodeMonitorPeriod", c.NodeMonitorPeriod},
		{"NodeSyncPeriod", c.NodeSyncPeriod},
	} {
		if d.is.Duration < 0 {
			at.Child(d.name).Invalid(d.is, "must not be negative")
		}
	}
}

// MigrationLock returns the lock under which a program runs a controller. Without an
// election or a migration it is the main one.
func (c Generic) MigrationLock(program, controller string) Lock {
	if !c.LeaderMigrationEnabled || c.LeaderMigration == nil || !c.LeaderElection.Elects() {
		return MainLock
	}
	return c.LeaderMigration.Lock(program, controller)
}

// ResyncPeriod returns a random period between least and twice as much, so that controllers that start
// together do not go through their objects together. Source: CTRLMGR-03.
func ResyncPeriod(least time.Duration) time.Duration {
	if least <= 0 {
		return least
	}
	return least + rand.N(least) //nolint:gosec // it spreads load
}
