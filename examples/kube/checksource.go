package kube

import (
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// sourceFields are the fields that sources of volumes must have.
var sourceFields = map[string][]string{
	"awsElasticBlockStore": {"volumeID"},
	"azureDisk":            {"diskName", "diskURI"},
	"azureFile":            {"secretName", "shareName"},
	"cephfs":               {"monitors"},
	"cinder":               {"volumeID"},
	"flexVolume":           {"driver"},
	"gcePersistentDisk":    {"pdName"},
	"gitRepo":              {"repository"},
	"glusterfs":            {"endpoints", "path"},
	"photonPersistentDisk": {"pdID"},
	"portworxVolume":       {"volumeID"},
	"quobyte":              {"registry", "volume"},
	"rbd":                  {"monitors", "image"},
	"scaleIO":              {"gateway", "system", "volumeName"},
	"storageos":            {"volumeName"},
	"vsphereVolume":        {"volumePath"},
}

// checkSources checks the sources of volumes that are not Kubernetes' own.
func checkSources(v *corev1.Volume, at status.Field) {
	sources := reflect.ValueOf(v.VolumeSource)
	for i := range sources.NumField() {
		source := sources.Field(i)
		name := jsonName(sources.Type().Field(i))
		if sourceFields[name] == nil || source.IsNil() {
			continue
		}
		checkSourceFields(source.Elem(), name, sourceAt(at, name))
	}
	if s := v.GCEPersistentDisk; s != nil {
		checkPartition(s.Partition, at.Child("persistentDisk").Child("partition"))
	}
	if s := v.AWSElasticBlockStore; s != nil {
		checkPartition(s.Partition, at.Child("awsElasticBlockStore").Child("partition"))
	}
	if s := v.GitRepo; s != nil {
		isPath(at.Child("gitRepo").Child("directory"), s.Directory)
	}
	if s := v.FlexVolume; s != nil {
		checkFlexOptions(s.Options, at.Child("flexVolume").Child("options"))
	}
	if s := v.Cinder; s != nil {
		checkSecretRef(s.SecretRef, at.Child("cinder").Child("secretRef"))
	}
	if s := v.Flocker; s != nil {
		checkFlocker(s, at.Child("flocker"))
	}
	if s := v.FC; s != nil {
		checkFibreChannel(s, at.Child("fc"))
	}
	if s := v.Quobyte; s != nil {
		checkQuobyte(s, at.Child("quobyte"))
	}
	if s := v.AzureDisk; s != nil {
		checkAzureDisk(s, at.Child("azureDisk"))
	}
	if s := v.StorageOS; s != nil {
		one := at.Child("storageos")
		checkStorageOS(s.VolumeName, s.VolumeNamespace, one)
		checkSecretRef(s.SecretRef, one.Child("secretRef"))
	}
}

// sourceAt returns where kube-apiserver reports errors in a source of a volume.
func sourceAt(at status.Field, name string) status.Field {
	if name == "gcePersistentDisk" {
		name = "persistentDisk"
	}
	return at.Child(name)
}

// checkSourceFields checks that a source has the fields that it must have.
func checkSourceFields(source reflect.Value, name string, at status.Field) {
	for i := range source.NumField() {
		field := jsonName(source.Type().Field(i))
		if slices.Contains(sourceFields[name], field) && isEmpty(source.Field(i)) {
			at.Child(field).Required("")
		}
	}
}

func checkStorageOS(name, namespace string, at status.Field) {
	for field, value := range map[string]string{"volumeName": name, "volumeNamespace": namespace} {
		if why := meta.CheckDNSLabel(value); why != "" && value != "" {
			at.Child(field).Invalid(value, why)
		}
	}
}

// isEmpty reports an empty text or list.
func isEmpty(v reflect.Value) bool {
	return (v.Kind() == reflect.String || v.Kind() == reflect.Slice) && v.Len() == 0
}

func checkPartition(n int32, at status.Field) {
	if n < 0 || n > 255 {
		at.Invalid(n, "must be between 1 and 255, inclusive") // as kube-apiserver says; 0 is none
	}
}

func checkSecretRef(r *corev1.LocalObjectReference, at status.Field) {
	if r != nil && r.Name == "" {
		at.Child("name").Required("")
	}
}

// checkFlexOptions keeps the options of Kubernetes itself for Kubernetes.
func checkFlexOptions(options map[string]string, at status.Field) {
	for _, key := range slices.Sorted(maps.Keys(options)) {
		domain, _, _ := strings.Cut("."+strings.ToLower(key), "/")
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			at.Key(key).Invalid(key, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

func checkFlocker(s *corev1.FlockerVolumeSource, at status.Field) {
	switch {
	case s.DatasetName == "" && s.DatasetUUID == "":
		at.Required("one of datasetName and datasetUUID is required")
	case s.DatasetName != "" && s.DatasetUUID != "":
		at.Invalid("resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(s.DatasetName, "/") {
		at.Child("datasetName").Invalid(s.DatasetName, "must not contain '/'")
	}
}

func checkFibreChannel(s *corev1.FCVolumeSource, at status.Field) {
	switch {
	case len(s.TargetWWNs) == 0 && len(s.WWIDs) == 0:
		at.Child("targetWWNs").Required("must specify either targetWWNs or wwids, but not both")
	case len(s.TargetWWNs) > 0 && len(s.WWIDs) > 0:
		at.Child("targetWWNs").Invalid(s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	switch {
	case len(s.TargetWWNs) == 0:
	case s.Lun == nil:
		at.Child("lun").Required("lun is required if targetWWNs is specified")
	case *s.Lun < 0 || *s.Lun > 255:
		at.Child("lun").Invalid(*s.Lun, "must be between 0 and 255, inclusive")
	}
}

// mostTenant is how long the name of a tenant is: that of a UUID with room to spare.
const mostTenant = 64

func checkQuobyte(s *corev1.QuobyteVolumeSource, at status.Field) {
	switch {
	case s.Registry == "":
	case len(s.Tenant) > mostTenant:
		at.Child("tenant").Required("must be a UUID and may not exceed a length of 64 characters")
	default:
		for pair := range strings.SplitSeq(s.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				at.Child("registry").Invalid(s.Registry, "must be a host:port pair or multiple pairs separated by commas")
			}
		}
	}
}

func checkAzureDisk(s *corev1.AzureDiskVolumeSource, at status.Field) {
	if s.Kind == nil {
		return
	}
	oneOf(at.Child("kind"), *s.Kind, corev1.AzureSharedBlobDisk, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk)
	managed := *s.Kind == corev1.AzureManagedDisk
	if managed && !strings.HasPrefix(s.DataDiskURI, "/subscriptions/") {
		at.Child("diskURI").NotSupported(s.DataDiskURI,
			"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}")
	}
	if !managed && !strings.HasPrefix(s.DataDiskURI, "https://") {
		at.Child("diskURI").NotSupported(s.DataDiskURI, "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
	}
}

// checkTemplateMetadata checks the metadata of a claim that pods bring along: labels and annotations, and nothing else.
func checkTemplateMetadata(m *metav1.ObjectMeta, at status.Field) {
	for _, key := range slices.Sorted(maps.Keys(m.Annotations)) {
		if why := meta.CheckAnnotationKey(key); why != "" {
			at.Child("annotations").Invalid(key, why)
		}
	}
	checkLabels(at.Child("labels"), m.Labels)
	rest := *m
	rest.Labels, rest.Annotations = nil, nil
	v := reflect.ValueOf(rest)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			name := v.Type().Field(i).Name
			at.Child(strings.ToLower(name[:1]) + name[1:]).Forbidden("cannot be set") // uID, too, as in kube-apiserver
		}
	}
}
