package kube

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/status"
)

// startsInPod are the verbs for connections that start something in a pod. A WebSocket client sends GET.
func startsInPod(c *cluster) []string {
	if c.WebSocketsReadAlone {
		return nil
	}
	return []string{"create"}
}

// podEndpoints are the subresources of pods beside status.
func podEndpoints(c *cluster) []registry.Endpoint {
	return []registry.Endpoint{
		registry.Subresource{
			Name: "ephemeralcontainers", Verbs: []string{"get", "patch", "update"},
			Fields: [][]string{{"spec", "ephemeralContainers"}}, Merge: mergeEphemeral,
		},
		registry.Subresource{
			Name: "resize", Verbs: []string{"get", "patch", "update"}, Merge: mergeResize,
			Fields: [][]string{{"spec", "containers"}, {"spec", "initContainers"}, {"spec", "resources"}},
		},
		registry.Action[corev1.Pod, corev1.Binding, meta.Status]{Name: "binding", Named: true, Run: func(ctx context.Context, call *registry.Call[corev1.Pod], b *corev1.Binding) (*meta.Status, error) {
			return nil, bind(ctx, call.Target.Namespace, call.Target.Name, b, call.DryRun)
		}},
		c.eviction(),
		registry.Stream[corev1.Pod, corev1.PodLogOptions]{Name: "log", Open: c.openLog},
		connect.Endpoint[corev1.Pod, corev1.PodExecOptions]{Name: "exec", Requires: startsInPod(c), Serve: c.exec},
		connect.Endpoint[corev1.Pod, corev1.PodAttachOptions]{Name: "attach", Requires: startsInPod(c), Serve: c.attach},
		connect.Endpoint[corev1.Pod, corev1.PodPortForwardOptions]{
			Name: "portforward", Requires: startsInPod(c), Serve: c.forward,
		},
		connect.Endpoint[corev1.Pod, corev1.PodProxyOptions]{
			Name: "proxy", Paths: true, Methods: everyMethod(), Object: objectOf("pod"), Serve: c.proxyPod,
		},
	}
}

// openLog returns the log of a container. It is empty as long as the pod has no node.
func (c *cluster) openLog(ctx context.Context, call *registry.Call[corev1.Pod], o *corev1.PodLogOptions) (io.ReadCloser, error) {
	f := &status.Fields{}
	checkLog(o, c.has(gateSplitLogs), f)
	if problems := f.Errors(); len(problems) > 0 {
		return nil, status.Invalid(meta.GroupKind{Kind: "PodLogOptions"}, call.Target.Name, problems)
	}
	container, err := oneContainer(call.Object, o.Container)
	if err != nil {
		return nil, err
	}
	if call.Object.Spec.NodeName == "" {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if c.reach == nil {
		return nil, noKubelet(call.Object, "the log of")
	}
	return c.reach.log(ctx, call.Object, container, logQuery(o, c.has(gateSplitLogs)), o.InsecureSkipTLSVerifyBackend)
}

// exec runs a command in a container.
func (c *cluster) exec(w http.ResponseWriter, r *http.Request, call *registry.Call[corev1.Pod], o *corev1.PodExecOptions) error {
	q := streamQuery(o.Stdin, o.Stdout, o.Stderr, o.TTY)
	q["command"] = o.Command
	return c.streams(w, r, call.Object, "a command in", "exec", &o.Container, q)
}

// attach connects to the process of a container.
func (c *cluster) attach(w http.ResponseWriter, r *http.Request, call *registry.Call[corev1.Pod], o *corev1.PodAttachOptions) error {
	return c.streams(w, r, call.Object, "a process in", "attach", &o.Container, streamQuery(o.Stdin, o.Stdout, o.Stderr, o.TTY))
}

// forward connects to ports of a pod.
func (c *cluster) forward(w http.ResponseWriter, r *http.Request, call *registry.Call[corev1.Pod], o *corev1.PodPortForwardOptions) error {
	q := url.Values{}
	var ports []string
	for _, p := range o.Ports {
		ports = append(ports, strconv.Itoa(int(p)))
	}
	if len(ports) > 0 {
		q.Set("port", strings.Join(ports, ","))
	}
	return c.streams(w, r, call.Object, "a port of", "portForward", nil, q)
}

// streams joins a connection with one of a pod's kubelet.
func (c *cluster) streams(w http.ResponseWriter, r *http.Request, p *corev1.Pod, what, way string, container *string, q url.Values) error {
	at := "/" + way + "/" + p.Namespace + "/" + p.Name
	if container != nil {
		name, err := oneContainer(p, *container)
		if err != nil {
			return err
		}
		at += "/" + name
	}
	if p.Spec.NodeName == "" || c.reach == nil {
		return noKubelet(p, what)
	}
	to, err := c.reach.kubelet(r.Context(), p.Spec.NodeName)
	if err != nil {
		return err
	}
	if r.Header.Get("Upgrade") == "" {
		return status.BadRequest("Upgrade request required")
	}
	to.Path, to.RawQuery = at, q.Encode()
	return (&passage{to: to, transport: c.reach.kubelets, upgrade: true}).serve(w, r)
}

// streamQuery are the parameters of a kubelet that say which streams of a process are wanted.
func streamQuery(in, out, failures, terminal bool) url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{"input": in, "output": out, "error": failures, "tty": terminal} {
		if on {
			q.Set(name, "1")
		}
	}
	return q
}

// oneContainer returns the container that is meant. It rejects a name that no container has, and an empty
// name if there are several containers.
func oneContainer(p *corev1.Pod, name string) (string, error) {
	var names []string
	for _, all := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range all {
			names = append(names, all[i].Name)
		}
	}
	known := slices.Contains(names, name) || slices.ContainsFunc(p.Spec.EphemeralContainers,
		func(c corev1.EphemeralContainer) bool { return c.Name == name })
	switch {
	case name != "" && !known:
		return "", status.BadRequest("container %s is not valid for pod %s", name, p.Name)
	case name == "" && len(p.Spec.Containers) > 1:
		return "", status.BadRequest("a container name must be specified for pod %s, choose one of: %v", p.Name, names)
	case name == "" && len(p.Spec.Containers) == 1:
		name = p.Spec.Containers[0].Name
	}
	return name, nil
}

func everyMethod() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

// noKubelet says that a pod does not run, and why: it has no node, or there is no kubelet on its
// node.
func noKubelet(p *corev1.Pod, what string) error {
	if p.Spec.NodeName == "" {
		return status.BadRequest("pod %s does not have a host assigned", p.Name)
	}
	return status.ServiceUnavailable(fmt.Sprintf("%s pod %s cannot be reached: this server has no kubelet on node %s",
		what, p.Name, p.Spec.NodeName))
}

// unreachable rejects connections to a node or to a service.
func unreachable(what, name string) error {
	return status.ServiceUnavailable(fmt.Sprintf("%s %s cannot be reached: this server does not proxy connections", what, name))
}

// mergeEphemeral takes only the debugging containers.
func mergeEphemeral(old, sent registry.Tree) registry.Tree {
	out, spec := maps.Clone(old), map[string]any{}
	if before, ok := old["spec"].(map[string]any); ok {
		spec = maps.Clone(before)
	}
	delete(spec, "ephemeralContainers")
	if v := at(sent, "spec", "ephemeralContainers"); v != nil {
		spec["ephemeralContainers"] = v
	}
	out["spec"] = spec
	return out
}

// mergeResize takes only the containers' resources and their resize policies.
func mergeResize(old, sent registry.Tree) registry.Tree {
	out, spec := maps.Clone(old), map[string]any{}
	if before, ok := old["spec"].(map[string]any); ok {
		spec = maps.Clone(before)
	}
	for _, field := range []string{"containers", "initContainers"} {
		if now := resized(list(spec[field]), list(at(sent, "spec", field))); len(now) > 0 {
			spec[field] = now
		} else {
			delete(spec, field)
		}
	}
	delete(spec, "resources")
	if v := at(sent, "spec", "resources"); v != nil {
		spec["resources"] = v
	}
	out["spec"] = spec
	return out
}

// resized returns containers with the resources of the containers of the same name in another list. A list of other
// containers is returned as it is: validation says what is wrong with it.
func resized(containers, sent []any) []any {
	if !slices.Equal(words(containers, "name"), words(sent, "name")) {
		return sent
	}
	out := make([]any, len(containers))
	for i, c := range containers {
		out[i] = c
		for _, s := range sent {
			if word(at(s, "name")) != word(at(c, "name")) {
				continue
			}
			changed := maps.Clone(c.(map[string]any)) //nolint:forcetypeassert // it has a name
			for _, field := range []string{"resources", "resizePolicy"} {
				if v := at(s, field); v != nil {
					changed[field] = v
				}
			}
			out[i] = changed
		}
	}
	return out
}

// binding marks the context of the one write that may set a pod's node.
type binding struct{}

// bind assigns a pod to the node that a scheduler chose.
func bind(ctx context.Context, namespace, name string, b *corev1.Binding, dry bool) error {
	f := &status.Fields{}
	if b.Target.Kind != "" && b.Target.Kind != "Node" {
		f.At("target", "kind").NotSupported(b.Target.Kind, "Node", "<empty>")
	}
	if b.Target.Name == "" {
		f.At("target", "name").Required("")
	}
	if problems := f.Errors(); len(problems) > 0 {
		return status.Invalid(meta.GroupKind{Kind: "Binding"}, b.Name, problems)
	}
	pods := registry.For[corev1.Pod](ctx).With(registry.WriteOptions{DryRun: dry})
	ctx = hookcontext.WithUncounted(hookcontext.WithAdmitted(context.WithValue(ctx, binding{}, true)))
	_, err := pods.Modify(ctx, namespace, name, func(p *corev1.Pod) error {
		if why := unbindable(p, b); why != "" {
			return status.Conflict(meta.GroupResource{Resource: "pods/binding"}, p.Name, why)
		}
		p.Spec.NodeName = b.Target.Name
		p.Annotations, p.Labels = joined(p.Annotations, b.Annotations), joined(p.Labels, b.Labels)
		return nil
	})
	return err
}

// unbindable returns why a pod cannot be assigned to a node, or "" if it can.
func unbindable(p *corev1.Pod, b *corev1.Binding) string {
	switch {
	case p.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", p.Name)
	case p.Spec.NodeName != "":
		return fmt.Sprintf("pod %s is already assigned to node %q", p.Name, p.Spec.NodeName)
	case len(p.Spec.SchedulingGates) > 0:
		return fmt.Sprintf("pod %s has non-empty .spec.schedulingGates", p.Name)
	case b.UID != "" && b.UID != p.UID:
		return fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", b.UID, p.UID)
	case b.ResourceVersion != "" && b.ResourceVersion != p.ResourceVersion:
		return fmt.Sprintf("Precondition failed: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s", b.ResourceVersion, p.ResourceVersion)
	}
	return ""
}

// joined adds the entries of more to those of to.
func joined(to, more map[string]string) map[string]string {
	if len(more) == 0 {
		return to
	}
	out := maps.Clone(to)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}

// bindNamed binds the pod that a binding names.
func bindNamed(ctx context.Context, b *corev1.Binding) error {
	return bind(ctx, b.Namespace, b.Name, b, registry.IsDryRun(ctx))
}
