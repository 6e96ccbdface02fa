package kube

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kindwright/kindwright/status"
)

// oldNodeLabels are labels of nodes that have other names now.
var oldNodeLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
	"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

// oldPodAnnotations are annotations that have no effect any more, in the order in which a client is told.
var oldPodAnnotations = [][2]string{
	{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
	{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
}

// Beyond both numbers, the indexes of a job that fail may not be known.
const (
	muchCompletion  = 100_000
	muchParallelism = 10_000
)

// ofJob adds what is said of jobs, alone or of a cron job.
func (w *advice) ofJob(object any) {
	var s *batchv1.JobSpec
	at := "spec"
	switch o := object.(type) {
	case *batchv1.Job:
		s = &o.Spec
	case *batchv1.CronJob:
		s, at = &o.Spec.JobTemplate.Spec, "spec.jobTemplate.spec"
	default:
		return
	}
	indexed := s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
	w.add(indexed && s.Completions != nil && *s.Completions > muchCompletion && s.Parallelism != nil && *s.Parallelism > muchParallelism,
		"%s: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail", at)
}

// ofPods adds what is said of a pod, or of those of a template.
func (w *advice) ofPods(p podSource) {
	at := func(names ...string) string {
		return strings.Join(append(append([]string{}, p.path...), names...), ".")
	}
	s := p.spec
	w.ofPlace(s, at("spec"))
	for _, old := range oldPodAnnotations {
		_, has := p.metadata.Annotations[old[0]]
		w.add(has, "%s[%s]: %s", at("metadata", "annotations"), old[0], old[1])
	}
	for i := range s.Volumes {
		one := fmt.Sprintf("%s[%d]", at("spec", "volumes"), i)
		w.ofOldSources(one, reflect.ValueOf(s.Volumes[i].VolumeSource), "photonPersistentDisk", "gitRepo", "scaleIO", "flocker", "storageos",
			"quobyte", "glusterfs")
		if e := s.Volumes[i].Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			w.ofClaim(one+".ephemeral.volumeClaimTemplate.spec", &e.VolumeClaimTemplate.Spec)
		}
		w.ofOldSources(one, reflect.ValueOf(s.Volumes[i].VolumeSource), "cephfs", "rbd")
	}
	w.ofPaths(s.Volumes)
	w.ofRepeated(s, at("spec"))
	w.ofFraction(at("spec", "overhead"), s.Overhead, corev1.ResourceMemory, corev1.ResourceEphemeralStorage)
	_, seccomp := p.metadata.Annotations[seccompOfPod]
	w.add(seccomp && (s.SecurityContext == nil || s.SecurityContext.SeccompProfile == nil),
		`%s[%s]: non-functional in v1.27+; use the "seccompProfile" field instead`, at("metadata", "annotations"), seccompOfPod)
	spec := (&status.Fields{}).At(append(append([]string{}, p.path...), "spec")...)
	eachContainer(s, spec, func(c *corev1.Container, one status.Field) {
		w.ofContainer(p, c, one.Path().String(), at("metadata", "annotations"))
	})
	w.ofPorts(s, spec)
	g := s.TerminationGracePeriodSeconds
	w.add(g != nil && *g < 0, "%s: must be >= 0; negative values are invalid and will be treated as 1", at("spec", "terminationGracePeriodSeconds"))
	w.ofNeighbours(s.Affinity, at("spec", "affinity"))
	path := field.NewPath("spec")
	if len(p.path) > 0 {
		path = field.NewPath(p.path[0], append(append([]string{}, p.path[1:]...), "spec")...)
	}
	if s.DNSConfig != nil {
		for i, ip := range s.DNSConfig.Nameservers {
			w.take(validation.GetWarningsForIP(path.Child("dnsConfig", "nameservers").Index(i), ip)...)
		}
	}
	for i, h := range s.HostAliases {
		w.take(validation.GetWarningsForIP(path.Child("hostAliases").Index(i).Child("ip"), h.IP)...)
	}
}

// ofPlace adds labels of nodes that have other names now, and selectors that select nothing.
func (w *advice) ofPlace(s *corev1.PodSpec, at string) {
	for _, key := range sortedNames(s.NodeSelector) {
		w.add(oldNodeLabels[key] != "", "%s.nodeSelector[%s]: %s", at, key, oldNodeLabels[key])
	}
	if s.Affinity != nil && s.Affinity.NodeAffinity != nil {
		n, at := s.Affinity.NodeAffinity, at+".affinity.nodeAffinity"
		if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			for i := range r.NodeSelectorTerms {
				w.ofNodeTerm(fmt.Sprintf("%s.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d]", at, i), &r.NodeSelectorTerms[i], false)
			}
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			w.ofNodeTerm(fmt.Sprintf("%s.preferredDuringSchedulingIgnoredDuringExecution[%d].preference", at, i),
				&n.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference, true)
		}
	}
	for i, t := range s.TopologySpreadConstraints {
		one := fmt.Sprintf("%s.topologySpreadConstraints[%d]", at, i)
		w.add(oldNodeLabels[t.TopologyKey] != "", "%s.topologyKey: %s is %s", one, t.TopologyKey, oldNodeLabels[t.TopologyKey])
		w.add(t.LabelSelector == nil, "%s.labelSelector: a null labelSelector results in matching no pod", one)
	}
}

func (w *advice) ofNodeTerm(at string, t *corev1.NodeSelectorTerm, values bool) {
	for i, e := range t.MatchExpressions {
		one := fmt.Sprintf("%s.matchExpressions[%d]", at, i)
		w.add(oldNodeLabels[e.Key] != "", "%s.key: %s is %s", one, e.Key, oldNodeLabels[e.Key])
		for j, value := range e.Values {
			for _, why := range validation.IsValidLabelValue(value) {
				w.add(values, "%s.values[%d]: %s is invalid, %s", one, j, value, why)
			}
		}
	}
}

// ofRepeated adds entries of lists that stand there twice.
func (w *advice) ofRepeated(s *corev1.PodSpec, at string) {
	ips := map[string]bool{}
	for i, h := range s.HostAliases {
		w.add(ips[h.IP], "%s.hostAliases[%d].ip: duplicate ip %q", at, i, h.IP)
		ips[h.IP] = true
	}
	names := map[string]bool{}
	for i, r := range s.ImagePullSecrets {
		w.add(names[r.Name], "%s.imagePullSecrets[%d].name: duplicate name %q", at, i, r.Name)
		names[r.Name] = true
	}
	for i, r := range s.ImagePullSecrets {
		w.add(r.Name == "", "%s.imagePullSecrets[%d].name: invalid empty name %q", at, i, r.Name)
	}
}

func (w *advice) ofContainer(p podSource, c *corev1.Container, at, annotations string) {
	of := c.SecurityContext
	key := seccompContainerPrefix + c.Name
	_, seccomp := p.metadata.Annotations[key]
	w.add(seccomp && (of == nil || of.SeccompProfile == nil), `%s[%s]: non-functional in v1.27+; use the "seccompProfile" field instead`, annotations, key)
	key = appArmorPrefix + c.Name
	if annotation, has := p.metadata.Annotations[key]; has && len(p.path) > 0 && (of == nil || of.AppArmorProfile == nil) {
		var pod *corev1.AppArmorProfile
		if p.spec.SecurityContext != nil {
			pod = p.spec.SecurityContext.AppArmorProfile
		}
		w.add(pod == nil || !reflect.DeepEqual(pod, profileOf(annotation)),
			`%s[%s]: deprecated since v1.30; use the "appArmorProfile" field instead`, annotations, key)
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		w.ofFraction(at+".resources.limits", c.Resources.Limits, name)
		w.ofFraction(at+".resources.requests", c.Resources.Requests, name)
	}
	names := map[string]bool{}
	for i, e := range c.Env {
		own := "$(" + e.Name + ")"
		extends := e.ValueFrom == nil && e.Value != own && strings.Contains(e.Value, own)
		w.add(names[e.Name] && !extends, "%s.env[%d]: hides previous definition of %q, which may be dropped when using apply", at, i, e.Name)
		names[e.Name] = true
	}
}

// A placedPort is a port of a container, and where it stands.
type placedPort struct {
	at    string
	index int // among all ports of the pod
	port  corev1.ContainerPort
}

// A portPlace is what ports share that hide each other.
type portPlace struct {
	port     int32
	protocol corev1.Protocol
	hostPort int32  // -1 for all of them
	hostIP   string // "*" for all of them, "+" for all that are not empty
}

// hiddenPorts finds the ports before another one that it hides. A pod may have many thousands, so they are not compared in
// pairs.
type hiddenPorts map[portPlace][]placedPort

func (h hiddenPorts) add(p placedPort) {
	all := portPlace{p.port.ContainerPort, p.port.Protocol, -1, "*"}
	on := portPlace{p.port.ContainerPort, p.port.Protocol, p.port.HostPort, "*"}
	own := portPlace{p.port.ContainerPort, p.port.Protocol, p.port.HostPort, p.port.HostIP}
	for _, place := range []portPlace{all, on, own} {
		h[place] = append(h[place], p)
	}
	if p.port.HostIP != "" {
		on.hostIP = "+"
		h[on] = append(h[on], p)
	}
}

// before returns the ports that another one hides, in their order.
func (h hiddenPorts) before(p corev1.ContainerPort) []placedPort {
	if p.HostPort == 0 { // wherever the others are
		return h[portPlace{p.ContainerPort, p.Protocol, -1, "*"}]
	}
	anywhere := h[portPlace{p.ContainerPort, p.Protocol, 0, "*"}]
	same := h[portPlace{p.ContainerPort, p.Protocol, p.HostPort, p.HostIP}]
	ambiguous := h[portPlace{p.ContainerPort, p.Protocol, p.HostPort, "+"}]
	if p.HostIP != "" {
		ambiguous = h[portPlace{p.ContainerPort, p.Protocol, p.HostPort, ""}]
	}
	if len(anywhere)+len(ambiguous) == 0 {
		return same
	}
	out := slices.Concat(anywhere, same, ambiguous)
	slices.SortFunc(out, func(a, b placedPort) int { return a.index - b.index })
	return out
}

// ofPorts adds ports of a pod that hide each other.
func (w *advice) ofPorts(s *corev1.PodSpec, spec status.Field) {
	var ports []placedPort
	eachContainer(s, spec, func(c *corev1.Container, one status.Field) {
		for i := range c.Ports {
			ports = append(ports, placedPort{one.Child("ports").Index(i).Path().String(), len(ports), c.Ports[i]})
		}
	})
	earlier := hiddenPorts{}
	for _, placed := range ports {
		if w.full() {
			return
		}
		at, p := placed.at, placed.port
		w.add(p.HostIP != "" && p.HostPort == 0, "%s: hostIP set without hostPort: {Name:%s HostPort:0 ContainerPort:%d Protocol:%s HostIP:%s}",
			at, p.Name, p.ContainerPort, p.Protocol, p.HostIP)
		for _, other := range earlier.before(p) {
			if w.full() {
				return
			}
			how := "dangerously ambiguous"
			switch o := other.port; {
			case p.HostIP == o.HostIP && p.HostPort == o.HostPort:
				how = "duplicate"
			case p.HostPort == 0 || o.HostPort == 0:
				how = "overlapping"
			}
			w.add(true, "%s: %s port definition with %s", at, how, other.at)
		}
		earlier.add(placed)
	}
	names := map[string]string{}
	for _, placed := range ports {
		name := placed.port.Name
		first, has := names[name]
		w.add(has, "%s: duplicate port name %q with %s, services and probes that select ports by name will use %s", placed.at, name, first, first)
		if name != "" && !has {
			names[name] = placed.at
		}
	}
}

// ofNeighbours adds terms whose selectors select nothing.
func (w *advice) ofNeighbours(a *corev1.Affinity, at string) {
	terms := func(at string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		const none = "labelSelector: a null labelSelector results in matching no pod"
		for i, t := range required {
			w.add(t.LabelSelector == nil, "%s.requiredDuringSchedulingIgnoredDuringExecution[%d].%s", at, i, none)
		}
		for i, t := range preferred {
			w.add(t.PodAffinityTerm.LabelSelector == nil, "%s.preferredDuringSchedulingIgnoredDuringExecution[%d].podAffinityTerm.%s", at, i, none)
		}
	}
	if a != nil && a.PodAffinity != nil {
		p := a.PodAffinity
		terms(at+".podAffinity", p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a != nil && a.PodAntiAffinity != nil {
		p := a.PodAntiAffinity
		terms(at+".podAntiAffinity", p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// A volumeFile is a file of a volume, and what it is from.
type volumeFile struct{ path, from string }

func (f volumeFile) String() string {
	if f.from == "" {
		return fmt.Sprintf("%q", f.path)
	}
	return fmt.Sprintf("%q (%s)", f.path, f.from)
}

// nestedPaths finds paths that are the same, or of which one lies in the other. A volume may have many thousands, so they
// are not compared in pairs: in order, what lies in a path comes right after it.
type nestedPaths struct {
	paths  []string // with a slash at the end
	order  []int    // of the paths
	at     []int    // where a path stands in that order
	around []int    // the path before it that it lies in or is the same as, which lies in others; or -1
}

func newNestedPaths(paths []string) *nestedPaths {
	n := &nestedPaths{paths: paths, order: make([]int, len(paths)), at: make([]int, len(paths)), around: make([]int, len(paths))}
	for i := range paths {
		n.order[i] = i
	}
	slices.SortStableFunc(n.order, func(a, b int) int { return strings.Compare(paths[a], paths[b]) })
	outer := -1
	for at, i := range n.order {
		for outer >= 0 && !strings.HasPrefix(paths[i], paths[outer]) {
			outer = n.around[outer]
		}
		n.at[i], n.around[i] = at, outer
		outer = i
	}
	return n
}

// before returns the paths with a lower index that the path is the same as, lies in or has in it, in their order.
func (n *nestedPaths) before(i int) (found []int) {
	for other := n.around[i]; other >= 0; other = n.around[other] {
		if other < i {
			found = append(found, other)
		}
	}
	for _, other := range n.order[n.at[i]+1:] {
		if !strings.HasPrefix(n.paths[other], n.paths[i]) {
			break
		}
		if other < i {
			found = append(found, other)
		}
	}
	slices.Sort(found)
	return found
}

// ofPaths adds files of volumes that hide each other.
func (w *advice) ofPaths(volumes []corev1.Volume) {
	for i := range volumes {
		v := &volumes[i]
		within := func(what string, files []volumeFile) {
			files = slices.DeleteFunc(files, func(f volumeFile) bool { return strings.TrimRight(f.path, "/") == "" })
			paths := make([]string, len(files))
			for j := range files {
				files[j].path = strings.TrimRight(files[j].path, "/")
				paths[j] = files[j].path + "/"
			}
			nested := newNestedPaths(paths)
			for j := 0; j < len(files) && !w.full(); j++ {
				for _, other := range nested.before(j) {
					w.add(true, "volume %q (%s): overlapping paths: %s with %s", v.Name, what, files[j], files[other])
				}
			}
		}
		if s := v.ConfigMap; s != nil {
			within(fmt.Sprintf("ConfigMap %q", s.Name), keyFiles(s.Items, ""))
		}
		if s := v.Secret; s != nil {
			within(fmt.Sprintf("Secret %q", s.SecretName), keyFiles(s.Items, ""))
		}
		if s := v.DownwardAPI; s != nil {
			within("DownwardAPI", podFiles(s.Items, ""))
		}
		if s := v.Projected; s != nil {
			var files []volumeFile
			for j := range s.Sources {
				w.add(s.Sources[j] == corev1.VolumeProjection{}, "volume %q (Projected) has no sources provided", v.Name)
				files = append(files, projectedFiles(&s.Sources[j])...)
			}
			within("Projected", files)
		}
	}
}

func keyFiles(items []corev1.KeyToPath, from string) (out []volumeFile) {
	for _, item := range items {
		out = append(out, volumeFile{item.Path, from})
	}
	return out
}

func podFiles(items []corev1.DownwardAPIVolumeFile, from string) (out []volumeFile) {
	for _, item := range items {
		out = append(out, volumeFile{item.Path, from})
	}
	return out
}

func projectedFiles(p *corev1.VolumeProjection) []volumeFile {
	switch {
	case p.ConfigMap != nil:
		return keyFiles(p.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", p.ConfigMap.Name))
	case p.Secret != nil:
		return keyFiles(p.Secret.Items, fmt.Sprintf("Secret %q", p.Secret.Name))
	case p.DownwardAPI != nil:
		return podFiles(p.DownwardAPI.Items, "DownwardAPI")
	case p.ServiceAccountToken != nil:
		return []volumeFile{{p.ServiceAccountToken.Path, "ServiceAccountToken"}}
	case p.ClusterTrustBundle != nil:
		name := p.ClusterTrustBundle.Name
		if name == nil {
			name = p.ClusterTrustBundle.SignerName
		}
		if name == nil {
			return nil
		}
		return []volumeFile{{p.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", *name)}}
	case p.PodCertificate != nil:
		return []volumeFile{
			{p.PodCertificate.CertificateChainPath, "PodCertificate chain"},
			{p.PodCertificate.KeyPath, "PodCertificate key"},
			{p.PodCertificate.CredentialBundlePath, "PodCertificate credential bundle"},
		}
	}
	return nil
}
