package crd

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/internal/webhook"
	"github.com/kindwright/kindwright/registry"
)

// Option changes what [Kinds] serves.
type Option func(*definitions)

// ServiceResolver returns the address of a service, as "host:port". It is asked for each new
// connection to a conversion webhook.
type ServiceResolver func(ctx context.Context, namespace, name string, port int32) (address string, err error)

// Services says where the services of conversion webhooks are. Without it they are found by DNS, under
// names such as "converter.shop.svc".
func Services(resolve ServiceResolver) Option {
	return func(d *definitions) { d.resolve = webhook.Resolver(resolve) }
}

// Convert converts the objects of a definition with a function, whatever strategy the definition has.
// So a program can bring the conversions of kinds that are defined in YAML.
func Convert(definition string, convert registry.Converter) Option {
	return func(d *definitions) {
		if d.converters == nil {
			d.converters = map[string]registry.Converter{}
		}
		d.converters[definition] = convert
	}
}

// CollectMetrics registers the metrics of conversion webhooks.
func (d *definitions) CollectMetrics(r *metrics.Registry) { d.conversions.CollectMetrics(r) }

// conversions makes the conversions of definitions. Definitions that name the same webhook share its
// connections: operators bring hundreds of them. One goroutine at a time uses it.
type conversions struct {
	group   string
	resolve webhook.Resolver
	egress  *egress.Selector
	metrics *apiserver.Conversions
	inGo    map[string]registry.Converter // by the name of the definition
	clients map[string]*sharedClient      // by configuration
	used    map[string]*sharedClient      // by the name of a definition
}

// sharedClient is a webhook of several definitions.
type sharedClient struct {
	*webhook.Client
	key   string
	users int
}

func newConversions(group string, d *definitions, through *egress.Selector) *conversions {
	return &conversions{
		group: group, resolve: d.resolve, egress: through, metrics: &d.conversions, inGo: d.converters,
		clients: map[string]*sharedClient{}, used: map[string]*sharedClient{},
	}
}

// of returns the conversion of a definition, nil for that of the strategy None. The webhook that the definition named before is released
// by keep.
func (c *conversions) of(d *definition) (registry.Converter, *sharedClient, error) {
	if convert := c.inGo[d.Name]; convert != nil {
		return convert, nil, nil
	}
	conversion := d.Spec.Conversion
	if conversion == nil || conversion.Strategy != "Webhook" {
		return nil, nil, nil
	}
	config, versions := conversion.parts()
	if config == nil {
		return nil, nil, fmt.Errorf("spec.conversion.webhook.clientConfig: required with the strategy Webhook")
	}
	client, err := c.client(config)
	if err != nil {
		return nil, nil, fmt.Errorf("spec.conversion.webhook.clientConfig: %w", err)
	}
	return client.Converter(webhook.Conversion{Definition: d.Name, Group: c.group, Versions: versions, Metrics: c.metrics}), client, nil
}

// client returns the client of a webhook, which several definitions may name.
func (c *conversions) client(config *WebhookClientConfig) (*sharedClient, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	key := string(text)
	if have := c.clients[key]; have != nil {
		return have, nil
	}
	to := webhook.ConfigOf(config.URL, (*webhook.ServiceReference)(config.Service), config.CABundle)
	to.Egress = c.egress
	client, err := webhook.New(to, c.resolve)
	if err != nil {
		return nil, err
	}
	return &sharedClient{Client: client, key: key}, nil
}

// keep notes which webhook a definition uses from now on, nil for none. Connections that no
// definition needs any more are closed.
func (c *conversions) keep(name string, client *sharedClient) {
	before := c.used[name]
	if before == client {
		return
	}
	if delete(c.used, name); client != nil {
		client.users++
		c.used[name], c.clients[client.key] = client, client
	}
	if before == nil {
		return
	}
	if before.users--; before.users == 0 {
		delete(c.clients, before.key)
		before.Close()
	}
}

// close closes the connections to webhooks.
func (c *conversions) close() {
	for _, client := range c.clients {
		client.Close()
	}
}

// relabelled converts objects as the strategy None does: only the apiVersion changes.
func relabelled(_ context.Context, to string, objects []registry.Tree) ([]registry.Tree, error) {
	out := make([]registry.Tree, len(objects))
	for i, object := range objects {
		out[i] = maps.Clone(object)
		out[i]["apiVersion"] = to
	}
	return out, nil
}

// badBundle tells whether a definition names a webhook whose certificates cannot be read. Such a
// definition is accepted, and never established.
//
// Source: CRD-19.
func (d *definition) badBundle() bool {
	if d.Spec.Conversion == nil {
		return false
	}
	client, _ := d.Spec.Conversion.parts()
	return client != nil && len(bytes.TrimSpace(client.CABundle)) > 0 && bundleProblem(client.CABundle) != nil
}
