package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// volumes are persistent volumes and their claims.
func volumes(c *cluster) []registry.Definition {
	return []registry.Definition{
		kind[corev1.PersistentVolume]{cluster: c, unenumerated: true, Kind: registry.Kind[corev1.PersistentVolume]{
			Rules: registry.Rules[corev1.PersistentVolume]{
				Complete:       c.completeVolume,
				Validate:       checked(checkVolumeObject),
				ValidateUpdate: updated(c.checkVolumeObjectUpdate),
			},

			Version: "v1", Plural: "persistentvolumes", Deletion: answered(),
			Names: registry.Names{ShortNames: []string{"pv"}}, Scope: registry.ClusterScoped,
			Writes: registry.WriteRules{NoGeneration: true},
			Table: registry.Table{Columns: columns(
				or("Capacity", "spec.capacity.storage", "0", "How much fits in."),
				made("Access Modes", "How it can be mounted.", func(v []any) any { return modesText(v[0]) }, "spec.accessModes"),
				text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy", "What becomes of it when its claim is gone."),
				made("Status", "Where the volume is in its life.", phaseOrEnd, "status.phase", "metadata.deletionTimestamp"),
				made("Claim", "The claim it is bound to.", claimName, "spec.claimRef"),
				storageClassColumn(), attributesColumn(),
				text("Reason", "status.reason", "Why it is in this state."),
				wide(or("VolumeMode", "spec.volumeMode", "<unset>", "Whether it is a file system.")),
			)},
		}, fill: fillVolumeObject},
		kind[corev1.PersistentVolumeClaim]{cluster: c, unenumerated: true, Kind: registry.Kind[corev1.PersistentVolumeClaim]{
			Rules: registry.Rules[corev1.PersistentVolumeClaim]{
				Complete: c.completeClaim,
				Validate: checked(checkClaim), ValidateCreate: checked(checkNewClaim),
				ValidateUpdate: byPath(checkClaimStatus, checkClaimUpdate),
			},

			Version: "v1", Plural: "persistentvolumeclaims", Deletion: answered(),
			Names: registry.Names{ShortNames: []string{"pvc"}}, Writes: registry.WriteRules{NoGeneration: true},
			Table: registry.Table{Columns: columns(
				made("Status", "Where the claim is in its life.", phaseOrEnd, "status.phase", "metadata.deletionTimestamp"),
				text("Volume", "spec.volumeName", "The volume it is bound to."),
				made("Capacity", "How much fits in.", func(v []any) any {
					if word(v[0]) == "" {
						return ""
					}
					if amount := word(v[1]); amount != "" {
						return amount
					}
					return "0"
				}, "spec.volumeName", "status.capacity.storage"),
				made("Access Modes", "How it can be mounted.", func(v []any) any {
					if word(v[0]) == "" {
						return ""
					}
					return modesText(v[1])
				}, "spec.volumeName", "status.accessModes"),
				storageClassColumn(), attributesColumn(),
				wide(or("VolumeMode", "spec.volumeMode", "<unset>", "Whether it is a file system.")),
			)},
		}, fill: fillClaim},
	}
}

func storageClassColumn() openapi.Column {
	return made("StorageClass", "The class of storage.", func(v []any) any {
		if old := word(at(v[1], "volume.beta.kubernetes.io/storage-class")); old != "" {
			return old
		}
		return word(v[0])
	}, "spec.storageClassName", "metadata.annotations")
}

func attributesColumn() openapi.Column {
	return or("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>", "The class of attributes.")
}

func phaseOrEnd(v []any) any {
	if v[1] != nil {
		return "Terminating"
	}
	return word(v[0])
}

func claimName(v []any) any {
	if v[0] == nil {
		return ""
	}
	return word(at(v[0], "namespace")) + "/" + word(at(v[0], "name"))
}

// modesText abbreviates access modes in kubectl's order.
func modesText(v any) string {
	have, out := words(v), []string{}
	for _, m := range [][2]string{{"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"}} {
		if slices.Contains(have, m[0]) {
			out = append(out, m[1])
		}
	}
	return strings.Join(out, ",")
}
