package kinds

import (
	"context"
	"maps"
	"strings"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Lease is a right that one of several processes holds for a limited time. It belongs to
// coordination.{domain}/v1.
//
// The server only stores leases and does not watch the clock. The holder renews its lease. Another
// process may take it after it has seen no change for leaseDurationSeconds on its own clock. If it
// writes with the resourceVersion that it read, only one process can win.
//
// Source: LEASE-01, LEASE-02.
type Lease struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec LeaseSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec" doc:"Who holds the lease, and since when."`
}

// LeaseSpec names the holder of a lease. A holder releases the lease by setting holderIdentity to
// the empty string.
type LeaseSpec struct {
	HolderIdentity       *string         `json:"holderIdentity,omitempty" protobuf:"bytes,1,opt,name=holderIdentity" doc:"Who holds the lease; empty if it is free."`
	LeaseDurationSeconds *int32          `json:"leaseDurationSeconds,omitempty" protobuf:"varint,2,opt,name=leaseDurationSeconds" minimum:"1" doc:"How long other candidates wait after the last observed change before they take the lease."`
	AcquireTime          *meta.MicroTime `json:"acquireTime,omitempty" protobuf:"bytes,3,opt,name=acquireTime" doc:"When the holder acquired the lease."`
	RenewTime            *meta.MicroTime `json:"renewTime,omitempty" protobuf:"bytes,4,opt,name=renewTime" doc:"When the holder last renewed the lease."`
	LeaseTransitions     *int32          `json:"leaseTransitions,omitempty" protobuf:"varint,5,opt,name=leaseTransitions" minimum:"0" doc:"How often the lease has changed hands."`
	Strategy             *string         `json:"strategy,omitempty" protobuf:"bytes,6,opt,name=strategy" doc:"How a coordinator chooses the holder: OldestEmulationVersion, or a name with a domain."`
	PreferredHolder      *string         `json:"preferredHolder,omitempty" protobuf:"bytes,7,opt,name=preferredHolder" doc:"The candidate that should hold the lease next; only with a strategy."`
}

// StrategyOldestEmulationVersion chooses the candidate with the oldest emulation version.
const StrategyOldestEmulationVersion = "OldestEmulationVersion"

// Leases serves the kind Lease. A PUT creates a missing lease.
func Leases() registry.Definition { return leases{} }

type leases struct{}

// Define implements registry.Definition.
func (leases) Define(env registry.Env) (registry.Bundle, error) {
	b, err := registry.Kind[Lease]{
		Group: "coordination." + env.GroupDomain, Version: "v1", Plural: "leases",
		Doc:    "A lease is a right that one of several processes holds for a limited time.",
		Writes: registry.WriteRules{CreateOnUpdate: true, NoGeneration: true},
		Table: registry.Table{Columns: []openapi.Column{
			{Name: "Name", Type: "string", Format: "name", Description: "The name of the lease.", Path: []string{"metadata", "name"}},
			{Name: "Holder", Type: "string", Description: "Who holds the lease.", Path: []string{"spec", "holderIdentity"}},
			{Name: "Age", Type: "date", Description: "How long the lease has existed.", Path: []string{"metadata", "creationTimestamp"}},
		}},
		Rules: registry.Rules[Lease]{Validate: func(_ context.Context, l *Lease, f *status.Fields) { checkStrategy(&l.Spec, f) }},
	}.Define(env)
	if err != nil {
		return b, err
	}
	b.Resources[0].Reset = resetLease
	b.Resources[0].Blank = registry.Tree{"spec": map[string]any{}} // every Go value of a lease has a spec
	return b, nil
}

// resetLease removes an empty spec. Clients with Go types send one for a lease without a spec.
func resetLease(_, sent registry.Tree) registry.Tree {
	if spec, ok := sent["spec"].(map[string]any); !ok || len(spec) > 0 {
		return sent
	}
	out := maps.Clone(sent)
	delete(out, "spec")
	return out
}

func checkStrategy(s *LeaseSpec, f *status.Fields) {
	at := f.At("spec", "strategy")
	strategy := ""
	if s.Strategy != nil {
		strategy = *s.Strategy
		switch domain, _, found := strings.Cut(strategy, "/"); {
		case !found && strategy != StrategyOldestEmulationVersion:
			at.NotSupported(strategy, StrategyOldestEmulationVersion)
		case found && (domain == "" || meta.CheckQualifiedName(strategy) != ""):
			at.Invalid(strategy, "must be a name with a domain, such as example.dev/youngest")
		}
	}
	if s.PreferredHolder != nil && *s.PreferredHolder != "" && strategy == "" {
		f.At("spec", "preferredHolder").Forbidden("may only be specified when strategy is")
	}
}
