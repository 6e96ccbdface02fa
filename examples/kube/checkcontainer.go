package kube

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kindwright/kindwright/status"
)

// checkContainers checks the containers of a pod.
func (r *podRules) checkContainers(at status.Field) {
	names := unique{}
	if len(r.spec.Containers) == 0 {
		at.Child("containers").Required("")
	}
	for i := range r.spec.Containers {
		one, c := at.Child("containers").Index(i), &r.spec.Containers[i]
		r.checkContainer(c, one)
		names.checkAny(one.Child("name"), c.Name)
		r.checkRunning(c, one)
		checkRestart(c, one)
	}
	checkHostPorts(r.spec.Containers, at.Child("containers"))
	for i := range r.spec.InitContainers {
		one, init := at.Child("initContainers").Index(i), &r.spec.InitContainers[i]
		r.checkContainer(init, one)
		checkInitRestart(init, one)
		if init.Name != "" || names[""] { // only a container takes the empty name
			names.checkAny(one.Child("name"), init.Name)
		}
		// One runs after the other. kube-apiserver counts each as the first.
		checkHostPorts(r.spec.InitContainers[i:i+1], at.Child("initContainers"))
		r.checkInit(init, one)
	}
	r.checkEphemeral(at.Child("ephemeralContainers"))
}

// isSidecar reports whether an init container goes on beside the others.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// checkInit checks what differs between init containers and others.
func (r *podRules) checkInit(c *corev1.Container, at status.Field) {
	if isSidecar(c) {
		r.checkRunning(c, at)
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
	for i, p := range c.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer {
			at.Child("resizePolicy").Index(i).Child("restartPolicy").Invalid(string(p.RestartPolicy),
				"must not be RestartContainer for init containers without restartPolicy=Always")
		}
	}
}

// checkContainer checks what all containers have.
func (r *podRules) checkContainer(k *corev1.Container, at status.Field) {
	isLabel(at.Child("name"), k.Name)
	if k.Image == "" {
		at.Child("image").Required("")
	}
	oneOf(at.Child("terminationMessagePolicy"), k.TerminationMessagePolicy, corev1.TerminationMessageReadFile,
		corev1.TerminationMessageFallbackToLogsOnError)
	checkPorts(k.Ports, at.Child("ports"))
	checkEnv(k.Env, at.Child("env"))
	checkEnvFrom(k.EnvFrom, at.Child("envFrom"))
	r.checkMounts(k, at.Child("volumeMounts"))
	r.checkDevices(k, at.Child("volumeDevices"))
	oneOf(at.Child("imagePullPolicy"), k.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	checkResources(&k.Resources, at.Child("resources"), r.claims, checkContainerAmount)
	r.checkResizePolicy(k.ResizePolicy, at.Child("resizePolicy"))
	r.checkSecurityContext(k.SecurityContext, at.Child("securityContext"))
}

// checkRunning checks what containers have that run until their pod ends.
func (r *podRules) checkRunning(k *corev1.Container, at status.Field) {
	if l := k.Lifecycle; l != nil {
		r.checkLifecycle(l.PostStart, at.Child("lifecycle").Child("postStart"))
		r.checkLifecycle(l.PreStop, at.Child("lifecycle").Child("preStop"))
		if l.StopSignal != nil {
			r.checkStopSignal(*l.StopSignal, at.Child("lifecycle").Child("stopSignal"))
		}
	}
	checkProbe(k.LivenessProbe, at.Child("livenessProbe"))
	checkProbe(k.ReadinessProbe, at.Child("readinessProbe"))
	checkProbe(k.StartupProbe, at.Child("startupProbe"))
	for name, p := range map[string]*corev1.Probe{"livenessProbe": k.LivenessProbe, "startupProbe": k.StartupProbe} {
		if p != nil && p.SuccessThreshold != 1 {
			at.Child(name).Child("successThreshold").Invalid(p.SuccessThreshold, "must be 1")
		}
	}
	if p := k.ReadinessProbe; p != nil && p.TerminationGracePeriodSeconds != nil {
		at.Child("readinessProbe").Child("terminationGracePeriodSeconds").Invalid(*p.TerminationGracePeriodSeconds,
			"must not be set for readiness probes, which end nothing")
	}
}

// How many rules a container has for its restarts, and how many exit codes one of them names.
const (
	mostRestartRules = 20
	mostExitCodes    = 255
)

// checkRestart checks when a container is restarted.
func checkRestart(c *corev1.Container, at status.Field) {
	switch p := c.RestartPolicy; {
	case p != nil:
		oneOf(at.Child("restartPolicy"), *p, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever,
			corev1.ContainerRestartPolicyOnFailure)
	case len(c.RestartPolicyRules) > 0:
		at.Child("restartPolicy").Required(ruleNeedsPolicy)
	}
	rules := at.Child("restartPolicyRules")
	if n := len(c.RestartPolicyRules); n > mostRestartRules {
		rules.TooMany(n, mostRestartRules)
	}
	for i, rule := range c.RestartPolicyRules {
		one := rules.Index(i)
		oneOf(one.Child("action"), rule.Action, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		codes := one.Child("exitCodes")
		if rule.ExitCodes == nil {
			codes.Required("must be specified")
			continue
		}
		oneOf(codes.Child("operator"), rule.ExitCodes.Operator, corev1.ContainerRestartRuleOnExitCodesOpIn,
			corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(rule.ExitCodes.Values); n > mostExitCodes {
			codes.Child("values").TooMany(n, mostExitCodes)
		}
	}
}

const ruleNeedsPolicy = "must be there beside restartPolicyRules"

// checkInitRestart is checkRestart for init containers, whose rules are not looked at without a policy.
func checkInitRestart(c *corev1.Container, at status.Field) {
	switch {
	case c.RestartPolicy != nil:
		checkRestart(c, at)
	case len(c.RestartPolicyRules) > 0:
		at.Child("restartPolicy").Required(ruleNeedsPolicy)
	}
}

// checkResizePolicy checks what happens to a container whose resources change. kube-apiserver names no index
// but that of duplicates.
func (r *podRules) checkResizePolicy(all []corev1.ContainerResizePolicy, at status.Field) {
	seen := map[corev1.ResourceName]bool{}
	for i, p := range all {
		if seen[p.ResourceName] {
			at.Index(i).Duplicate(string(p.ResourceName))
		}
		seen[p.ResourceName] = true
		choice(at, p.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		choice(at, p.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		if r.spec.RestartPolicy == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			at.Invalid(string(p.RestartPolicy), "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
	}
}

func checkPorts(ports []corev1.ContainerPort, at status.Field) {
	names := unique{}
	for i, p := range ports {
		one := at.Index(i)
		if p.Name != "" {
			if why := validation.IsValidPortName(p.Name); len(why) > 0 {
				one.Child("name").Invalid(p.Name, why[0])
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

func checkProbe(p *corev1.Probe, at status.Field) {
	if p == nil {
		return
	}
	checkHandler(at, handler{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC})
	notNegative(at.Child("initialDelaySeconds"), &p.InitialDelaySeconds)
	notNegative(at.Child("timeoutSeconds"), &p.TimeoutSeconds)
	notNegative(at.Child("periodSeconds"), &p.PeriodSeconds)
	notNegative(at.Child("successThreshold"), &p.SuccessThreshold)
	notNegative(at.Child("failureThreshold"), &p.FailureThreshold)
	if g := p.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		at.Child("terminationGracePeriodSeconds").Invalid(*g, "must be greater than 0")
	}
}

// checkStopSignal checks the signal that ends a container: one that the system of the pod has.
func (r *podRules) checkStopSignal(s corev1.Signal, at status.Field) {
	switch os := r.spec.OS; {
	case os == nil:
		at.Forbidden("may not be set for containers with empty `spec.os.name`")
	case os.Name == corev1.Windows:
		oneOf(at, s, corev1.SIGKILL, corev1.SIGTERM)
	case os.Name == corev1.Linux:
		oneOf(at, s, linuxSignals()...)
	}
}

// linuxSignals are those of Linux, with the real-time signals counted from both ends.
func linuxSignals() (out []corev1.Signal) {
	for name := range strings.FieldsSeq(`ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP SYS TERM
		TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX`) {
		out = append(out, corev1.Signal("SIG"+name))
	}
	for i := 1; i <= 15; i++ {
		if out = append(out, corev1.Signal(fmt.Sprintf("SIGRTMIN+%d", i))); i < 15 {
			out = append(out, corev1.Signal(fmt.Sprintf("SIGRTMAX-%d", i)))
		}
	}
	return out
}

// checkLifecycle checks what a container does when it starts or stops.
func (r *podRules) checkLifecycle(h *corev1.LifecycleHandler, at status.Field) {
	if h == nil {
		return
	}
	checkHandler(at, handler{
		exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket,
		sleep: h.Sleep, grace: r.spec.TerminationGracePeriodSeconds,
	})
}

// handler is one way to ask a container something, or to tell it.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
	grace *int64 // how long a container may sleep
}

// checkHandler requires one way to ask a container.
func checkHandler(at status.Field, h handler) {
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
	way("exec", h.exec != nil, func(at status.Field) {
		if len(h.exec.Command) == 0 {
			at.Child("command").Required("")
		}
	})
	way("httpGet", h.http != nil, func(at status.Field) { checkHTTP(h.http, at) })
	way("tcpSocket", h.tcp != nil, func(at status.Field) { isPortOrName(at.Child("port"), h.tcp.Port) })
	way("grpc", h.grpc != nil, func(at status.Field) { isPort(at.Child("port"), h.grpc.Port) })
	way("sleep", h.sleep != nil, func(at status.Field) {
		if n := h.sleep.Seconds; h.grace != nil && (n < 0 || n > *h.grace) {
			at.Invalid(n, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *h.grace))
		}
	})
	if ways == 0 {
		at.Required("must specify a handler type")
	}
}

func checkHTTP(h *corev1.HTTPGetAction, at status.Field) {
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
}

// headerNames are the names of headers that probes may send.
var headerNames = regexp.MustCompile(`^[-A-Za-z0-9]+$`)

// checkEphemeral checks the containers that were added to a running pod.
func (r *podRules) checkEphemeral(all status.Field) {
	names, running := unique{}, map[string]bool{}
	for _, containers := range containersOf(r.spec) {
		for i := range containers {
			names[containers[i].Name], running[containers[i].Name] = true, true
		}
	}
	for i := range r.spec.EphemeralContainers {
		e, at := &r.spec.EphemeralContainers[i], all.Index(i)
		c := corev1.Container(e.EphemeralContainerCommon)
		r.checkContainer(&c, at)
		if c.Image != strings.TrimSpace(c.Image) {
			at.Child("image").Invalid(c.Image, "must not have leading or trailing whitespace")
		}
		names.checkAny(at.Child("name"), c.Name)
		if target := e.TargetContainerName; target != "" && !running[target] {
			at.Child("targetContainerName").NotFound(target)
		}
		forbid := func(at status.Field, has bool) {
			if has {
				at.Forbidden("cannot be set for an Ephemeral Container")
			}
		}
		forbid(at.Child("ports"), c.Ports != nil)
		forbid(at.Child("resources"), c.Resources.Limits != nil || c.Resources.Requests != nil || c.Resources.Claims != nil)
		forbid(at.Child("resizePolicy"), c.ResizePolicy != nil)
		forbid(at.Child("restartPolicy"), c.RestartPolicy != nil)
		forbid(at.Child("restartPolicyRules"), c.RestartPolicyRules != nil)
		forbid(at.Child("livenessProbe"), c.LivenessProbe != nil)
		forbid(at.Child("readinessProbe"), c.ReadinessProbe != nil)
		forbid(at.Child("startupProbe"), c.StartupProbe != nil)
		forbid(at.Child("lifecycle"), c.Lifecycle != nil)
		for j, m := range c.VolumeMounts {
			forbid(at.Child("volumeMounts").Index(j).Child("subPath"), m.SubPath != "")
			forbid(at.Child("volumeMounts").Index(j).Child("subPathExpr"), m.SubPathExpr != "")
		}
	}
}
