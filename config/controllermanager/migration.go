package controllermanager

import (
	"strings"

	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/status"
)

// LeaderMigrationConfiguration says which of two programs runs a controller, while controllers move from
// one to the other. Both programs hold a second lock for these controllers, so that none of them runs
// twice. Source: LEADERMIG-01 to LEADERMIG-06.
type LeaderMigrationConfiguration struct {
	// LeaderName names the resource of the second lock.
	LeaderName string `json:"leaderName" config:"required"`

	// ResourceLock is the kind of the lock: leases or endpoints.
	ResourceLock string `json:"resourceLock" config:"required"`

	// ControllerLeaders has the controllers that move.
	ControllerLeaders []ControllerLeaderConfiguration `json:"controllerLeaders" config:"required"`
}

// ControllerLeaderConfiguration says where a controller runs.
// Source: LEADERMIG-05, LEADERMIG-06.
type ControllerLeaderConfiguration struct {
	// Name is that of the controller, such as service-controller.
	Name string `json:"name"`

	// Component is the program that runs it, or "*" for each program that takes part in the migration.
	Component string `json:"component"`
}

// AnyComponent stands for each program that takes part in a migration.
const AnyComponent = "*"

// DefaultLeaderMigration returns the configuration that moves the controllers of clouds out of Kubernetes'
// controller manager, as Kubernetes 1.36 has it. Source: LEADERMIG-07.
func DefaultLeaderMigration() LeaderMigrationConfiguration {
	return LeaderMigrationConfiguration{
		LeaderName: "cloud-provider-extraction-migration", ResourceLock: "leases",
		ControllerLeaders: []ControllerLeaderConfiguration{
			{"route-controller", AnyComponent}, {"service-controller", AnyComponent}, {"cloud-node-lifecycle-controller", AnyComponent},
		},
	}
}

var migrationKind = documents.Kind{
	Name: "LeaderMigrationConfiguration", Group: "controllermanager.config.k8s.io", AnyDomain: "controllermanager.config",
	Versions: []string{"v1", "v1beta1", "v1alpha1"},
}

// ParseLeaderMigration reads the document and validates it. Errors name the field.
func ParseLeaderMigration(document []byte) (LeaderMigrationConfiguration, error) {
	c, err := documents.Parse[LeaderMigrationConfiguration](document, migrationKind)
	if err != nil {
		return c, err
	}
	return c, c.Validate()
}

// Validate reports everything that is wrong with a configuration, with the path of each field.
func (c LeaderMigrationConfiguration) Validate() error {
	var f status.Fields
	c.check(f.At())
	return documents.Problems(f.Errors())
}

func (c LeaderMigrationConfiguration) check(at status.Field) {
	if c.LeaderName == "" {
		at.Child("leaderName").Required("leaderName must be set for LeaderMigrationConfiguration")
	}
	if c.ResourceLock != "leases" && c.ResourceLock != "endpoints" {
		at.Child("resourceLock").Invalid(c.ResourceLock, "resource Lock must be one of 'leases' or 'endpoints'")
	}
	for i, leader := range c.ControllerLeaders {
		one := at.Child("controllerLeaders").Index(i)
		if leader.Component == "" {
			one.Child("component").Required("")
		}
		if leader.Name == "" {
			one.Child("name").Required("")
		}
	}
}

// Lock says under which lock a program runs a controller.
type Lock int

const (
	// MainLock is that of the program itself: the controller does not move.
	MainLock Lock = iota
	// MigrationLock is the one that both programs share.
	MigrationLock
	// NoLock means that the controller runs in another program.
	NoLock
)

// Lock returns the lock under which component runs a controller. Of several entries for one controller the
// last one counts, as in Kubernetes. A name is the same with and without "-controller" at its end.
func (c LeaderMigrationConfiguration) Lock(component, controller string) Lock {
	short := func(name string) string { return strings.TrimSuffix(name, "-controller") }
	lock := MainLock
	for _, leader := range c.ControllerLeaders {
		switch {
		case short(leader.Name) != short(controller):
		case leader.Component == component || leader.Component == AnyComponent:
			lock = MigrationLock
		default:
			lock = NoLock
		}
	}
	return lock
}
