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

// Configuration is the document GenericControllerManagerConfiguration: what the controllers of a program
// share, and a block for each controller. Its fields begin with capital letters, as in Kubernetes; small
// ones are as good. Source: CTRLMGR-01 to CTRLMGR-13.
type Configuration struct {
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

	// KubeCloudShared is what the controllers of a cloud share.
	KubeCloudShared KubeCloudSharedConfiguration `json:"KubeCloudShared" config:"also=kubeCloudShared"`

	// Blocks has the block of each controller, by its name in the document, such as DeploymentController.
	Blocks map[string]Block `json:"-" config:"rest"`
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

var kind = documents.Kind{
	Name: "GenericControllerManagerConfiguration", Group: "controllermanager.config.k8s.io", AnyDomain: "controllermanager.config",
	Versions: []string{"v1alpha1"},
}

// Parse reads the document, fills in the recommended values of its parts, and validates it. Errors name
// the field.
func Parse(document []byte) (Configuration, error) {
	var c Configuration
	d, err := documents.Read(document, kind)
	if err == nil {
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
	if c.Port < 0 || c.Port > 65535 {
		f.At("Port").Invalid(c.Port, "must be between 0 and 65535, inclusive")
	}
	if _, err := netip.ParseAddr(c.Address); err != nil {
		f.At("Address").Invalid(c.Address, "must be an IP address")
	}
	for _, d := range []struct {
		name string
		is   meta.Duration
	}{{"MinResyncPeriod", c.MinResyncPeriod}, {"ControllerStartInterval", c.ControllerStartInterval}} {
		if d.is.Duration < 0 {
			f.At(d.name).Invalid(d.is, "must not be negative")
		}
	}
	c.ClientConnection.Check(f.At("ClientConnection"))
	c.LeaderElection.Check(f.At("LeaderElection"))
	for i, item := range c.Controllers {
		if strings.TrimPrefix(item, "-") == "" || item == "-*" {
			f.At("Controllers").Index(i).Invalid(item, `must be "*", a name, or a name after "-"`)
		}
	}
	switch {
	case c.LeaderMigrationEnabled && c.LeaderMigration == nil:
		f.At("LeaderMigration").Required("must be set where LeaderMigrationEnabled is true")
	case c.LeaderMigrationEnabled:
		c.LeaderMigration.check(f.At("LeaderMigration"))
	}
	c.KubeCloudShared.check(f.At("KubeCloudShared"))
	for _, name := range slices.Sorted(maps.Keys(c.Blocks)) {
		c.Blocks[name].check(f.At(name))
	}
	return documents.Problems(f.Errors())
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

// MigrationLock returns the lock under which component, the program, runs a controller. Without an
// election or a migration it is the main one.
func (c Configuration) MigrationLock(program, controller string) Lock {
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
