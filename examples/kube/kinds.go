package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	podsecurity "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/api"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"

	"github.com/kindwright/kindwright/examples/kube/overlay"
)

// Options sets how the kinds are served. The zero value suits a test cluster.
type Options struct {
	// ServiceRange is the range of service addresses. Default 10.0.0.0/24.
	ServiceRange netip.Prefix

	// SecondServiceRange is the range of the other family, of which services with both families have an address. By
	// default services have one family.
	SecondServiceRange netip.Prefix

	// NodePorts are the first and the last port that services may use on nodes. Default 30000 to
	// 32767.
	NodePorts [2]int32

	// Endpoint is the server's own address inside the cluster. Unless it is set, the service
	// `kubernetes` has no endpoints.
	Endpoint netip.AddrPort

	// ServiceNodePort is the port of nodes under which the service `kubernetes` can be reached. By default
	// there is none.
	ServiceNodePort int32

	// Tokens issues the tokens of service accounts. Without it there are none.
	Tokens *serviceaccount.Tokens

	// Without names admission plugins of kube-apiserver to disable. [Plugins] lists those that are
	// enabled otherwise.
	Without []string

	// ProvideNamespaces creates a namespace that does not exist when the first object in it is created, as
	// the plugin NamespaceAutoProvision does.
	ProvideNamespaces bool

	// PodSecurity says which Pod Security Standards count in namespaces without labels, and who is exempt
	// from them. The default is that of Kubernetes: everything is allowed there, and nobody is exempt.
	PodSecurity *podsecurity.PodSecurityConfiguration

	// Unprivileged rejects privileged containers.
	Unprivileged bool

	// EndpointRouting connects to a ready endpoint of the service of a webhook. By default the server
	// connects to the address of the service, which needs a proxy on its machine.
	EndpointRouting bool

	// Kubelets says how to reach kubelets, pods and services. By default logs, connections to pods and the
	// proxies of nodes, pods and services answer that nothing can be reached.
	Kubelets *Kubelets

	// NotReadySeconds and UnreachableSeconds are how long pods stay on nodes that are not ready or
	// unreachable, unless they say something else. nil is 300.
	NotReadySeconds, UnreachableSeconds *int64

	// Host names this machine. If it is set, the server has a lease in kube-system that it renews.
	Host string

	// WarnUnenforced answers writes of quotas, limit ranges, policies and webhooks whose plugins are in
	// Without with a warning that nothing here enforces them; and those of roles and of flow schemas, unless
	// RolesCount and LevelsCount are set.
	WarnUnenforced bool

	// StaticNames keeps names that end in .static.k8s.io for policies and webhooks of files, as the
	// feature ManifestBasedAdmissionControlConfig does. Without it they are answered with a warning.
	StaticNames bool

	// RolesCount says that the server authorizes by roles, with an authorizer of authz/rbac.
	RolesCount bool

	// LevelsCount says that requests share the server by flow schemas and priority levels, with
	// kindwright.Fairness.
	LevelsCount bool

	// TrustBundles adds the kind ClusterTrustBundle of certificates.k8s.io in v1beta1 and v1alpha1, which a server
	// serves where its configuration asks for them, and the plugin ClusterTrustBundleAttest.
	TrustBundles bool

	// StorageMigrations adds the kind StorageVersionMigration of storagemigration.k8s.io/v1beta1, which a server serves
	// where its configuration asks for that version. A controller elsewhere carries migrations out.
	StorageMigrations bool

	// Features says which features of Kubernetes are on that are off by default, by the names of their gates:
	// ContainerStopSignals, GenericWorkload, ClusterTrustBundleProjection and PodCertificateRequest, which are about
	// fields of pods, MaxUnavailableStatefulSet, CoordinatedLeaderElection, which is about those of leases,
	// CrossNamespaceVolumeDataSource, VolumeLimitScaling and MutablePVNodeAffinity, which are about storage,
	// StorageVersionAPI and DRADeviceTaintRules, which add roles, DRAListTypeAttributes, which is about those of
	// devices, and PodLogsQuerySplitStreams. PodCertificateRequest adds a kind of that name, too. Without it all are
	// off. New objects lose the fields of features that are off.
	Features func(gate string) bool

	// FeaturesOff says which features of Kubernetes are off that are on by default, by the names of their gates:
	// MutablePodResourcesForSuspendedJobs, MutableSchedulingDirectivesForSuspendedJobs, JobManagedBy, without
	// which statuses of jobs are trusted, and ClearingNominatedNodeNameAfterBinding. Without it none is off.
	FeaturesOff func(gate string) bool

	// UntoldValues leaves the values that strings may have out of the published schemas, as Kubernetes does
	// without the feature OpenAPIEnums.
	UntoldValues bool

	// WebSocketsReadAlone lets WebSocket clients run commands in pods, attach to them and forward their
	// ports with the verb get alone, as before Kubernetes 1.35. By default they need create as well.
	WebSocketsReadAlone bool

	// LooseAddresses accepts IP addresses with leading zeros, IPv4 addresses that are written as IPv6, and
	// ranges whose address does not begin them, as before Kubernetes 1.36.
	LooseAddresses bool

	// StrictServiceNames has the names of new services begin with a letter, as before Kubernetes 1.36.
	StrictServiceNames bool

	// LooseDeviceStates lets everybody who may write the status of a claim for devices allocate devices, and speak for
	// each driver, as before Kubernetes 1.36.
	LooseDeviceStates bool

	// AggregateRoles has the server write the rules of roles with an aggregationRule, as
	// kube-controller-manager does.
	AggregateRoles bool

	// Authentication returns the data of the ConfigMap extension-apiserver-authentication, which says
	// how the server authenticates clients. The server asks for it again every ten seconds. Without
	// it there is no ConfigMap.
	Authentication func() (map[string]string, error)

	// MutatingWebhooks and ValidatingWebhooks are how the server proves to webhooks who it is; nil: it does
	// not.
	MutatingWebhooks, ValidatingWebhooks *webhook.Credentials

	// StaticWebhooks are webhooks that no client has configured, such as those of files; nil: there are none.
	StaticWebhooks *webhook.Statics

	// ControlPlane are options for the library's own kinds: namespaces, events, leases and reviews.
	ControlPlane []kinds.ControlPlaneOption
}

// Plugins returns the names of the admission plugins of kube-apiserver whose work the kinds do
// themselves, so there is nothing to set up. DefaultPlugins has others.
func Plugins() []string {
	return []string{
		"DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", webhook.MutatingName, "NamespaceLifecycle",
		podSecurityName, "Priority", "StorageObjectInUseProtection", "TaintNodesByCondition", "ValidatingAdmissionPolicy",
		webhook.ValidatingName,
	}
}

// Kinds returns every stable kind of k8s.io/api with its surroundings: the objects that a cluster
// has from its start, and the addresses of services. It leaves out the groups apiextensions.k8s.io
// and apiregistration.k8s.io, and component statuses, which nothing reports any more.
func Kinds(o Options) registry.Definition {
	return definition{o, &signingStats{}, &kinds.PolicyStats{}, &kinds.WebhookStats{}, &podSecurityStats{release: release()}}
}

type definition struct {
	Options
	signing *signingStats
	checks  *kinds.PolicyStats
	calls   *kinds.WebhookStats
	pods    *podSecurityStats
}

// release is the one that the kinds are of.
func release() api.Version { return api.MajorMinorVersion(1, 36) }

// CollectMetrics registers what the kinds count.
func (d definition) CollectMetrics(r *metrics.Registry) {
	d.signing.collect(r)
	d.checks.CollectMetrics(r)
	d.calls.CollectMetrics(r)
	d.pods.collect(r)
}

// Define implements registry.Definition.
func (d definition) Define(env registry.Env) (registry.Bundle, error) {
	c := &cluster{
		Options: d.Options, enumerations: newEnumerations(), signing: d.signing, checks: d.checks, calls: d.calls, reach: newReach(d.Kubelets, env.Egress),
	}
	if err := c.check(); err != nil {
		return registry.Bundle{}, err
	}
	parse := overlay.Parse
	if c.UntoldValues {
		parse = overlay.ParseWithoutEnums
	}
	tags, err := parse()
	if err != nil {
		return registry.Bundle{}, fmt.Errorf("what k8s.io/api keeps in comments: %w", err)
	}
	c.overlay = tags
	out, err := kinds.ControlPlane(d.ControlPlane...).Define(env)
	if err != nil {
		return out, err
	}
	for i, r := range out.Resources {
		if r.Group == "" && r.Plural == "namespaces" {
			own := *r
			own.Deletion.NoCollections = true // nobody deletes a cluster by a selector
			out.Resources[i] = &own
		}
	}
	if c.without("NamespaceLifecycle") {
		out.Gate = nil
	}
	if c.ProvideNamespaces {
		out.Gate = provider{out.Gate, &c.engine}
	}
	roles, err := roleKinds(c)
	if err != nil {
		return out, err
	}
	var later []registry.Hook // after the objects that a cluster has from its start
	for _, area := range [][]registry.Definition{
		core(c), pods(c), services(c), volumes(c), apps(c), batch(c), autoscaling(c), policy(c), networking(c), storageClasses(c),
		{roles, kinds.TrackLegacyTokens(c.Tokens)},
		admissionKinds(c), certificates(c), trustBundles(c), podCertificates(c), storageVersions(c), leaseCandidates(c), storageMigrations(c), scheduling(c),
		{kinds.WithFlowControl(several(flowcontrol(c)))},
		devices(c), deviceTaintRules(c),
	} {
		for _, k := range area {
			b, err := k.Define(env)
			if err != nil {
				return out, err
			}
			out.Resources = append(out.Resources, b.Resources...)
			out.Plugins = append(out.Plugins, b.Plugins...)
			later = append(later, b.Hooks...)
		}
	}
	for _, r := range out.Resources {
		if r.Plural == "leases" && r.Group == "coordination.k8s.io" {
			c.leases(r)
		}
		checkPrefixes(r)
		qualifyFinalizers(r)
	}
	security, err := newPodSecurity(c.PodSecurity, d.pods)
	if err != nil {
		return out, err
	}
	out.Plugins = append(out.Plugins, security.plugin(), c.devicePlugin())
	out.Hooks = append(append(out.Hooks, c.hooks()...), later...)
	out.Plugins = slices.DeleteFunc(out.Plugins, func(p admission.Plugin) bool { return c.without(p.Name) })
	return out, nil
}

// cluster is the state that the kinds of one server share.
type cluster struct {
	Options
	overlay      *openapi.Overlay
	enumerations enumerations
	signing      *signingStats
	checks       *kinds.PolicyStats
	calls        *kinds.WebhookStats

	ranges serviceRanges
	reach  *reach // nil: nothing in the cluster can be reached

	// engine is set once the server has started, which is before any write.
	engine atomic.Pointer[engine.Engine]
}

// check applies the defaults of the options.
func (c *cluster) check() error {
	if c.ServiceRange == (netip.Prefix{}) {
		c.ServiceRange = netip.MustParsePrefix("10.0.0.0/24")
	}
	if c.NodePorts == [2]int32{} {
		c.NodePorts = [2]int32{30000, 32767}
	}
	for _, p := range c.ownRanges() {
		if !p.IsValid() || p.Addr().BitLen()-p.Bits() < 3 {
			return fmt.Errorf("kube: Options.ServiceRange %s holds fewer than 8 addresses", p)
		}
	}
	if len(c.families()) == 2 && c.families()[0] == c.families()[1] {
		return errors.New("kube: Options.SecondServiceRange must be of the other family of addresses than Options.ServiceRange")
	}
	if c.NodePorts[0] < 1 || c.NodePorts[1] > 65535 || c.NodePorts[0] > c.NodePorts[1] {
		return fmt.Errorf("kube: Options.NodePorts: %d-%d is not a valid port range", c.NodePorts[0], c.NodePorts[1])
	}
	return nil
}

// without reports whether an admission plugin is disabled.
func (c *cluster) without(plugin string) bool { return slices.Contains(c.Without, plugin) }

// service finds where the service of a webhook is.
func (c *cluster) service(ctx context.Context, namespace, name string, port int32) (string, error) {
	e := c.engine.Load()
	if e == nil {
		return "", errors.New("the server has not started")
	}
	return aggregate.Services(e, "k8s.io", c.EndpointRouting).Resolve(ctx, namespace, name, port)
}

// hooks run when the server starts.
func (c *cluster) hooks() []registry.Hook {
	out := []registry.Hook{{Name: "bootstrap-controller", Start: c.createBootstrap}, c.rangeHook(), c.repairHook()}
	if c.Host != "" {
		out = append(out, newIdentity(c.Host).hooks(c.now)...)
	}
	if c.Authentication != nil {
		out = append(out, authenticationHook(c.Authentication))
	}
	return out
}
