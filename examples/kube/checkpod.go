package kube

import (
	"fmt"
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
	checkPodVolumes(p, f.At("spec", "volumes"))
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
	checkLabels(at.Child("labels"), t.Labels) // kube-apiserver names no metadata
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
	checkHostPorts(s.Containers, at.Child("containers"))
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
	checkGates(s.SchedulingGates, at.Child("schedulingGates"))
	checkSpread(s.TopologySpreadConstraints, at.Child("topologySpreadConstraints"))
	checkAffinity(s.Affinity, at.Child("affinity"))
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
	if p := k.RestartPolicy; p != nil {
		oneOf(at.Child("restartPolicy"), *p, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever,
			corev1.ContainerRestartPolicyOnFailure)
	}
	oneOf(at.Child("terminationMessagePolicy"), k.TerminationMessagePolicy, corev1.TerminationMessageReadFile,
		corev1.TerminationMessageFallbackToLogsOnError)
	checkPorts(k.Ports, at.Child("ports"))
	checkEnv(k.Env, at.Child("env"))
	checkMounts(k.VolumeMounts, at.Child("volumeMounts"), volumes)
	checkResources(&k.Resources, at.Child("resources"))
	if l := k.Lifecycle; l != nil {
		checkLifecycle(l.PostStart, at.Child("lifecycle").Child("postStart"))
		checkLifecycle(l.PreStop, at.Child("lifecycle").Child("preStop"))
	}
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
		if p.HostPort != 0 {
			isPort(one.Child("hostPort"), p.HostPort)
		}
		oneOf(one.Child("protocol"), p.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	}
}

func checkEnv(env []corev1.EnvVar, at status.Field) {
	for i, e := range env {
		one := at.Index(i)
		if e.Name == "" {
			one.Child("name").Required("")
		} else if !isVariable(e.Name) {
			one.Child("name").Invalid(e.Name, "a valid environment variable name must consist only of printable ASCII characters other than '='")
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
		case v.FieldRef != nil:
			checkFieldPath(v.FieldRef.FieldPath, from.Child("fieldRef").Child("fieldPath"), "metadata.name", "metadata.namespace",
				"metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
		case v.SecretKeyRef != nil:
			checkKeyRef(v.SecretKeyRef.Name, v.SecretKeyRef.Key, from.Child("secretKeyRef"))
		case v.ConfigMapKeyRef != nil:
			checkKeyRef(v.ConfigMapKeyRef.Name, v.ConfigMapKeyRef.Key, from.Child("configMapKeyRef"))
		case *v == (corev1.EnvVarSource{}):
			from.Invalid("", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`")
		}
	}
}

func checkMounts(mounts []corev1.VolumeMount, at status.Field, volumes map[string]bool) {
	paths := map[string]bool{}
	for i, m := range mounts {
		one := at.Index(i)
		if m.Name == "" {
			one.Child("name").Required("")
		}
		if !volumes[m.Name] {
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
	checkHandler(at, p.Exec, p.HTTPGet, p.TCPSocket, p.GRPC, nil)
	notNegative(at.Child("initialDelaySeconds"), &p.InitialDelaySeconds)
	notNegative(at.Child("timeoutSeconds"), &p.TimeoutSeconds)
	notNegative(at.Child("periodSeconds"), &p.PeriodSeconds)
	notNegative(at.Child("successThreshold"), &p.SuccessThreshold)
	notNegative(at.Child("failureThreshold"), &p.FailureThreshold)
}

// checkLifecycle checks what a container does when it starts or stops.
func checkLifecycle(h *corev1.LifecycleHandler, at status.Field) {
	if h != nil {
		checkHandler(at, h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep)
	}
}

// checkHandler requires one way to ask a container.
func checkHandler(at status.Field, e *corev1.ExecAction, h *corev1.HTTPGetAction, t *corev1.TCPSocketAction, g *corev1.GRPCAction, s *corev1.SleepAction) {
	ways := 0
	way := func(name string, has bool, check func(status.Field)) {
		if !has {
			return
		}
		if ways++; ways > 1 {
			at.Child(name).Forbidden("may not specify more than 1 handler type")
			return
		}
		check(at.Child(name))
	}
	way("exec", e != nil, func(at status.Field) {
		if len(e.Command) == 0 {
			at.Child("command").Required("")
		}
	})
	way("httpGet", h != nil, func(at status.Field) {
		if h.Path == "" {
			at.Child("path").Required("")
		}
		isPortOrName(at.Child("port"), h.Port)
		oneOf(at.Child("scheme"), h.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
		for _, header := range h.HTTPHeaders {
			if !headerNames.MatchString(header.Name) {
				at.Child("httpHeaders").Invalid(header.Name, "a valid HTTP header must consist of alphanumeric characters or '-'")
			}
		}
	})
	way("tcpSocket", t != nil, func(at status.Field) { isPortOrName(at.Child("port"), t.Port) })
	way("grpc", g != nil, func(at status.Field) { isPort(at.Child("port"), g.Port) })
	way("sleep", s != nil, func(at status.Field) {
		if s.Seconds < 0 {
			at.Child("seconds").Invalid(s.Seconds, "must be non-negative and less than terminationGracePeriodSeconds")
		}
	})
	if ways == 0 {
		at.Required("must specify a handler type")
	}
}

// headerNames are the names of headers that probes may send.
var headerNames = regexp.MustCompile(`^[-A-Za-z0-9]+$`)

// isVariable reports whether a name can be that of an environment variable.
func isVariable(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '=' })
}

// checkHostPorts requires that containers of a pod share no port of their node.
func checkHostPorts(containers []corev1.Container, at status.Field) {
	ports := unique{}
	for i := range containers {
		for j, p := range containers[i].Ports {
			if p.HostPort != 0 {
				ports.check(at.Index(i).Child("ports").Index(j).Child("hostPort"), fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort))
			}
		}
	}
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
