package kube

import (
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// checkPod reports errors in a pod.
func (c *cluster) checkPod(p *corev1.Pod, f *status.Fields) {
	c.checkPodSpec(&p.Spec, f.At("spec"))
	if p.Spec.NodeName != "" && len(p.Spec.SchedulingGates) > 0 {
		f.At("spec", "nodeName").Forbidden("cannot be set until all schedulingGates have been cleared")
	}
}

// checkNewPod reports errors in a new pod. Ephemeral containers come by their subresource alone, to whose
// right nobody else may help themselves.
func checkNewPod(p *corev1.Pod, f *status.Fields) {
	if len(p.Spec.EphemeralContainers) > 0 {
		f.At("spec", "ephemeralContainers").Forbidden("cannot be set on create")
	}
}

// checkTemplate reports errors in a pod template.
func (c *cluster) checkTemplate(t *corev1.PodTemplateSpec, at status.Field) {
	checkLabels(at.Child("metadata").Child("labels"), t.Labels)
	c.checkPodSpec(&t.Spec, at.Child("spec"))
	if len(t.Spec.EphemeralContainers) > 0 {
		at.Child("spec").Child("ephemeralContainers").Forbidden("ephemeral containers not allowed in pod template")
	}
}

// checkPodSpec reports errors in a pod's spec.
func (c *cluster) checkPodSpec(s *corev1.PodSpec, at status.Field) {
	volumes := checkVolumes(s.Volumes, at.Child("volumes"))
	names := unique{}
	if len(s.Containers) == 0 {
		at.Child("containers").Required("")
	}
	for i := range s.Containers {
		one := at.Child("containers").Index(i)
		names.check(one.Child("name"), s.Containers[i].Name)
		checkContainer(&s.Containers[i], one, volumes)
	}
	for i := range s.InitContainers {
		one, init := at.Child("initContainers").Index(i), &s.InitContainers[i]
		names.check(one.Child("name"), init.Name)
		checkContainer(init, one, volumes)
		checkInit(init, one)
	}
	c.checkSecurity(s, at)
	oneOf(at.Child("restartPolicy"), s.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	oneOf(at.Child("dnsPolicy"), s.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	if t := s.TerminationGracePeriodSeconds; t != nil && *t < 0 {
		one := int64(1) // a pod then gets one second
		s.TerminationGracePeriodSeconds = &one
	}
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
	if s.Hostname != "" {
		isLabel(at.Child("hostname"), s.Hostname)
	}
	if s.Subdomain != "" {
		isLabel(at.Child("subdomain"), s.Subdomain)
	}
	if s.HostPID && s.ShareProcessNamespace != nil && *s.ShareProcessNamespace {
		at.Child("securityContext").Child("shareProcessNamespace").Invalid(true, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	checkLabels(at.Child("nodeSelector"), s.NodeSelector)
	checkTolerations(s.Tolerations, at.Child("tolerations"))
	gates := map[string]bool{}
	for i, g := range s.SchedulingGates {
		if gates[g.Name] {
			at.Child("schedulingGates").Index(i).Duplicate(g.Name)
		}
		gates[g.Name] = true
	}
	for i, h := range s.HostAliases {
		c.isIP(at.Child("hostAliases").Index(i).Child("ip"), h.IP)
	}
	if s.OS != nil && s.OS.Name != "" {
		oneOf(at.Child("os"), s.OS.Name, corev1.Linux, corev1.Windows)
	}
}

// checkInit reports fields that an init container cannot have.
func checkInit(c *corev1.Container, at status.Field) {
	if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		return
	}
	forbid := func(name string, has bool) {
		if has {
			at.Child(name).Forbidden("may not be set for init containers without restartPolicy=Always")
		}
	}
	forbid("lifecycle", c.Lifecycle != nil)
	forbid("livenessProbe", c.LivenessProbe != nil)
	forbid("readinessProbe", c.ReadinessProbe != nil)
	forbid("startupProbe", c.StartupProbe != nil)
}

// checkHostPath checks a path of a node, which may not lead out of where it seems to lead.
func checkHostPath(p *corev1.HostPathVolumeSource, at status.Field) {
	switch {
	case p == nil:
	case p.Path == "":
		at.Child("path").Required("")
	case slices.Contains(strings.Split(p.Path, "/"), ".."):
		at.Child("path").Invalid(p.Path, "must not contain '..'")
	}
}

// checkVolumes checks the volumes and returns their names.
func checkVolumes(volumes []corev1.Volume, at status.Field) map[string]bool {
	names := unique{}
	for i := range volumes {
		v, one := &volumes[i], at.Index(i)
		isLabel(one.Child("name"), v.Name)
		names.check(one.Child("name"), v.Name)
		atMostOne(reflect.ValueOf(v.VolumeSource), one)
		checkHostPath(v.HostPath, one.Child("hostPath"))
		switch {
		case v.Secret != nil && v.Secret.SecretName == "":
			one.Child("secret").Child("secretName").Required("")
		case v.ConfigMap != nil && v.ConfigMap.Name == "":
			one.Child("configMap").Child("name").Required("")
		case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "":
			one.Child("persistentVolumeClaim").Child("claimName").Required("")
		}
	}
	return names
}

// atMostOne reports all sources of a volume but one. That one is the empty directory if it is among
// them. It returns the number of sources.
func atMostOne(sources reflect.Value, at status.Field) int {
	var names []string
	for i := range sources.NumField() {
		if sources.Field(i).Kind() == reflect.Pointer && !sources.Field(i).IsNil() {
			name, _, _ := strings.Cut(sources.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	if i := slices.Index(names, "emptyDir"); i > 0 {
		names[0], names[i] = names[i], names[0]
	}
	for _, name := range names[min(len(names), 1):] {
		at.Child(name).Forbidden("may not specify more than 1 volume type")
	}
	return len(names)
}

// checkContainer reports errors in a container.
func checkContainer(k *corev1.Container, at status.Field, volumes map[string]bool) {
	isLabel(at.Child("name"), k.Name)
	if strings.TrimSpace(k.Image) == "" {
		at.Child("image").Required("")
	}
	oneOf(at.Child("imagePullPolicy"), k.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	oneOf(at.Child("terminationMessagePolicy"), k.TerminationMessagePolicy, corev1.TerminationMessageReadFile,
		corev1.TerminationMessageFallbackToLogsOnError)
	checkPorts(k.Ports, at.Child("ports"))
	checkEnv(k.Env, at.Child("env"))
	checkMounts(k.VolumeMounts, at.Child("volumeMounts"), volumes)
	checkResources(&k.Resources, at.Child("resources"))
	checkProbe(k.LivenessProbe, at.Child("livenessProbe"))
	checkProbe(k.ReadinessProbe, at.Child("readinessProbe"))
	checkProbe(k.StartupProbe, at.Child("startupProbe"))
}

func checkPorts(ports []corev1.ContainerPort, at status.Field) {
	names := unique{}
	for i, p := range ports {
		one := at.Index(i)
		if p.Name != "" {
			if why := portName(p.Name); why != "" {
				one.Child("name").Invalid(p.Name, why)
			} else {
				names.check(one.Child("name"), p.Name)
			}
		}
		if p.ContainerPort == 0 {
			one.Child("containerPort").Required("")
		} else {
			isPort(one.Child("containerPort"), p.ContainerPort)
		}
		if p.HostPort != 0 && p.HostPort != p.ContainerPort {
			isPort(one.Child("hostPort"), p.HostPort)
		}
		oneOf(one.Child("protocol"), p.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	}
}

// fieldPaths are the fields of a pod that a variable can refer to.
var fieldPaths = regexp.MustCompile(`^(metadata\.(name|namespace|uid|(labels|annotations)\['[^']+'\])|spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs))$`)

func checkEnv(env []corev1.EnvVar, at status.Field) {
	for i, e := range env {
		one := at.Index(i)
		if e.Name == "" {
			one.Child("name").Required("")
		} else if strings.ContainsAny(e.Name, "=\x00") {
			one.Child("name").Invalid(e.Name, "must not contain '='")
		}
		if e.ValueFrom == nil {
			continue
		}
		from := one.Child("valueFrom")
		if e.Value != "" {
			from.Invalid("", "may not be specified when `value` is not empty")
			continue
		}
		switch v := e.ValueFrom; {
		case v.FieldRef != nil && !fieldPaths.MatchString(v.FieldRef.FieldPath):
			from.Child("fieldRef").Child("fieldPath").Invalid(v.FieldRef.FieldPath, "is not a pod field that a variable can hold")
		case v.SecretKeyRef != nil && v.SecretKeyRef.Key == "":
			from.Child("secretKeyRef").Child("key").Required("")
		case v.ConfigMapKeyRef != nil && v.ConfigMapKeyRef.Key == "":
			from.Child("configMapKeyRef").Child("key").Required("")
		case *v == (corev1.EnvVarSource{}):
			from.Invalid("", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`")
		}
	}
}

func checkMounts(mounts []corev1.VolumeMount, at status.Field, volumes map[string]bool) {
	paths := map[string]bool{}
	for i, m := range mounts {
		one := at.Index(i)
		switch {
		case m.Name == "":
			one.Child("name").Required("")
		case !volumes[m.Name]:
			one.Child("name").NotFound(m.Name)
		}
		switch {
		case m.MountPath == "":
			one.Child("mountPath").Required("")
		case paths[m.MountPath]:
			one.Child("mountPath").Invalid(m.MountPath, "must be unique")
		}
		paths[m.MountPath] = true
		if m.SubPath != "" && (path.IsAbs(m.SubPath) || slices.Contains(strings.Split(m.SubPath, "/"), "..")) {
			one.Child("subPath").Invalid(m.SubPath, "must be a relative path without '..'")
		}
		if m.MountPropagation != nil {
			oneOf(at.Child("mountPropagation"), *m.MountPropagation, corev1.MountPropagationBidirectional,
				corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
		}
	}
}

// checkResources reports invalid quantities.
func checkResources(r *corev1.ResourceRequirements, at status.Field) {
	positive := func(at status.Field, list corev1.ResourceList) {
		for _, name := range sortedAmounts(list) {
			if q := list[name]; q.Sign() < 0 {
				at.Key(string(name)).Invalid(q.String(), "must be greater than or equal to 0")
			}
			if why := meta.CheckQualifiedName(string(name)); why != "" {
				at.Key(string(name)).Invalid(string(name), why)
			}
		}
	}
	positive(at.Child("limits"), r.Limits)
	positive(at.Child("requests"), r.Requests)
	for _, name := range sortedAmounts(r.Requests) {
		if limit, has := r.Limits[name]; has && less(limit, r.Requests[name]) {
			request := r.Requests[name]
			at.Child("requests").Invalid(request.String(), "must be less than or equal to "+string(name)+" limit of "+limit.String())
		}
	}
}

func less(a, b resource.Quantity) bool { return a.Cmp(b) < 0 }

func sortedAmounts(list corev1.ResourceList) []corev1.ResourceName {
	out := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func checkProbe(p *corev1.Probe, at status.Field) {
	if p == nil {
		return
	}
	switch {
	case p.Exec != nil:
		if len(p.Exec.Command) == 0 {
			at.Child("exec").Child("command").Required("")
		}
	case p.HTTPGet != nil:
		isPortOrName(at.Child("httpGet").Child("port"), p.HTTPGet.Port)
		oneOf(at.Child("httpGet").Child("scheme"), p.HTTPGet.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	case p.TCPSocket != nil:
		isPortOrName(at.Child("tcpSocket").Child("port"), p.TCPSocket.Port)
	case p.GRPC != nil:
		isPort(at.Child("grpc").Child("port"), p.GRPC.Port)
	default:
		at.Required("must specify a handler type")
	}
	notNegative(at.Child("initialDelaySeconds"), &p.InitialDelaySeconds)
	notNegative(at.Child("timeoutSeconds"), &p.TimeoutSeconds)
	notNegative(at.Child("periodSeconds"), &p.PeriodSeconds)
	notNegative(at.Child("successThreshold"), &p.SuccessThreshold)
	notNegative(at.Child("failureThreshold"), &p.FailureThreshold)
}

func checkTolerations(all []corev1.Toleration, at status.Field) {
	for i, t := range all {
		one := at.Index(i)
		if t.Key != "" {
			if why := meta.CheckLabelKey(t.Key); why != "" {
				one.Child("key").Invalid(t.Key, why)
			}
		} else if t.Operator != corev1.TolerationOpExists {
			one.Child("operator").Invalid(string(t.Operator),
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			one.Child("effect").Invalid(string(t.Effect), "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		if t.Operator == corev1.TolerationOpExists && t.Value != "" {
			one.Child("operator").Invalid(t.Value, "value must be empty when `operator` is 'Exists'")
		}
		if t.Effect != "" {
			oneOf(one.Child("effect"), t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
				corev1.TaintEffectNoExecute)
		}
	}
}
