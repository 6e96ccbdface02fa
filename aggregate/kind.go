package aggregate

import (
	"context"
	"errors"
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// Define serves the kind APIService and follows its objects. Option kindwright.Aggregate calls it.
func (a *Aggregator) Define(env registry.Env) (registry.Bundle, error) {
	if err := a.join(env); err != nil {
		return registry.Bundle{}, err
	}
	all, err := registry.Kind[APIService]{
		Group: a.group(), Version: "v1", Plural: "apiservices", Scope: registry.ClusterScoped,
		Names:  registry.Names{Categories: []string{"api-extensions"}},
		Doc:    "An APIService says which server answers for a group version. Its name must be \"version.group\".",
		Writes: registry.WriteRules{RequireVersion: true, NoGeneration: true},
		Table:  registry.Table{Columns: columns()},
		Rules: registry.Rules[APIService]{
			Name: meta.CheckPathSegment, Default: fill, Complete: complete, Validate: validate, ValidateUpdate: validateChange,
		},
	}.Define(env)
	if err != nil {
		return all, err
	}
	hooks := func() (admission.NamespaceGate, []registry.Hook) {
		return nil, []registry.Hook{{Name: "apiservice-autoregistration", Start: a.start, Run: a.run}}
	}
	_, all.Hooks = hooks()
	return all, nil
}

var errTwoServers = errors.New("aggregate: another server has this Aggregator: make one with aggregate.New for each server")

// join sets what the server says, unless one runs already.
func (a *Aggregator) join(env registry.Env) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.engine != nil {
		return errTwoServers
	}
	a.domain, a.egress = env.GroupDomain, env.Egress
	return nil
}

// group is the group of the kind.
func (a *Aggregator) group() string { return "apiregistration." + a.domain }

// fill sets the port of a service.
func fill(_ context.Context, s *APIService) {
	if s.Spec.Service != nil && s.Spec.Service.Port == nil {
		port := int32(defaultPort)
		s.Spec.Service.Port = &port
	}
}

// complete marks a new object without a service as available.
func complete(_ context.Context, s, old *APIService) error {
	if old == nil && s.Spec.Service == nil && s.condition(Available) == nil {
		s.setCondition(time.Now(), local())
	}
	return nil
}

// columns are what kubectl get shows.
func columns() []openapi.Column {
	return []openapi.Column{
		{Name: "Name", Type: "string", Format: "name", Description: "The version and the group.", Path: []string{"metadata", "name"}},
		{
			Name: "Service", Type: "string", Description: "The reference to the service that hosts this API endpoint.",
			Paths: [][]string{{"spec", "service"}}, Cell: serviceCell, Lasting: true,
		},
		{
			Name: "Available", Type: "string", Description: "Whether this service is available.",
			Paths: [][]string{{"status", "conditions"}}, Cell: availableCell, Lasting: true,
		},
		{Name: "Age", Type: "date", Description: "How long the object has existed.", Path: []string{"metadata", "creationTimestamp"}},
	}
}

func serviceCell(_ time.Time, values []any) any {
	service, ok := values[0].(map[string]any)
	if !ok {
		return "Local"
	}
	namespace, _ := service["namespace"].(string)
	name, _ := service["name"].(string)
	return namespace + "/" + name
}

func availableCell(_ time.Time, values []any) any {
	list, _ := values[0].([]any)
	for _, one := range list {
		c, _ := one.(map[string]any)
		if c["type"] != Available {
			continue
		}
		text, _ := c["status"].(string)
		if reason, _ := c["reason"].(string); text != "True" && reason != "" {
			text += " (" + reason + ")"
		}
		return text
	}
	return "Unknown"
}
