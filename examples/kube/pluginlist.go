package kube

import (
	"errors"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// errNoServer is why a plugin cannot look at other objects, in a request made by hand.
var errNoServer = errors.New("there is no server to ask")

// refused is the answer of a plugin that rejects a write, with the name that Kubernetes shows for an object
// whose name is yet to be generated.
func refused(r *admission.Request, why string) *status.Error {
	return status.Forbidden(r.GroupResource(), r.NameInErrors(), why)
}

// DefaultPlugins returns the plugins that kube-apiserver asks unless they are disabled, and whose work the
// kinds do not do: [LimitRangerPlugin], [ServiceAccountPlugin], [RuntimeClassPlugin], [SigningPlugins],
// PodTopologyLabels, PersistentVolumeClaimResize, PodResizeValidator and NodeDeclaredFeatureValidator. Give them to a server with
// kindwright.Admit, in this order. [LastPlugins] has others.
func DefaultPlugins() []admission.Plugin {
	return append([]admission.Plugin{
		LimitRangerPlugin(), ServiceAccountPlugin(), RuntimeClassPlugin(), topologyLabels(), claimResize(), podResizes(), nodeFeatures(),
	}, SigningPlugins()...)
}

// PluginConfiguration is what [OptionalPlugins] are told. The zero value tells them nothing.
type PluginConfiguration struct {
	NodeSelectors map[string]string // of PodNodeSelector
	Tolerations   Tolerations       // of PodTolerationRestriction
	EventLimits   []EventLimit      // of EventRateLimit
}

// OptionalPlugins returns plugins that kube-apiserver asks only if they are enabled:
// AlwaysPullImages, DenyServiceExternalIPs, EventRateLimit, ExtendedResourceToleration,
// LimitPodHardAntiAffinityTopology, NamespaceExists, PodNodeSelector and PodTolerationRestriction.
func OptionalPlugins(c PluginConfiguration) []admission.Plugin {
	return []admission.Plugin{
		namespaceExists(), antiAffinity(), PodNodeSelectorPlugin(c.NodeSelectors), alwaysPull(), PodTolerationRestrictionPlugin(c.Tolerations),
		tolerateDevices(), EventRateLimitPlugin(c.EventLimits...), externalIPs(),
	}
}

// LastPlugins returns the plugins that kube-apiserver asks after all others, unless they are disabled:
// [ResourceQuotaPlugin].
func LastPlugins(limited ...LimitedResource) []admission.Plugin {
	return []admission.Plugin{ResourceQuotaPlugin(limited...)}
}

// PluginsOf makes a definition of plugins. A server asks the plugins of its definitions in their order, after
// those of kindwright.Admit.
func PluginsOf(plugins ...admission.Plugin) registry.Definition { return pluginsAlone(plugins) }

type pluginsAlone []admission.Plugin

// Define implements registry.Definition.
func (p pluginsAlone) Define(registry.Env) (registry.Bundle, error) {
	return registry.Bundle{Plugins: p}, nil
}
