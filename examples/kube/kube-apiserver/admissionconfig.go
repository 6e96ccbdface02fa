package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/pod-security-admission/admission/api/load"

	"github.com/kindwright/kindwright/admission/imagepolicy"
	policies "github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/examples/kube"
	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/status"
)

// podSecurity is the name of the plugin.
const podSecurity = "PodSecurity"

// checkAdmissionConfig reads --admission-control-config-file: the directories with the manifests of
// policies, what PodSecurity asks for, what ResourceQuota limits, as whom webhooks are asked,
// and what PodNodeSelector, PodTolerationRestriction, EventRateLimit and ImagePolicyWebhook are told. The
// configurations of other plugins have no effect.
func (o *options) checkAdmissionConfig() (problems []error) {
	defer func() {
		if slices.Contains(o.enabled, kube.EventRateLimitName) && len(problems) == 0 { // which needs limits
			if err := kube.CheckEventLimits(o.configured.EventLimits); err != nil {
				problems = append(problems, fmt.Errorf("--admission-control-config-file: %s: %w", kube.EventRateLimitName, err))
			}
		}
		if err := o.checkImagePolicy(); err != nil && len(problems) == 0 {
			problems = append(problems, fmt.Errorf("--admission-control-config-file: %w", err))
		}
	}()
	if o.admissionConfig == "" {
		return nil
	}
	problem := func(err error) []error { return []error{fmt.Errorf("--admission-control-config-file: %w", err)} }
	plugins, err := readPlugins(o.admissionConfig)
	if err != nil {
		return problem(err)
	}
	for i, p := range plugins {
		if err := o.checkPluginConfiguration(p); err != nil {
			problems = append(problems, problem(fmt.Errorf("plugins[%d]: %w", i, err))...)
		}
	}
	return problems
}

// admissionKind is the document with the configurations of plugins.
var admissionKind = []documents.Kind{
	{Name: "AdmissionConfiguration", Group: "apiserver.config.k8s.io", AnyDomain: "apiserver.config", Versions: []string{"v1"}},
	{Name: "AdmissionConfiguration", Group: "apiserver.k8s.io", Versions: []string{"v1alpha1"}},
}

// plugin is what an AdmissionConfiguration says of one plugin.
type plugin struct {
	Name          string         `json:"name"`
	Path          string         `json:"path"`
	Configuration map[string]any `json:"configuration"`
}

// readPlugins reads an AdmissionConfiguration. It is read strictly: a plugin whose configuration is
// overlooked is one that guards nothing.
// Source: CFG-02, CFG-04.
func readPlugins(file string) ([]plugin, error) {
	data, err := files.Read(file)
	if err != nil {
		return nil, err
	}
	var given struct {
		Plugins []plugin `json:"plugins"`
	}
	d, err := documents.Read(data, admissionKind...)
	if err == nil {
		err = d.Decode(&given)
	}
	if err == nil {
		err = checkNames(given.Plugins)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return given.Plugins, nil
}

// checkNames rejects configurations that are those of no plugin, and two of one plugin: of these one would be
// overlooked.
func checkNames(plugins []plugin) error {
	f, seen := &status.Fields{}, map[string]bool{}
	for i, p := range plugins {
		switch at := f.At("plugins").Index(i).Child("name"); {
		case p.Name == "":
			at.Required("")
		case seen[p.Name]:
			at.Duplicate(p.Name)
		}
		seen[p.Name] = true
	}
	return documents.Problems(f.Errors())
}

func (o *options) checkPluginConfiguration(given plugin) error {
	name := given.Name
	switch name {
	case policies.Name, policies.MutatingName, podSecurity, webhook.MutatingName, webhook.ValidatingName, kube.ResourceQuotaName:
	case kube.PodNodeSelectorName, kube.PodTolerationRestrictionName, kube.EventRateLimitName, imagepolicy.Name:
		if !slices.Contains(o.enabled, name) {
			return nil
		}
	default:
		o.withoutEffectOf = append(o.withoutEffectOf, "--admission-control-config-file: the configuration of "+name+" is accepted and has no effect")
		return nil
	}
	configuration := given.Configuration
	if file := given.Path; file != "" && configuration == nil {
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(o.admissionConfig), file)
		}
		var err error
		if configuration, err = readConfiguration(file); err != nil {
			return err
		}
	}
	switch {
	case configuration == nil:
		return nil
	case name == podSecurity:
		return o.readPodSecurity(configuration)
	case name == webhook.MutatingName || name == webhook.ValidatingName:
		return o.readWebhookUsers(name, configuration)
	case name == kube.ResourceQuotaName:
		return o.readLimited(configuration)
	case name == kube.PodNodeSelectorName:
		return o.readNodeSelectors(configuration)
	case name == kube.PodTolerationRestrictionName:
		return o.readTolerations(configuration)
	case name == kube.EventRateLimitName:
		return o.readEventLimits(configuration)
	case name == imagepolicy.Name:
		return o.readImagePolicy(configuration)
	}
	return o.readPolicyManifests(name, configuration)
}

// readPodSecurity reads the configuration of PodSecurity. The plugin checks what it says.
func (o *options) readPodSecurity(configuration map[string]any) error {
	text, err := json.AppendTree(nil, configuration)
	if err != nil {
		return fmt.Errorf("%s: %w", podSecurity, err)
	}
	given, err := load.LoadFromData(text)
	if err != nil {
		return fmt.Errorf("%s: %w", podSecurity, err)
	}
	o.podSecurity = given
	return nil
}

// readLimited reads the configuration of ResourceQuota.
func (o *options) readLimited(configuration map[string]any) error {
	switch version, kind := tree.Text(configuration, "apiVersion"), tree.Text(configuration, "kind"); {
	case version == "apiserver.config.k8s.io/v1" && kind == "ResourceQuotaConfiguration":
	case (version == "resourcequota.admission.k8s.io/v1alpha1" || version == "resourcequota.admission.k8s.io/v1beta1") && kind == "Configuration":
	default:
		return fmt.Errorf("%s: must be a ResourceQuotaConfiguration of apiserver.config.k8s.io/v1", kube.ResourceQuotaName)
	}
	var given struct {
		APIVersion       string                 `json:"apiVersion"`
		Kind             string                 `json:"kind"`
		LimitedResources []kube.LimitedResource `json:"limitedResources"`
	}
	if err := readInto(kube.ResourceQuotaName, configuration, &given); err != nil {
		return err
	}
	for i, l := range given.LimitedResources {
		if l.Resource == "" {
			return fmt.Errorf("%s: limitedResources[%d].resource: must not be empty", kube.ResourceQuotaName, i)
		}
	}
	o.limited = given.LimitedResources
	return nil
}

// readInto reads the configuration of a plugin as strictly as other documents: it has no fields but those of
// a struct, in their own case, and of their types.
func readInto(plugin string, configuration map[string]any, into any) error {
	f := &status.Fields{}
	documents.Fill(f, f.At(), configuration, into)
	if err := documents.Problems(f.Errors()); err != nil {
		return fmt.Errorf("%s: %w", plugin, err)
	}
	return nil
}

// isConfiguration rejects a document that is not the one of a plugin.
func isConfiguration(plugin, version string, configuration map[string]any) error {
	if tree.Text(configuration, "apiVersion") != version || tree.Text(configuration, "kind") != "Configuration" {
		return fmt.Errorf("%s: must be a Configuration of %s", plugin, version)
	}
	return nil
}

// readNodeSelectors reads the configuration of PodNodeSelector, which has no version.
func (o *options) readNodeSelectors(configuration map[string]any) error {
	var given struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if err := readInto(kube.PodNodeSelectorName, configuration, &given); err != nil {
		return err
	}
	o.configured.NodeSelectors = given.Selectors
	return nil
}

// readTolerations reads the configuration of PodTolerationRestriction.
func (o *options) readTolerations(configuration map[string]any) error {
	if err := isConfiguration(kube.PodTolerationRestrictionName, "podtolerationrestriction.admission.k8s.io/v1alpha1", configuration); err != nil {
		return err
	}
	var given struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		kube.Tolerations
	}
	if err := readInto(kube.PodTolerationRestrictionName, configuration, &given); err != nil {
		return err
	}
	o.configured.Tolerations = given.Tolerations
	if err := given.Check(); err != nil {
		return fmt.Errorf("%s: %w", kube.PodTolerationRestrictionName, err)
	}
	return nil
}

// readEventLimits reads the configuration of EventRateLimit.
func (o *options) readEventLimits(configuration map[string]any) error {
	if err := isConfiguration(kube.EventRateLimitName, "eventratelimit.admission.k8s.io/v1alpha1", configuration); err != nil {
		return err
	}
	var given struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Limits     []kube.EventLimit `json:"limits"`
	}
	if err := readInto(kube.EventRateLimitName, configuration, &given); err != nil {
		return err
	}
	o.configured.EventLimits = given.Limits
	return nil
}

// readWebhookUsers reads the configuration of a plugin that asks webhooks: a file with the users as whom the
// server asks them.
// Source: WHK-02.
func (o *options) readWebhookUsers(name string, configuration map[string]any) error {
	switch version, kind := tree.Text(configuration, "apiVersion"), tree.Text(configuration, "kind"); {
	case version == "apiserver.config.k8s.io/v1" && kind == "WebhookAdmissionConfiguration":
	case version == "apiserver.config.k8s.io/v1alpha1" && kind == "WebhookAdmission":
	default:
		return fmt.Errorf("%s: must be a WebhookAdmissionConfiguration of apiserver.config.k8s.io/v1", name)
	}
	var given struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		File       string `json:"kubeConfigFile"`
		Manifests  string `json:"staticManifestsDir"`
	}
	if err := readInto(name, configuration, &given); err != nil {
		return err
	}
	if err := o.readManifestsDir(name, given.Manifests); err != nil {
		return err
	}
	file := given.File
	if file == "" {
		return nil
	}
	if !filepath.IsAbs(file) {
		return fmt.Errorf("%s: kubeConfigFile %q: must be an absolute path", name, file)
	}
	users, err := webhook.ReadCredentials(file)
	if err != nil {
		return fmt.Errorf("%s: kubeConfigFile: %w", name, err)
	}
	if o.webhookUsers == nil {
		o.webhookUsers = map[string]*webhook.Credentials{}
	}
	o.webhookUsers[name] = users
	return nil
}

// readPolicyManifests reads the configuration of a plugin of policies.
func (o *options) readPolicyManifests(name string, configuration map[string]any) error {
	var given struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Manifests  string `json:"staticManifestsDir"`
	}
	if err := readInto(name, configuration, &given); err != nil {
		return err
	}
	if given.Kind != name+"Configuration" || given.APIVersion != "apiserver.config.k8s.io/v1" {
		return fmt.Errorf("%s: must be a %sConfiguration of apiserver.config.k8s.io/v1", name, name)
	}
	return o.readManifestsDir(name, given.Manifests)
}

// readManifestsDir notes the directory with the manifests of a plugin; "" is none.
func (o *options) readManifestsDir(name, dir string) error {
	switch info, err := os.Stat(dir); {
	case dir == "" || slices.Contains(o.without(), name):
		return nil
	case !o.features[gateStaticNames].on:
		return fmt.Errorf("%s: staticManifestsDir needs the feature gate %s", name, gateStaticNames)
	case !filepath.IsAbs(dir):
		return fmt.Errorf("%s: staticManifestsDir %q: must be an absolute path", name, dir)
	case err != nil:
		return fmt.Errorf("%s: staticManifestsDir: %w", name, err)
	case !info.IsDir():
		return fmt.Errorf("%s: staticManifestsDir %q: must be a directory", name, dir)
	}
	folder := &manifestFolder{plugin: name, dir: dir}
	if name == webhook.MutatingName || name == webhook.ValidatingName {
		if o.staticWebhooks == nil {
			o.staticWebhooks = &webhook.Statics{}
		}
		folder.webhooks = o.staticWebhooks
	}
	o.manifests = append(o.manifests, folder)
	return nil
}

func readConfiguration(file string) (map[string]any, error) {
	data, err := files.Read(file)
	if err != nil {
		return nil, err
	}
	if data, err = yaml.ToJSON(data, 1<<20); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	twice := ""
	t, err := json.DecodeTree(data, json.TreeOptions{Duplicates: func(path string) { twice = path }})
	if err == nil && twice != "" {
		err = fmt.Errorf("%s: duplicate field", twice)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	object, ok := t.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: must be an object", file)
	}
	return object, nil
}
