package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/imagepolicy"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/json"
)

// readImagePolicy reads the configuration of ImagePolicyWebhook. It is kept as it is, and read again when the
// server starts: only then there is a log for what goes wrong later.
func (o *options) readImagePolicy(configuration map[string]any) error {
	text, err := json.AppendTree(nil, configuration)
	if err != nil {
		return fmt.Errorf("%s: %w", imagepolicy.Name, err)
	}
	if _, err := imagepolicy.Parse(text, nil); err != nil {
		return fmt.Errorf("%s: %w", imagepolicy.Name, err)
	}
	o.images = text
	return nil
}

// checkImagePolicy rejects the plugin without a configuration.
func (o *options) checkImagePolicy() error {
	if slices.Contains(o.enabled, imagepolicy.Name) && o.images == nil {
		return fmt.Errorf("%s: %w", imagepolicy.Name, errors.New("needs a configuration, with imagePolicy.kubeConfigFile"))
	}
	return nil
}

// imagePolicy returns the plugin ImagePolicyWebhook, if it is enabled.
func (o *options) imagePolicy(log logr.Logger) ([]admission.Plugin, error) {
	if !slices.Contains(o.enabled, imagepolicy.Name) {
		return nil, nil
	}
	given, err := imagepolicy.Parse(o.images, reloadFailed(log, "admission-control-config-file"))
	if err != nil {
		return nil, err
	}
	if given.To, err = given.To.Through(o.tunnels.selector.Dialer(egress.ControlPlane)); err != nil {
		return nil, err
	}
	given.Logger = log
	plugin, err := imagepolicy.Plugin(given)
	return []admission.Plugin{plugin}, err
}
