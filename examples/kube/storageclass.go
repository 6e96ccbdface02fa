package kube

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// storageClasses are the kinds of storage.k8s.io.
func storageClasses(c *cluster) []registry.Definition {
	const group = "storage.k8s.io"
	still, seen := registry.WriteRules{NoGeneration: true}, registry.WriteRules{NoGeneration: true, RequireVersion: true}
	return []registry.Definition{
		kind[storagev1.StorageClass]{cluster: c, Kind: registry.Kind[storagev1.StorageClass]{
			Rules: registry.Rules[storagev1.StorageClass]{Validate: checked(checkStorageClass), ValidateUpdate: updated(checkStorageClassUpdate)},

			Group: group, Version: "v1", Plural: "storageclasses", Deletion: answered(),
			Names: registry.Names{ShortNames: []string{"sc"}}, Scope: registry.ClusterScoped, Writes: still,
			Table: registry.Table{Columns: []openapi.Column{
				defaultedName(defaultStorageClass()...),
				text("Provisioner", "provisioner", "Who makes volumes."),
				or("ReclaimPolicy", "reclaimPolicy", "Delete", "What becomes of a volume when its claim is gone."),
				or("VolumeBindingMode", "volumeBindingMode", "Immediate", "When a claim is bound."),
				made("AllowVolumeExpansion", "Whether volumes can grow.", func(v []any) any { return v[0] == true },
					"allowVolumeExpansion"),
				aged(),
			}},
		}, fill: fillStorageClass},
		kind[storagev1.VolumeAttachment]{cluster: c, unenumerated: true, fill: fillAttachment, statusKeeps: everyMetadata(), Kind: registry.Kind[storagev1.VolumeAttachment]{
			Rules: registry.Rules[storagev1.VolumeAttachment]{Validate: checked(checkAttachment), ValidateUpdate: updated(checkAttachmentUpdate)},

			Group: group, Version: "v1", Plural: "volumeattachments", Deletion: answered(), Scope: registry.ClusterScoped, Writes: seen,
			Table: registry.Table{Columns: columns(
				openapi.Column{
					Name: "Attacher", Type: "string", Format: "name", Description: "Who attaches it.",
					Path: []string{"spec", "attacher"},
				},
				text("PV", "spec.source.persistentVolumeName", "The volume."),
				text("Node", "spec.nodeName", "Where it is attached."),
				truthful("Attached", "status.attached", "Whether it is."),
			)},
		}},
		kind[storagev1.CSIDriver]{cluster: c, Kind: registry.Kind[storagev1.CSIDriver]{
			Rules: registry.Rules[storagev1.CSIDriver]{
				Complete: c.completeDriver, Validate: checked(checkCSIDriver), ValidateUpdate: updated(checkCSIDriverUpdate),
			},
			Group: group, Version: "v1", Plural: "csidrivers", Deletion: answered(), Scope: registry.ClusterScoped, Writes: seen,
			Table: registry.Table{Columns: columns(
				openapi.Column{
					Name: "AttachRequired", Type: "boolean",
					Description: "Whether volumes are attached first.", Paths: split("spec.attachRequired"), Cell: unlessFalse, Lasting: true,
				},
				truthful("PodInfoOnMount", "spec.podInfoOnMount", "Whether the driver is told about the pod."),
				truthful("StorageCapacity", "spec.storageCapacity", "Whether capacity is looked at."),
				made("TokenRequests", "For whom the driver gets tokens.", func(v []any) any {
					if v[0] == nil {
						return "<unset>"
					}
					return strings.Join(words(v[0], "audience"), ",")
				}, "spec.tokenRequests"),
				truthful("RequiresRepublish", "spec.requiresRepublish", "Whether volumes are published again and again."),
				made("Modes", "How long its volumes live.", func(v []any) any {
					if size(v[0]) == 0 {
						return "<none>"
					}
					return strings.Join(words(v[0]), ",")
				}, "spec.volumeLifecycleModes"),
			)},
		}, fill: fillDriver},
		kind[storagev1.CSINode]{cluster: c, Kind: registry.Kind[storagev1.CSINode]{
			Rules:  registry.Rules[storagev1.CSINode]{Validate: checked(checkDriverNode), ValidateUpdate: updated(checkDriverNodeUpdate)},
			Status: registry.Status{None: true}, // kube-apiserver 1.36 has none yet
			Group:  group, Version: "v1", Plural: "csinodes", Deletion: answered(), Scope: registry.ClusterScoped,
			Writes: seen, Table: registry.Table{Columns: columns(counted("Drivers", "spec.drivers", "How many drivers there are."))},
		}},
		kind[storagev1.CSIStorageCapacity]{cluster: c, Kind: registry.Kind[storagev1.CSIStorageCapacity]{
			Rules: registry.Rules[storagev1.CSIStorageCapacity]{Validate: checked(checkCapacity), ValidateUpdate: updated(checkCapacityUpdate)},
			Group: group, Version: "v1", Plural: "csistoragecapacities", Writes: seen,
		}},
		kind[storagev1.VolumeAttributesClass]{cluster: c, Kind: registry.Kind[storagev1.VolumeAttributesClass]{
			Rules: registry.Rules[storagev1.VolumeAttributesClass]{
				Complete: c.completeAttributes, Validate: checked(checkAttributes), ValidateUpdate: updated(checkAttributesUpdate),
			},
			Group: group, Version: "v1", Plural: "volumeattributesclasses", Deletion: answered(),
			Names: registry.Names{ShortNames: []string{"vac"}}, Scope: registry.ClusterScoped, Writes: still,
			Table: registry.Table{Columns: columns(text("DriverName", "driverName", "Whose attributes they are."))},
		}},
	}
}
