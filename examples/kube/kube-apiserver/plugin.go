package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/noderestriction"
	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/examples/kube"
)

// pluginNames lists the admission plugins of kube-apiserver 1.36, including those of this server.
const pluginNames = `AlwaysAdmit AlwaysDeny AlwaysPullImages CertificateApproval CertificateSigning CertificateSubjectRestriction ClusterTrustBundleAttest
	DefaultIngressClass DefaultStorageClass DefaultTolerationSeconds DenyServiceExternalIPs EventRateLimit ExtendedResourceToleration
	ImagePolicyWebhook JobValidation LimitPodHardAntiAffinityTopology LimitRanger MutatingAdmissionPolicy MutatingAdmissionWebhook
	NamespaceAutoProvision NamespaceExists NamespaceLifecycle NodeDeclaredFeatureValidator NodeRestriction OwnerReferencesPermissionEnforcement
	PersistentVolumeClaimResize PodGroupProtection PodGroupWorkloadExists PodNodeSelector PodResizeValidator PodSecurity PodTolerationRestriction
	PodTopologyLabels Priority ResourceQuota RuntimeClass ServiceAccount StorageObjectInUseProtection TaintNodesByCondition
	ValidatingAdmissionPolicy ValidatingAdmissionWebhook`

// checkPlugins rejects unknown names, and plugins that are both enabled and disabled.
func (o *options) checkPlugins() (problems []error) {
	known := strings.Fields(pluginNames)
	for _, l := range []struct {
		flag  string
		names []string
	}{{"enable", o.enabled}, {"disable", o.disabled}} {
		for _, name := range l.names {
			if !slices.Contains(known, name) {
				problems = append(problems, fmt.Errorf("--%s-admission-plugins: unknown plugin %q", l.flag, name))
			}
		}
	}
	for _, name := range o.enabled {
		if slices.Contains(o.disabled, name) {
			problems = append(problems, fmt.Errorf("--enable-admission-plugins and --disable-admission-plugins contradict each other: both name %s", name))
		}
	}
	if slices.Contains(o.enabled, "AlwaysDeny") {
		problems = append(problems, errors.New("--enable-admission-plugins: AlwaysDeny is not supported: it would deny the server's own writes"))
	}
	return problems
}

// plugins returns the admission plugins: those that are on unless they are disabled, and those that
// are off unless they are enabled. The kinds do the work of the others.
func (o *options) plugins() (all []admission.Plugin) {
	if slices.Contains(o.enabled, noderestriction.Name) {
		var loose []noderestriction.Option
		if !o.features[gateNodeAudiences].on {
			loose = append(loose, noderestriction.AnyAudience())
		}
		all = append(all, noderestriction.Plugin("", loose...))
	}
	all = append(all, o.kept(kube.DefaultPlugins())...)
	return append(all, slices.DeleteFunc(kube.OptionalPlugins(o.configured), func(p admission.Plugin) bool {
		return !slices.Contains(o.enabled, p.Name)
	})...)
}

// without are the plugins that a flag or a gate switches off.
func (o *options) without() []string {
	out := slices.Clone(o.disabled)
	for plugin, gate := range map[string]string{
		kube.NodeFeaturesName: gateNodeFeatures, kube.TopologyLabelsName: gateTopologyLabels, policy.MutatingName: gateMutatingPolicies,
	} {
		if !o.features[gate].on {
			out = append(out, plugin)
		}
	}
	return out
}

// kept returns the plugins that are not switched off.
func (o *options) kept(plugins []admission.Plugin) []admission.Plugin {
	without := o.without()
	return slices.DeleteFunc(plugins, func(p admission.Plugin) bool { return slices.Contains(without, p.Name) })
}
