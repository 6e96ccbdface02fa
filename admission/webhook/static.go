package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/manifest"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/status"
)

// Manifests are configurations that a program has, in place of the API: as Go values, or from files.
type Manifests struct {
	Mutating   []*MutatingWebhookConfiguration
	Validating []*ValidatingWebhookConfiguration
}

// Add adds the objects of one file in YAML or JSON. A document is an object or a v1 List of objects.
// Unknown fields and other kinds are errors. The name is for the error.
func (m *Manifests) Add(name string, data []byte) error {
	if err := manifest.Each(data, m.add); err != nil {
		return fmt.Errorf("admission webhooks: %s, %w", name, err)
	}
	return nil
}

func (m *Manifests) add(object map[string]any) error {
	group, version, _ := strings.Cut(tree.Text(object, "apiVersion"), "/")
	if !strings.HasPrefix(group, "admissionregistration.") || version != "v1" {
		return fmt.Errorf("apiVersion %q: must be admissionregistration.k8s.io/v1", tree.Text(object, "apiVersion"))
	}
	switch kind := tree.Text(object, "kind"); kind {
	case "MutatingWebhookConfiguration":
		return manifest.Append(&m.Mutating, object)
	case "ValidatingWebhookConfiguration":
		return manifest.Append(&m.Validating, object)
	default:
		return fmt.Errorf("kind %q: must be MutatingWebhookConfiguration or ValidatingWebhookConfiguration", kind)
	}
}

// Statics are webhooks that a program configures outside of the API, such as those of files. They are
// asked before those that clients configure, also about writes of policies and of configurations of
// webhooks. Nobody can change them through the API. The zero value has no webhooks. It belongs to the
// [Options] of one server.
//
// A webhook of a manifest has a URL. Services are objects of the API, which may not be there yet.
type Statics struct {
	mutating   statics[MutatingWebhookConfiguration]
	validating statics[ValidatingWebhookConfiguration]
}

// ReplaceMutating puts configurations in force in place of those before. A write that runs meanwhile sees
// the ones or the others. If anything is wrong with them, nothing changes, and the error names all of it.
// rules says what expressions may use.
func (s *Statics) ReplaceMutating(all []*MutatingWebhookConfiguration, rules cel.RuleOptions) error {
	var c manifestCheck
	for _, one := range all {
		one.Default()
		var f status.Fields
		for i := range one.Webhooks {
			one.Webhooks[i].ClientConfig.checkStatic(f.At("webhooks").Index(i).Child("clientConfig"))
		}
		one.Validate(nil, rules, &f)
		c.object("MutatingWebhookConfiguration", one.Name, &f)
	}
	return s.mutating.replace(all, errors.Join(c.problems...))
}

// ReplaceValidating does the same for validating webhooks.
func (s *Statics) ReplaceValidating(all []*ValidatingWebhookConfiguration, rules cel.RuleOptions) error {
	var c manifestCheck
	for _, one := range all {
		one.Default()
		var f status.Fields
		for i := range one.Webhooks {
			one.Webhooks[i].ClientConfig.checkStatic(f.At("webhooks").Index(i).Child("clientConfig"))
		}
		one.Validate(nil, rules, &f)
		c.object("ValidatingWebhookConfiguration", one.Name, &f)
	}
	return s.validating.replace(all, errors.Join(c.problems...))
}

// attachMutating gives the index of a plugin the one of static webhooks. s may be nil.
func (s *Statics) attachMutating(x *index) {
	if s != nil {
		x.static = newIndex(x.o, x.users)
		s.mutating.attach(func(all []*MutatingWebhookConfiguration) {
			replaceIn(x.static, all, func(c *MutatingWebhookConfiguration) string { x.static.putMutating(c); return c.Name })
		})
	}
}

// attachValidating does the same for validating webhooks.
func (s *Statics) attachValidating(x *index) {
	if s != nil {
		x.static = newIndex(x.o, x.users)
		s.validating.attach(func(all []*ValidatingWebhookConfiguration) {
			replaceIn(x.static, all, func(c *ValidatingWebhookConfiguration) string { x.static.putValidating(c); return c.Name })
		})
	}
}

// statics are the static configurations of one kind.
type statics[T any] struct {
	mu   sync.Mutex
	now  []*T
	told []func([]*T) // the indexes of plugins
}

// replace publishes configurations, unless something is wrong with them.
func (s *statics[T]) replace(all []*T, wrong error) error {
	if wrong != nil {
		return wrong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = all
	for _, tell := range s.told {
		tell(all)
	}
	return nil
}

// attach tells the configurations of this moment, and later ones.
func (s *statics[T]) attach(tell func([]*T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, tell)
	tell(s.now)
}

// replaceIn replaces all configurations of an index. Those that stay the same keep their connections.
func replaceIn[T any](x *index, all []*T, put func(*T) (name string)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []string
	for _, c := range all {
		names = append(names, put(c))
	}
	for _, name := range x.known() {
		if !slices.Contains(names, name) {
			x.drop(name)
		}
	}
	x.publish()
}

// manifestCheck collects what is wrong with manifests.
type manifestCheck struct {
	known    []string // names
	problems []error
}

func (c *manifestCheck) object(kind, name string, f *status.Fields) {
	if name == "" || slices.Contains(c.known, name) {
		f.At("metadata", "name").Invalid(name, "must be given, once")
	}
	c.known = append(c.known, name)
	for _, e := range f.Errors() {
		c.problems = append(c.problems, fmt.Errorf("admission webhooks: %s %q: %s: %s", kind, name, e.Field, e.Detail))
	}
}

// checkStatic rejects what a webhook of a manifest cannot have.
func (c *ClientConfig) checkStatic(at status.Field) {
	switch {
	case c.Service != nil:
		at.Child("service").Forbidden("a webhook of a manifest has a url")
	case c.URL == nil || *c.URL == "":
		at.Child("url").Required("a webhook of a manifest has one")
	}
}
