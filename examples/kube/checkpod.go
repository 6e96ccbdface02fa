package kube

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// podRules are the rules of one pod's spec, with what several of them look at.
type podRules struct {
	*cluster

	spec    *corev1.PodSpec
	isPod   bool                      // and not the template of a workload, whose pods are checked when they are made
	volumes map[string]*corev1.Volume // by name, those without errors
	claims  map[string]bool           // of devices, by name
}

// checkPod reports errors in a pod.
func (c *cluster) checkPod(p *corev1.Pod, f *status.Fields) {
	checkPodAnnotations(p, f)
	c.checkPodSpec(&p.Spec, f.At("spec"), true)
	checkPodVolumes(p, f.At("spec", "volumes"))
	for name, all := range containersOf(&p.Spec) {
		for i := range all {
			if image := all[i].Image; image != strings.TrimSpace(image) {
				f.At("spec", name).Index(i).Child("image").Invalid(image, "must not have leading or trailing whitespace")
			}
		}
	}
}

// checkNewPod reports errors in a new pod. Ephemeral containers come by their subresource alone, to whose
// right nobody else may help themselves.
func checkNewPod(p *corev1.Pod, f *status.Fields) {
	if len(p.Spec.EphemeralContainers) > 0 {
		f.At("spec", "ephemeralContainers").Forbidden("cannot be set on create")
	}
	if p.Spec.NodeName != "" && len(p.Spec.SchedulingGates) > 0 {
		f.At("spec", "nodeName").Forbidden("cannot be set until all schedulingGates have been cleared")
	}
	checkProfileAnnotations(p, f.At("spec"))
}

// checkTemplate reports errors in a pod template.
func (c *cluster) checkTemplate(t *corev1.PodTemplateSpec, at status.Field) {
	checkLabels(at.Child("labels"), t.Labels) // kube-apiserver names no metadata
	for _, key := range slices.Sorted(maps.Keys(t.Annotations)) {
		if why := meta.CheckAnnotationKey(key); why != "" {
			at.Child("annotations").Invalid(key, why)
		}
	}
	checkTemplateAnnotations(t, at.Child("annotations"))
	c.checkPodSpec(&t.Spec, at.Child("spec"), false)
	if len(t.Spec.EphemeralContainers) > 0 {
		at.Child("spec").Child("ephemeralContainers").Forbidden("ephemeral containers not allowed in pod template")
	}
}

// checkPodSpec reports errors in a pod's spec.
func (c *cluster) checkPodSpec(s *corev1.PodSpec, at status.Field, isPod bool) {
	r := &podRules{cluster: c, spec: s, isPod: isPod, claims: map[string]bool{}}
	for i := range s.ResourceClaims {
		r.claims[s.ResourceClaims[i].Name] = true
	}
	r.volumes = checkVolumes(s.Volumes, at.Child("volumes"), isPod)
	checkPodClaims(s.ResourceClaims, at.Child("resourceClaims"))
	r.checkContainers(at)
	r.checkPodResources(at.Child("resources"))
	r.checkHostNetwork(at)
	oneOf(at.Child("restartPolicy"), s.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	oneOf(at.Child("dnsPolicy"), s.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	checkLabels(at.Child("nodeSelector"), s.NodeSelector)
	r.checkPodSecurity(at)
	checkAffinity(s.Affinity, at.Child("affinity"))
	r.checkDNS(at.Child("dnsConfig"))
	for i, gate := range s.ReadinessGates {
		if why := meta.CheckQualifiedName(string(gate.ConditionType)); why != "" {
			at.Child("readinessGates").Index(i).Child("conditionType").Invalid(string(gate.ConditionType), why)
		}
	}
	checkGates(s.SchedulingGates, at.Child("schedulingGates"))
	checkSpread(s.TopologySpreadConstraints, at.Child("topologySpreadConstraints"))
	r.checkHostProcess(at)
	r.checkHostUsers(at)
	r.checkNames(at)
	checkTolerations(s.Tolerations, at.Child("tolerations"))
	for i, h := range s.HostAliases {
		one := at.Child("hostAliases").Index(i)
		c.isIP(one.Child("ip"), h.IP)
		for j, name := range h.Hostnames {
			if why := meta.CheckDNSSubdomain(name); why != "" {
				one.Child("hostnames").Index(j).Invalid(name, why)
			}
		}
	}
	if p := s.PreemptionPolicy; p != nil {
		choice(at.Child("preemptionPolicy"), *p, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	checkResources(&corev1.ResourceRequirements{Limits: s.Overhead}, at.Child("overhead"), nil, checkContainerAmount)
	r.checkSystem(at)
	r.checkFileKeys(at)
}

// checkNames checks the names in a pod's spec, and how long it may run.
func (r *podRules) checkNames(at status.Field) {
	s := r.spec
	r.checkHostname(at.Child("hostnameOverride"))
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > 1<<31-1) {
		at.Child("activeDeadlineSeconds").Invalid(*d, "must be between 1 and 2147483647, inclusive")
	}
	if s.NodeName != "" {
		isSubdomain(at.Child("nodeName"), s.NodeName)
	}
	if s.ServiceAccountName != "" {
		isSubdomain(at.Child("serviceAccountName"), s.ServiceAccountName)
	}
	if s.PriorityClassName != "" {
		isSubdomain(at.Child("priorityClassName"), s.PriorityClassName)
	}
	if s.RuntimeClassName != nil {
		if why := meta.CheckDNSSubdomain(*s.RuntimeClassName); why != "" {
			at.Child("runtimeClassName").Invalid(*s.RuntimeClassName, why)
		}
	}
	if s.Hostname != "" {
		isLabel(at.Child("hostname"), s.Hostname)
	}
	if s.Subdomain != "" {
		isLabel(at.Child("subdomain"), s.Subdomain)
	}
}

// mostHostname is how long the name of a machine is on Linux.
const mostHostname = 64

// checkHostname checks the name that a pod sees as its own, whatever else its spec says.
func (r *podRules) checkHostname(at status.Field) {
	name := r.spec.HostnameOverride
	if name == nil {
		return
	}
	if fully := r.spec.SetHostnameAsFQDN; fully != nil && *fully {
		at.Forbidden("may not be specified when setHostnameAsFQDN is true")
	}
	if r.spec.HostNetwork {
		at.Forbidden("may not be specified when hostNetwork is true")
	}
	if len(*name) > mostHostname {
		at.TooLong(mostHostname)
	}
	if why := meta.CheckDNSSubdomain(*name); why != "" {
		at.Invalid(*name, why)
	}
}

// checkHostNetwork requires that containers in the network of their node ask for the ports that they
// listen on.
func (r *podRules) checkHostNetwork(at status.Field) {
	if !r.spec.HostNetwork {
		return
	}
	for i := range r.spec.Containers {
		for j, p := range r.spec.Containers[i].Ports {
			if p.HostPort != p.ContainerPort && (r.isPod || p.HostPort != 0) {
				at.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort").Invalid(p.HostPort,
					"must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}

// What resolvers of names accept.
const (
	mostNameservers = 3
	mostSearches    = 32
	mostSearchText  = 2048
)

// checkDNS checks how a pod resolves names.
func (r *podRules) checkDNS(at status.Field) {
	d := r.spec.DNSConfig
	if r.spec.DNSPolicy == corev1.DNSNone {
		switch {
		case d == nil:
			at.Required("must be there when `dnsPolicy` is None")
			return
		case len(d.Nameservers) == 0:
			at.Child("nameservers").Required("must have a nameserver when `dnsPolicy` is None")
			return
		}
	}
	if d == nil {
		return
	}
	if len(d.Nameservers) > mostNameservers {
		at.Child("nameservers").Invalid(d.Nameservers, "must not have more than 3 nameservers")
	}
	for i, ip := range d.Nameservers {
		r.isIP(at.Child("nameservers").Index(i), ip)
	}
	searches := at.Child("searches")
	if len(d.Searches) > mostSearches {
		searches.Invalid(d.Searches, "must not have more than 32 search paths")
	}
	if len(strings.Join(d.Searches, " ")) > mostSearchText {
		searches.Invalid(d.Searches, "must not have more than 2048 characters, spaces included")
	}
	for i, domain := range d.Searches {
		// Names of services on Windows have underscores, and a dot alone searches nowhere else.
		plain := strings.ReplaceAll(strings.TrimSuffix(domain, "."), "_", "x")
		if why := meta.CheckDNSSubdomain(plain); domain != "." && why != "" {
			searches.Index(i).Invalid(domain, why)
		}
	}
	for i, o := range d.Options {
		if o.Name == "" {
			at.Child("options").Index(i).Required("must not be empty")
		}
	}
}

// checkPodClaims checks the claims for devices that a pod brings along.
func checkPodClaims(claims []corev1.PodResourceClaim, at status.Field) {
	names := unique{}
	for i, claim := range claims {
		one := at.Index(i)
		if names[claim.Name] {
			one.Child("name").Duplicate(claim.Name)
		} else {
			isLabel(one.Child("name"), claim.Name)
		}
		names[claim.Name] = claim.Name != ""
		name, template := claim.ResourceClaimName, claim.ResourceClaimTemplateName
		switch {
		case name != nil && template != nil:
			one.Invalid(claim.Name, "at most one of `resourceClaimName` and `resourceClaimTemplateName` may be specified")
		case name == nil && template == nil:
			one.Invalid(claim.Name, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		for field, value := range map[string]*string{"resourceClaimName": name, "resourceClaimTemplateName": template} {
			if value == nil {
				continue
			}
			if why := meta.CheckDNSSubdomain(*value); why != "" {
				one.Child(field).Invalid(*value, why)
			}
		}
	}
}

// containersOf yields the containers and the init containers of a pod, by the names of their fields.
func containersOf(s *corev1.PodSpec) func(yield func(string, []corev1.Container) bool) {
	return func(yield func(string, []corev1.Container) bool) {
		if yield("containers", s.Containers) {
			yield("initContainers", s.InitContainers)
		}
	}
}

// eachContainer calls a function with every container of a pod, ephemeral ones included.
func eachContainer(s *corev1.PodSpec, at status.Field, do func(*corev1.Container, status.Field)) {
	for _, name := range []string{"initContainers", "containers"} {
		all := s.Containers
		if name == "initContainers" {
			all = s.InitContainers
		}
		for i := range all {
			do(&all[i], at.Child(name).Index(i))
		}
	}
	for i := range s.EphemeralContainers {
		c := corev1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		do(&c, at.Child("ephemeralContainers").Index(i))
	}
}

// isPath checks a path that must stay below where it begins.
func isPath(at status.Field, name string) {
	if strings.HasPrefix(name, "/") {
		at.Invalid(name, "must be a relative path")
	}
	noWayUp(at, name)
}

// noWayUp checks a path that must not lead out of where it seems to lead.
func noWayUp(at status.Field, name string) {
	if slices.Contains(strings.Split(name, "/"), "..") {
		at.Invalid(name, "must not contain '..'")
	}
}
