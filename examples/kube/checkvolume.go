package kube

import (
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/internal/entries"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// checkVolumes checks the volumes and returns those without errors, by name.
func checkVolumes(volumes []corev1.Volume, at status.Field, isPod bool) map[string]*corev1.Volume {
	names, out := unique{}, map[string]*corev1.Volume{}
	for i := range volumes {
		v := &volumes[i]
		check := func(one status.Field) {
			isLabel(one.Child("name"), v.Name)
			checkVolume(oneSource(v, one), one, isPod)
		}
		check(at.Index(i))
		names.check(at.Index(i).Child("name"), v.Name)
		alone := &status.Fields{} // says whether this one has errors
		if check(alone.At()); alone.Len() == 0 && out[v.Name] == nil {
			out[v.Name] = v
		}
	}
	return out
}

// checkVolume checks the source of a volume.
func checkVolume(v *corev1.Volume, at status.Field, isPod bool) {
	checkSources(v, at)
	checkHostPath(v.HostPath, at.Child("hostPath"))
	checkNFS(v.NFS, at.Child("nfs"))
	if s := v.EmptyDir; s != nil && s.SizeLimit != nil && s.SizeLimit.Sign() < 0 {
		at.Child("emptyDir").Child("sizeLimit").Forbidden("SizeLimit field must be a valid resource quantity")
	}
	if s := v.Secret; s != nil {
		checkKeys("secretName", s.SecretName, s.DefaultMode, s.Items, at.Child("secret"))
	}
	if s := v.ConfigMap; s != nil {
		checkKeys("name", s.Name, s.DefaultMode, s.Items, at.Child("configMap"))
	}
	if s := v.DownwardAPI; s != nil {
		one := at.Child("downwardAPI")
		checkMode(s.DefaultMode, one.Child("defaultMode"))
		for i := range s.Items {
			checkPodFile(&s.Items[i], one)
		}
	}
	if s := v.Projected; s != nil {
		checkProjected(s, at.Child("projected"))
	}
	if s := v.PersistentVolumeClaim; s != nil && s.ClaimName == "" {
		at.Child("persistentVolumeClaim").Child("claimName").Required("")
	}
	if s := v.Ephemeral; s != nil {
		one := at.Child("ephemeral").Child("volumeClaimTemplate")
		if s.VolumeClaimTemplate == nil {
			one.Required("")
		} else {
			checkTemplateMetadata(&s.VolumeClaimTemplate.ObjectMeta, one.Child("metadata"))
			checkClaimSpec(&s.VolumeClaimTemplate.Spec, one.Child("spec"))
		}
	}
	if s := v.ISCSI; s != nil {
		one := at.Child("iscsi")
		checkISCSI(s.TargetPortal, s.IQN, s.Lun, one)
		if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
			one.Child("secretRef").Required("")
		}
		checkInitiator(s.InitiatorName, one.Child("initiatorname"))
		if s.InitiatorName != nil && len(v.Name)+len(":")+len(s.TargetPortal) > 64 {
			at.Child("name").Invalid(v.Name, "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")
		}
	}
	if s := v.CSI; s != nil {
		checkDriver(at.Child("csi").Child("driver"), s.Driver)
		if r := s.NodePublishSecretRef; r != nil && r.Name == "" {
			at.Child("csi").Child("nodePublishSecretRef").Child("name").Required("")
		} else if r != nil && meta.CheckDNSSubdomain(r.Name) != "" {
			at.Child("csi").Child("name").Invalid(r.Name, meta.CheckDNSSubdomain(r.Name)) // as kube-apiserver names it
		}
	}
	if s := v.Image; s != nil {
		if s.Reference == "" && isPod { // in a template, a controller may fill it in
			at.Child("image").Child("reference").Required("")
		}
		oneOf(at.Child("image").Child("pullPolicy"), s.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	}
}

// checkHostPath checks a path of a node, which may not lead out of where it seems to lead.
func checkHostPath(p *corev1.HostPathVolumeSource, at status.Field) {
	switch {
	case p == nil:
	case p.Path == "":
		at.Child("path").Required("")
	default:
		noWayUp(at.Child("path"), p.Path)
	}
}

// sourcesOf returns the names of the sources that are there.
func sourcesOf(sources reflect.Value) (names []string) {
	for i := range sources.NumField() {
		if sources.Field(i).Kind() == reflect.Pointer && !sources.Field(i).IsNil() {
			names = append(names, jsonName(sources.Type().Field(i)))
		}
	}
	return names
}

// sourceOrder are the sources of volumes in the order in which kube-apiserver looks at them: the first one that is
// there counts.
func sourceOrder() []string {
	return []string{
		"emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi", "glusterfs", "flocker",
		"persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc", "flexVolume", "configMap", "azureFile", "vsphereVolume",
		"photonPersistentDisk", "portworxVolume", "azureDisk", "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
	}
}

// oneSource reports all sources of a volume but one. It returns the volume with that one, which alone is checked.
func oneSource(v *corev1.Volume, at status.Field) *corev1.Volume {
	all := reflect.ValueOf(v.VolumeSource)
	names := sourcesOf(all)
	if len(names) < 2 {
		return v
	}
	order := sourceOrder()
	slices.SortFunc(names, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	for _, name := range names[1:] {
		switch name { // as kube-apiserver spells them
		case "cephfs":
			name = "cephFS"
		case "downwardAPI":
			name = "downwarAPI"
		}
		at.Child(name).Forbidden("may not specify more than 1 volume type")
	}
	out := corev1.Volume{Name: v.Name}
	for i := range all.NumField() {
		if jsonName(all.Type().Field(i)) == names[0] {
			reflect.ValueOf(&out.VolumeSource).Elem().Field(i).Set(all.Field(i))
		}
	}
	return &out
}

func checkNFS(s *corev1.NFSVolumeSource, at status.Field) {
	if s == nil {
		return
	}
	if s.Server == "" {
		at.Child("server").Required("")
	}
	if s.Path == "" {
		at.Child("path").Required("")
	}
	if !path.IsAbs(s.Path) {
		at.Child("path").Invalid(s.Path, "must be an absolute path")
	}
}

// iqns are the names of targets of iSCSI.
var iqns = regexp.MustCompile(`^(iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)|eui\.[[:xdigit:]]{16}|naa\.[[:xdigit:]]{32})$`)

func checkISCSI(portal, iqn string, lun int32, at status.Field) {
	if portal == "" {
		at.Child("targetPortal").Required("")
	}
	switch {
	case iqn == "":
		at.Child("iqn").Required("")
	case !iqns.MatchString(iqn):
		at.Child("iqn").Invalid(iqn, "must be valid format starting with iqn, eui, or naa")
	}
	if lun < 0 || lun > 255 {
		at.Child("lun").Invalid(lun, "must be between 0 and 255, inclusive")
	}
}

func checkInitiator(name *string, at status.Field) {
	if name != nil && !iqns.MatchString(*name) {
		at.Invalid(*name, "must be valid format starting with iqn, eui, or naa")
	}
}

// checkDriver checks the name of a CSI driver.
func checkDriver(at status.Field, name string) {
	if len(name) > 63 {
		at.TooLong(63)
	}
	isSubdomain(at, strings.ToLower(name))
}

// checkMode checks the permissions of a file.
func checkMode(mode *int32, at status.Field) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		at.Invalid(*mode, "must be a number between 0 and 0777 (octal), both inclusive")
	}
}

// checkKeys checks a volume of the keys of an object, whose name is in a field.
func checkKeys(field, name string, mode *int32, items []corev1.KeyToPath, at status.Field) {
	if name == "" {
		at.Child(field).Required("")
	}
	checkMode(mode, at.Child("defaultMode"))
	checkItems(items, at.Child("items"))
}

// checkItems checks which keys become which files.
func checkItems(items []corev1.KeyToPath, at status.Field) {
	for i, item := range items {
		one := at.Index(i)
		if item.Key == "" {
			one.Child("key").Required("")
		}
		checkFile(item.Path, one.Child("path"))
		checkMode(item.Mode, one.Child("mode"))
	}
}

// checkFile checks a path within a volume. Names that begin with two dots are those of the kubelet.
func checkFile(name string, at status.Field) {
	switch {
	case name == "":
		at.Required("")
	case path.IsAbs(name):
		at.Invalid(name, "must be a relative path")
	case slices.Contains(strings.Split(name, "/"), ".."):
		at.Invalid(name, "must not contain '..'")
	case strings.HasPrefix(name, ".."):
		at.Invalid(name, "must not start with '..'")
	}
}

// checkPodFile checks a file that tells a pod about itself. kube-apiserver names no index.
func checkPodFile(f *corev1.DownwardAPIVolumeFile, at status.Field) {
	checkFile(f.Path, at.Child("path"))
	checkMode(f.Mode, at.Child("mode"))
	switch {
	case f.FieldRef != nil && f.ResourceFieldRef != nil:
		at.Invalid("resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
	case f.FieldRef != nil:
		checkFieldRef(f.FieldRef, at.Child("fieldRef"),
			"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
	case f.ResourceFieldRef != nil:
		one := at.Child("resourceFieldRef")
		if f.ResourceFieldRef.ContainerName == "" {
			one.Child("containerName").Required("")
		} else {
			checkResourceRef(f.ResourceFieldRef, one)
		}
	default:
		at.Required("one of fieldRef and resourceFieldRef is required")
	}
}

// podFields are the fields of a pod that can be named at all, beside those of its labels and annotations.
var podFields = []string{
	"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid", "spec.hostNetwork",
	"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs",
	"status.nominatedNodeName", "status.phase", "status.podIP", "status.podIPs",
}

// podEntries are one label or annotation of a pod.
var podEntries = regexp.MustCompile(`^metadata\.(labels|annotations)\['([^']*)'\]$`)

// checkProjected checks a volume of several sources.
func checkProjected(s *corev1.ProjectedVolumeSource, at status.Field) {
	checkMode(s.DefaultMode, at.Child("defaultMode"))
	paths := map[string]bool{}
	file := func(name string) {
		if name != "" && paths[name] {
			at.Invalid(name, "conflicting duplicate paths")
		}
		paths[name] = true
	}
	for i, source := range s.Sources {
		one := at.Child("sources").Index(i)
		if n := sourcesOf(reflect.ValueOf(source)); len(n) > 1 {
			one.Forbidden("may not specify more than 1 volume type per source")
		}
		switch {
		case source.Secret != nil:
			checkProjectedItems(source.Secret.Name, source.Secret.Items, one.Child("secret"), file)
		case source.ConfigMap != nil:
			checkProjectedItems(source.ConfigMap.Name, source.ConfigMap.Items, one.Child("configMap"), file)
		case source.DownwardAPI != nil:
			for j := range source.DownwardAPI.Items {
				checkPodFile(&source.DownwardAPI.Items[j], one.Child("downwardAPI"))
				file(source.DownwardAPI.Items[j].Path)
			}
		case source.ServiceAccountToken != nil:
			t := source.ServiceAccountToken
			if e := t.ExpirationSeconds; e != nil && *e < 600 {
				one.Child("serviceAccountToken").Child("expirationSeconds").Invalid(*e, "may not specify a duration less than 10 minutes")
			} else if e != nil && *e > 1<<32 {
				one.Child("serviceAccountToken").Child("expirationSeconds").Invalid(*e, "may not specify a duration larger than 2^32 seconds")
			}
			checkFile(t.Path, at.Child("path")) // as kube-apiserver names it, which lets another file have the path
		case source.PodCertificate != nil:
			checkCertificateFiles(source.PodCertificate, one.Child("podCertificate"), file)
		case source.ClusterTrustBundle != nil:
			checkBundleFile(source.ClusterTrustBundle, one.Child("clusterTrustBundle"))
			file(source.ClusterTrustBundle.Path)
		}
	}
}

// checkCertificateFiles checks the files of a certificate that the kubelet asks for.
func checkCertificateFiles(c *corev1.PodCertificateProjection, at status.Field, file func(string)) {
	checkSigner(c.SignerName, at.Child("signerName"))
	checkUserAnnotations(c.UserAnnotations, at.Child("userAnnotations"))
	if kinds := []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}; !slices.Contains(kinds, c.KeyType) {
		at.Child("keyType").NotSupported(c.KeyType, kinds...)
	}
	if n := c.MaxExpirationSeconds; n != nil {
		if *n < hour {
			at.Child("maxExpirationSeconds").Invalid(*n, fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", hour))
		}
		if most := longestExpiration(c.SignerName); *n > most {
			at.Child("maxExpirationSeconds").Invalid(*n, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", most))
		}
	}
	paths := 0
	for _, one := range []struct{ field, path string }{
		{"credentialBundlePath", c.CredentialBundlePath}, {"keyPath", c.KeyPath}, {"certificateChainPath", c.CertificateChainPath},
	} {
		if one.path != "" {
			paths++
			checkFile(one.path, at.Child(one.field))
			file(one.path)
		}
	}
	if paths == 0 {
		at.Required("specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
}

// checkBundleFile checks a file of certificates of authorities: those of a bundle, or of the bundles of a signer.
func checkBundleFile(c *corev1.ClusterTrustBundleProjection, at status.Field) {
	switch {
	case c.Name != nil && c.SignerName != nil:
		at.Invalid(*c, "only one of name and signerName may be used")
	case c.Name != nil:
		if *c.Name == "" {
			at.Child("name").Required("must be a valid object name")
		}
		signer := ""
		if i := strings.LastIndexByte(*c.Name, ':'); i >= 0 {
			signer = strings.ReplaceAll((*c.Name)[:i], ":", "/")
		}
		if why := wrongBundleName(*c.Name, signer); why != "" {
			at.Child("name").Invalid(*c.Name, "not a valid clustertrustbundlename: "+why)
		}
		if c.LabelSelector != nil {
			at.Child("labelSelector").Invalid(*c.LabelSelector, "labelSelector must be unset if name is specified")
		}
	case c.SignerName != nil:
		if *c.SignerName == "" {
			at.Child("signerName").Required("must be a valid signer name")
		}
		checkSigner(*c.SignerName, at.Child("signerName"))
		checkSelector(at.Child("labelSelector"), c.LabelSelector)
	default:
		at.Required("either name or signerName must be specified")
	}
	if c.Path == "" {
		at.Child("path").Required("")
	} else {
		checkFile(c.Path, at.Child("path"))
	}
}

func checkProjectedItems(name string, items []corev1.KeyToPath, at status.Field, file func(string)) {
	checkKeys("name", name, nil, items, at)
	for _, item := range items {
		file(item.Path)
	}
}

// checkPodVolumes checks what depends on the pod that has the volumes.
func checkPodVolumes(p *corev1.Pod, at status.Field) {
	for i := range p.Spec.Volumes {
		v, one := &p.Spec.Volumes[i], at.Index(i)
		if v.Ephemeral != nil && v.Name != "" && p.Name != "" {
			if why := meta.CheckDNSSubdomain(p.Name + "-" + v.Name); why != "" {
				one.Child("name").Invalid(v.Name, "PVC name \""+p.Name+"-"+v.Name+"\": "+why)
			}
		}
		if v.Projected == nil || p.Spec.ServiceAccountName != "" {
			continue
		}
		for j, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil {
				one.Child("projected").Child("sources").Index(j).Child("serviceAccountToken").Forbidden(
					"must not be specified when serviceAccountName is not set")
			}
		}
	}
}

// checkKeyRef checks a reference to a key of a config map or a secret.
func checkKeyRef(name, key string, at status.Field) {
	if why := meta.CheckDNSSubdomain(name); why != "" {
		at.Child("name").Invalid(name, why)
	}
	if key == "" {
		at.Child("key").Required("")
	} else if why := entries.CheckKey(key); why != "" {
		at.Child("key").Invalid(key, why)
	}
}
