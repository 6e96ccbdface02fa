package scheduler

import (
	"slices"

	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Profile is how pods with one schedulerName are scheduled.
type Profile struct {
	// SchedulerName is what pods choose the profile by. Default, if there is one profile:
	// default-scheduler.
	SchedulerName *string `json:"schedulerName,omitempty"`

	// PercentageOfNodesToScore counts before that of the configuration.
	PercentageOfNodesToScore *int32 `json:"percentageOfNodesToScore,omitempty"`

	// Plugins are those that are on or off beside what is on by default. What is on by default is the
	// scheduler's business.
	Plugins *Plugins `json:"plugins,omitempty"`

	// PluginConfig has the arguments of plugins.
	PluginConfig []PluginConfig `json:"pluginConfig,omitempty"`
}

// Plugins are the plugins for each point of extension. MultiPoint is about all points that a plugin has.
type Plugins struct {
	PreEnqueue        PluginSet `json:"preEnqueue,omitempty"`
	QueueSort         PluginSet `json:"queueSort,omitempty"`
	PreFilter         PluginSet `json:"preFilter,omitempty"`
	Filter            PluginSet `json:"filter,omitempty"`
	PostFilter        PluginSet `json:"postFilter,omitempty"`
	PreScore          PluginSet `json:"preScore,omitempty"`
	Score             PluginSet `json:"score,omitempty"`
	Reserve           PluginSet `json:"reserve,omitempty"`
	Permit            PluginSet `json:"permit,omitempty"`
	PreBind           PluginSet `json:"preBind,omitempty"`
	Bind              PluginSet `json:"bind,omitempty"`
	PostBind          PluginSet `json:"postBind,omitempty"`
	MultiPoint        PluginSet `json:"multiPoint,omitempty"`
	PlacementGenerate PluginSet `json:"placementGenerate,omitempty"`
	PlacementScore    PluginSet `json:"placementScore,omitempty"`
}

// PluginSet says which plugins are on and off at a point. "*" in Disabled stands for all that are on by
// default.
type PluginSet struct {
	Enabled  []Plugin `json:"enabled,omitempty"`
	Disabled []Plugin `json:"disabled,omitempty"`
}

func (s PluginSet) names() (names []string) {
	for _, p := range s.Enabled {
		names = append(names, p.Name)
	}
	return names
}

// Plugin is a plugin by name. Weight counts where plugins score.
type Plugin struct {
	Name   string `json:"name"`
	Weight *int32 `json:"weight,omitempty"`
}

// PluginConfig has the arguments of one plugin.
type PluginConfig struct {
	Name string `json:"name"`

	// Args is a pointer to one of the types …Args of this package, for the plugin of that name. Those of
	// another plugin are as in the document: map[string]any.
	Args any `json:"args,omitempty"`
}

// arguments are those of a plugin that this package knows.
type arguments interface {
	defaults()
	check(at status.Field)
}

// newArgs returns the arguments of a plugin, or nil if only the plugin knows them.
func newArgs(plugin string) arguments {
	switch plugin {
	case "DefaultPreemption":
		return &DefaultPreemptionArgs{}
	case "InterPodAffinity":
		return &InterPodAffinityArgs{}
	case "NodeAffinity":
		return &NodeAffinityArgs{}
	case "NodeResourcesBalancedAllocation":
		return &NodeResourcesBalancedAllocationArgs{}
	case "NodeResourcesFit":
		return &NodeResourcesFitArgs{}
	case "PodTopologySpread":
		return &PodTopologySpreadArgs{}
	case "VolumeBinding":
		return &VolumeBindingArgs{}
	case "DynamicResources":
		return &DynamicResourcesArgs{}
	default:
		return nil
	}
}

// readArgs makes arguments of the documents in the profiles. Source: SCHED-31.
func (c *Configuration) readArgs() error {
	var f status.Fields
	for i := range c.Profiles {
		for j := range c.Profiles[i].PluginConfig {
			at := f.At("profiles").Index(i).Child("pluginConfig").Index(j).Child("args")
			readArgs(&f, at, &c.Profiles[i].PluginConfig[j])
		}
	}
	return documents.Problems(f.Errors())
}

func readArgs(f *status.Fields, at status.Field, p *PluginConfig) {
	args := newArgs(p.Name)
	if args == nil {
		return
	}
	var is meta.TypeMeta
	if object, ok := p.Args.(map[string]any); ok {
		is.APIVersion, _ = object["apiVersion"].(string)
		is.Kind, _ = object["kind"].(string)
	}
	if is.Kind != "" && is.Kind != p.Name+"Args" {
		at.Child("kind").Invalid(is.Kind, "must be "+p.Name+"Args")
	}
	if is.APIVersion != "" && !kind.Accepts(is.APIVersion) {
		at.Child("apiVersion").Invalid(is.APIVersion, "must be kubescheduler.config.k8s.io/v1")
	}
	documents.Fill(f, at, p.Args, args)
	p.Args = args
}

func (p *Profile) defaults() {
	for i := range p.PluginConfig {
		if p.PluginConfig[i].Args == nil {
			if args := newArgs(p.PluginConfig[i].Name); args != nil {
				p.PluginConfig[i].Args = args
			}
		}
		if args, ok := p.PluginConfig[i].Args.(arguments); ok {
			args.defaults()
		}
	}
}

// Args returns the arguments of a plugin, as PluginConfig has them: the defaults for one of Kubernetes'
// plugins that the profile does not configure, and nil for another.
func (p Profile) Args(plugin string) any {
	for _, c := range p.PluginConfig {
		if c.Name == plugin {
			return c.Args
		}
	}
	args := newArgs(plugin)
	if args == nil {
		return nil
	}
	args.defaults()
	return args
}

// removed reports whether v1 no longer has a plugin.
func removed(plugin string) bool {
	return slices.Contains([]string{"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"}, plugin)
}

const wasRemoved = `was invalid in version "kubescheduler.config.k8s.io/v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")`

func (p Profile) check(at status.Field) {
	if of(p.SchedulerName) == "" {
		at.Child("schedulerName").Required("")
	}
	checkPercentage(at.Child("percentageOfNodesToScore"), p.PercentageOfNodesToScore)
	if p.Plugins != nil {
		p.Plugins.check(at.Child("plugins"))
	}
	seen := map[string]bool{}
	for i, c := range p.PluginConfig {
		one := at.Child("pluginConfig").Index(i)
		if seen[c.Name] {
			one.Duplicate(c.Name)
		}
		seen[c.Name] = true
		if removed(c.Name) {
			one.Invalid(c.Name, wasRemoved)
			continue
		}
		known := newArgs(c.Name) != nil
		switch args, ok := c.Args.(arguments); {
		case ok:
			args.check(one.Child("args"))
		case known:
			one.Child("args").Invalid(c.Args, "has to match plugin args")
		}
	}
}

func (p Plugins) check(at status.Field) {
	for _, point := range []struct {
		name string
		set  PluginSet
	}{
		{"preEnqueue", p.PreEnqueue},
		{"queueSort", p.QueueSort},
		{"preFilter", p.PreFilter},
		{"filter", p.Filter},
		{"postFilter", p.PostFilter},
		{"preScore", p.PreScore},
		{"score", p.Score},
		{"reserve", p.Reserve},
		{"permit", p.Permit},
		{"preBind", p.PreBind},
		{"bind", p.Bind},
		{"postBind", p.PostBind},
	} {
		for i, plugin := range point.set.Enabled {
			if removed(plugin.Name) {
				at.Child(point.name).Child("enabled").Index(i).Invalid(plugin.Name, wasRemoved)
			}
		}
	}
}
