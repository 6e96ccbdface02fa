package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// set gives a field a value if it has none.
func set[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

// point sets an optional field if it is absent.
func point[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// fillPod applies a pod's defaults: those of a pod template and a few more.
func fillPod(p *corev1.Pod) {
	fillPodSpec(&p.Spec)
	point(&p.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	fillPodAddresses(&p.Status)
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			fillRequests(&containers[i].Resources)
			for j := range containers[i].Ports {
				if port := &containers[i].Ports[j]; p.Spec.HostNetwork {
					set(&port.HostPort, port.ContainerPort)
				}
			}
		}
	}
	fillPodResources(&p.Spec)
}

// fillPodResources completes what a pod says of its resources as a whole, if it says something: its containers' large
// pages are its limits, and what they request together is its requests, or else its limits are.
func fillPodResources(s *corev1.PodSpec) {
	r := s.Resources
	if r == nil || len(r.Limits)+len(r.Requests) == 0 {
		return
	}
	for name, amount := range containersTotal(s, true) {
		if _, asked := r.Requests[name]; hugePages(name) && !asked {
			r.Limits = withAmount(r.Limits, name, amount)
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	for name, amount := range containersTotal(s, false) {
		if countsForPod(name) && overcommitted(name) {
			r.Requests = withAmount(r.Requests, name, amount)
		}
	}
	for name, amount := range r.Limits {
		if countsForPod(name) {
			r.Requests = withAmount(r.Requests, name, amount)
		}
	}
}

// withAmount returns a list with an amount, unless it has one of that name already.
func withAmount(list corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) corev1.ResourceList {
	if _, has := list[name]; has {
		return list
	}
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[name] = amount.DeepCopy()
	return list
}

// fillAmountsOf rounds amounts up to thousandths. Nothing finer is stored.
func fillAmountsOf(r *corev1.ResourceRequirements) {
	roundUp(r.Limits)
	roundUp(r.Requests)
}

func roundUp(list corev1.ResourceList) {
	for name, amount := range list {
		amount.RoundUp(resource.Milli)
		list[name] = amount
	}
}

// fillPodSpec applies the defaults that pods and pod templates share.
func fillPodSpec(s *corev1.PodSpec) {
	set(&s.RestartPolicy, corev1.RestartPolicyAlways)
	set(&s.DNSPolicy, corev1.DNSClusterFirst)
	set(&s.SchedulerName, corev1.DefaultSchedulerName)
	point(&s.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	point(&s.SecurityContext, corev1.PodSecurityContext{})
	set(&s.ServiceAccountName, s.DeprecatedServiceAccount)
	s.DeprecatedServiceAccount = s.ServiceAccountName
	for i := range s.InitContainers {
		fillContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		fillContainer(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		c := corev1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		fillContainer(&c)
		s.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
	for i := range s.Volumes {
		fillVolume(&s.Volumes[i])
	}
	roundUp(s.Overhead)
	if s.Resources != nil {
		fillAmountsOf(s.Resources)
	}
}

// fillContainer applies a container's defaults.
func fillContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = corev1.PullIfNotPresent
		if newest(c.Image) {
			c.ImagePullPolicy = corev1.PullAlways
		}
	}
	set(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	set(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		set(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		v := c.Env[i].ValueFrom
		if v != nil && v.FieldRef != nil {
			set(&v.FieldRef.APIVersion, "v1")
		}
		if v != nil && v.FileKeyRef != nil {
			point(&v.FileKeyRef.Optional, false)
		}
	}
	fillAmountsOf(&c.Resources)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		fillProbe(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil && h.HTTPGet != nil {
				fillHTTP(h.HTTPGet)
			}
		}
	}
}

// newest reports whether an image has no tag and no digest, or the tag latest. Such an image is
// pulled every time.
func newest(image string) bool {
	if !namesImage(image) {
		return false
	}
	for i := len(image) - 1; i >= 0; i-- {
		switch image[i] {
		case '@':
			return false
		case ':':
			return image[i+1:] == "latest"
		case '/':
			return true
		}
	}
	return true
}

// images are references to images: a registry, a path, a tag and a digest.
var images = regexp.MustCompile(`^(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*(?::[0-9]+)?/)?` +
	`[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*` +
	`(?::\w[\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[[:xdigit:]]{32,})?$`)

// namesImage reports whether a text is a reference to an image, which kube-apiserver does not require.
func namesImage(text string) bool {
	if len(text) == hex.EncodedLen(sha256.Size) && strings.Trim(text, "0123456789abcdef") == "" {
		return false // it would look like the digest of an image
	}
	name, _, _ := strings.Cut(text, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	if !strings.Contains(name, "/") {
		name = "docker.io/library/" + name
	}
	return len(name) <= 255 && images.MatchString(text)
}

// fillRequests sets missing requests to the limits.
func fillRequests(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		r.Requests = withAmount(r.Requests, name, limit)
	}
}

func fillProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	set(&p.TimeoutSeconds, 1)
	set(&p.PeriodSeconds, 10)
	set(&p.SuccessThreshold, 1)
	set(&p.FailureThreshold, 3)
	if p.HTTPGet != nil {
		fillHTTP(p.HTTPGet)
	}
	if p.GRPC != nil {
		point(&p.GRPC.Service, "")
	}
}

func fillHTTP(g *corev1.HTTPGetAction) {
	set(&g.Path, "/")
	set(&g.Scheme, corev1.URISchemeHTTP)
}

// fillVolume applies a volume's defaults. A volume without a source is an empty directory.
func fillVolume(v *corev1.Volume) {
	source := &v.VolumeSource
	if *source == (corev1.VolumeSource{}) {
		source.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	switch {
	case source.Secret != nil:
		point(&source.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case source.ConfigMap != nil:
		point(&source.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case source.DownwardAPI != nil:
		point(&source.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		fillDownward(source.DownwardAPI.Items)
	case source.Projected != nil:
		point(&source.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for i := range source.Projected.Sources {
			p := &source.Projected.Sources[i]
			if p.ServiceAccountToken != nil {
				point(&p.ServiceAccountToken.ExpirationSeconds, int64(3600))
			}
			if p.DownwardAPI != nil {
				fillDownward(p.DownwardAPI.Items)
			}
		}
	case source.HostPath != nil:
		point(&source.HostPath.Type, corev1.HostPathUnset)
	case source.ISCSI != nil:
		set(&source.ISCSI.ISCSIInterface, "default")
	case source.RBD != nil:
		set(&source.RBD.RBDPool, "rbd")
		set(&source.RBD.RadosUser, "admin")
		set(&source.RBD.Keyring, "/etc/ceph/keyring")
	case source.AzureDisk != nil:
		fillAzure(source.AzureDisk)
	case source.ScaleIO != nil:
		set(&source.ScaleIO.StorageMode, "ThinProvisioned")
		set(&source.ScaleIO.FSType, "xfs")
	case source.Ephemeral != nil && source.Ephemeral.VolumeClaimTemplate != nil:
		point(&source.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case source.Image != nil && source.Image.PullPolicy == "":
		source.Image.PullPolicy = corev1.PullIfNotPresent
		if newest(source.Image.Reference) {
			source.Image.PullPolicy = corev1.PullAlways
		}
	}
}

func fillAzure(d *corev1.AzureDiskVolumeSource) {
	point(&d.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	point(&d.Kind, corev1.AzureSharedBlobDisk)
	point(&d.FSType, "ext4")
	point(&d.ReadOnly, false)
}

func fillDownward(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		if files[i].FieldRef != nil {
			set(&files[i].FieldRef.APIVersion, "v1")
		}
	}
}
