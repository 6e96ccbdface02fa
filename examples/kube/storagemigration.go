package kube

import (
	"slices"
	"strconv"

	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"

	kindmeta "github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

type migration = storagemigrationv1beta1.StorageVersionMigration

// storageMigrations are requests to rewrite stored objects, which kube-controller-manager carries out. There are
// none unless an option asks for them.
func storageMigrations(c *cluster) []registry.Definition {
	if !c.StorageMigrations {
		return nil
	}
	return []registry.Definition{
		kind[migration]{
			cluster: c, statusKeeps: everyMetadata(),
			Kind: registry.Kind[migration]{
				Rules: registry.Rules[migration]{Validate: checked(checkMigration), ValidateUpdate: updated(checkMigrationUpdate)},
				Group: storagemigrationv1beta1.GroupName, Version: "v1beta1", Plural: "storageversionmigrations", Scope: registry.ClusterScoped,
				Writes: registry.WriteRules{NoGeneration: true, RequireVersion: true}, Serving: registry.Serving{Optional: true},
				Table: registry.Table{Columns: []openapi.Column{
					named(),
					made("Resource", "What is rewritten.", migrated, "spec.resource"),
					made("Status", "How far it is.", migrationState, "status.conditions"),
				}},
			},
		},
	}
}

func migrated(v []any) any {
	out := word(at(v[0], "resource"))
	if group := word(at(v[0], "group")); group != "" {
		out += "." + group
	}
	return out
}

func migrationState(v []any) any {
	state := "Unknown"
	for _, c := range list(v[0]) {
		if kind := word(at(c, "type")); word(at(c, "status")) == "True" && slices.Contains(migrationStates(), kind) {
			state = kind
		}
	}
	return state
}

func migrationStates() []string {
	return []string{string(storagemigrationv1beta1.MigrationRunning), string(storagemigrationv1beta1.MigrationSucceeded), string(storagemigrationv1beta1.MigrationFailed)}
}

// checkMigration checks which resource is to be rewritten.
func checkMigration(m *migration, f *status.Fields) {
	of := f.At("spec", "resource")
	if name := m.Spec.Resource.Resource; name == "" {
		of.Child("resource").Required("resource is required to be set")
	} else if why := kindmeta.CheckDNS1035Label(name); why != "" {
		of.Child("resource").Invalid(name, why)
	}
	if group := m.Spec.Resource.Group; group != "" {
		if why := kindmeta.CheckDNSSubdomain(group); why != "" {
			of.Child("group").Invalid(group, why)
		}
	}
	checkMigrationState(m, f)
}

// checkMigrationState checks what the controller has written.
func checkMigrationState(m *migration, f *status.Fields) {
	at := f.At("status")
	if rv := m.Status.ResourceVersion; rv != "" {
		if n, err := strconv.ParseUint(rv, 10, 64); err != nil || n == 0 || strconv.FormatUint(n, 10) != rv {
			at.Child("resourceVersion").Invalid(rv, "resource version is not well formed: "+rv)
		}
	}
	checkConditions(f, m.Status.Conditions, "status", "conditions")
	if succeeded(m) && failedMigration(m) {
		at.Child("conditions").Invalid(m.Status.Conditions, "Both success and failed conditions cannot be true at the same time")
	}
}

// checkMigrationUpdate keeps what is to be rewritten, and what has become of it.
func checkMigrationUpdate(m, old *migration, f *status.Fields) {
	if m.Spec != old.Spec {
		f.At("spec").Invalid(m.Spec, "field is immutable")
	}
	at := f.At("status")
	if before := old.Status.ResourceVersion; before != "" && before != m.Status.ResourceVersion {
		at.Child("resourceVersion").Invalid(m.Status.ResourceVersion, "field is immutable")
	}
	if succeeded(old) && !succeeded(m) {
		at.Child("conditions").Invalid(m.Status.Conditions, "Success condition cannot be set to false once it is true")
	}
	if failedMigration(old) && !failedMigration(m) {
		at.Child("conditions").Invalid(m.Status.Conditions, "Failed condition cannot be set to false once it is true")
	}
}

func succeeded(m *migration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1beta1.MigrationSucceeded))
}

func failedMigration(m *migration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1beta1.MigrationFailed))
}
