package component

import (
	"errors"
	"fmt"
	"time"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// LeasesLock is the only lock of an election that Kubernetes and this library know.
const LeasesLock = "leases"

// The recommended values of a LeaderElectionConfiguration. Source: CLIENTCONN-15.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// LeaderElectionConfiguration says whether and how the processes of a program choose one that works.
// Source: CLIENTCONN-08 to CLIENTCONN-14.
type LeaderElectionConfiguration struct {
	// LeaderElect says whether there is an election. Default: true.
	LeaderElect *bool `json:"leaderElect"`

	// LeaseDuration is how long the others wait for a sign of the leader, in whole seconds. Default: 15 s.
	LeaseDuration meta.Duration `json:"leaseDuration"`

	// RenewDeadline is how long a leader leads after its last sign. It is at most LeaseDuration; see
	// Election. Default: 10 s.
	RenewDeadline meta.Duration `json:"renewDeadline"`

	// RetryPeriod is the time between two attempts. Default: 2 s.
	RetryPeriod meta.Duration `json:"retryPeriod"`

	// ResourceLock is the resource that the leader holds. Default: leases.
	ResourceLock string `json:"resourceLock"`

	// ResourceName and ResourceNamespace name the Lease.
	ResourceName      string `json:"resourceName"`
	ResourceNamespace string `json:"resourceNamespace"`
}

// Default fills in the recommended values where nothing is said. The name of the lock is the program's
// business. Kubernetes recommends the lock "endpoints", which it can no longer use.
func (c *LeaderElectionConfiguration) Default() {
	if c.LeaderElect == nil {
		yes := true
		c.LeaderElect = &yes
	}
	for _, d := range []struct {
		value *meta.Duration
		is    time.Duration
	}{{&c.LeaseDuration, DefaultLeaseDuration}, {&c.RenewDeadline, DefaultRenewDeadline}, {&c.RetryPeriod, DefaultRetryPeriod}} {
		if d.value.Duration == 0 {
			d.value.Duration = d.is
		}
	}
	if c.ResourceLock == "" {
		c.ResourceLock = LeasesLock
	}
}

// Elects reports whether there is an election.
func (c LeaderElectionConfiguration) Elects() bool { return c.LeaderElect == nil || *c.LeaderElect }

// Check reports what is wrong with the configuration, which is the field at and has its defaults. Without
// an election nothing is wrong.
func (c LeaderElectionConfiguration) Check(at status.Field) {
	if !c.Elects() {
		return
	}
	for _, d := range []struct {
		name string
		is   meta.Duration
	}{{"leaseDuration", c.LeaseDuration}, {"renewDeadline", c.RenewDeadline}, {"retryPeriod", c.RetryPeriod}} {
		if d.is.Duration <= 0 {
			at.Child(d.name).Invalid(d.is, "must be greater than zero")
		}
	}
	if c.RenewDeadline.Duration > c.LeaseDuration.Duration {
		at.Child("renewDeadline").Invalid(c.RenewDeadline, "must be at most leaseDuration") // READ-13
	}
	for _, s := range []struct{ name, is string }{
		{"resourceLock", c.ResourceLock}, {"resourceNamespace", c.ResourceNamespace}, {"resourceName", c.ResourceName},
	} {
		if s.is == "" {
			at.Child(s.name).Required("")
		}
	}
	if c.ResourceLock != "" && c.ResourceLock != LeasesLock {
		at.Child("resourceLock").Invalid(c.ResourceLock, `resourceLock value must be "leases"`)
	}
}

// Election returns the election of the configuration for client.Elect. identity distinguishes this process
// from all others. It is an error if there is no election, so that nobody leads by mistake.
//
// A deadline that is as long as the lease leaves a leader no time to stop. Election chooses a shorter one
// then, two thirds of the lease.
func (c LeaderElectionConfiguration) Election(identity string) (client.Election, error) {
	c.Default()
	if !c.Elects() {
		return client.Election{}, errors.New("component: leaderElect is false")
	}
	var f status.Fields
	c.Check(f.At())
	if problems := f.Errors(); len(problems) > 0 {
		return client.Election{}, fmt.Errorf("component: %v", problems[0])
	}
	deadline := c.RenewDeadline.Duration
	if deadline == c.LeaseDuration.Duration {
		deadline = deadline * 2 / 3
	}
	return client.Election{
		Lease: meta.Key{Namespace: c.ResourceNamespace, Name: c.ResourceName}, Identity: identity,
		Duration: c.LeaseDuration.Duration, Deadline: deadline, Retry: c.RetryPeriod.Duration,
	}, nil
}
