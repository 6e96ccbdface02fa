package encrypt

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/storage"
)

// Rule says how the objects of some resources are stored.
type Rule struct {
	// Resources are written as in Kubernetes: "secrets" in the core group, "widgets.example.dev",
	// "*." for the core group, "*.example.dev" for a group and "*.*" for all. What is written out
	// counts before a group, and a group before all. A resource that an earlier rule has by a wildcard is
	// an error. If two rules name a resource, the providers of the later one come after those of the
	// earlier.
	Resources []string

	// Providers are those that can read the objects. The first one writes them.
	Providers []Provider
}

// ring finds the providers of a key.
type ring struct {
	exact  map[string]*chain // by storage name, as it is escaped in keys
	groups map[string]*chain // by group
	all    *chain
	kms    []*Plugin // of all rules, without repetition
}

// chain is the providers of a resource.
type chain struct {
	writer *form
	forms  []form // writer is the first one
}

// form is one form of values: what they begin with, and who makes and reads the rest.
type form struct {
	prefix string // empty for values that are not encrypted
	cipher cipherer
}

func compile(rules []Rule) (*ring, error) {
	r := &ring{exact: map[string]*chain{}, groups: map[string]*chain{}}
	for i, rule := range rules {
		if len(rule.Resources) == 0 {
			return nil, fmt.Errorf("rule %d names no resources, so it encrypts nothing", i)
		}
		if len(rule.Providers) == 0 {
			return nil, fmt.Errorf("rule %d has no providers", i)
		}
		var forms []form
		for _, p := range rule.Providers {
			if p.err != nil {
				return nil, p.err
			}
			if len(p.forms) == 0 {
				return nil, fmt.Errorf("rule %d has a provider without keys", i)
			}
			forms = append(forms, p.forms...)
			r.addPlugin(p.plugin)
		}
		for _, resource := range rule.Resources {
			if err := r.add(resource, forms); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

func (r *ring) addPlugin(p *Plugin) {
	for _, known := range r.kms {
		if known == p {
			return
		}
	}
	if p != nil {
		r.kms = append(r.kms, p)
	}
}

// add gives a resource providers, after those that it has.
func (r *ring) add(resource string, forms []form) error {
	name, group, dotted := strings.Cut(resource, ".")
	switch {
	case name == "" || name == "*" && !dotted || group == "*" && name != "*":
		return fmt.Errorf("%q is not a resource such as secrets, widgets.example.dev, *., *.example.dev or *.*", resource)
	case r.all != nil:
		return fmt.Errorf("resource %q is masked by earlier rule %q", resource, "*.*")
	case r.groups[group] != nil:
		return fmt.Errorf("resource %q is masked by earlier rule %q", resource, "*."+group)
	case resource == "*.*":
		r.all = (*chain)(nil).with(forms)
	case name == "*":
		r.groups[group] = (*chain)(nil).with(forms)
	default:
		key := name
		if group != "" {
			key = group + "/" + name
		}
		key = storageNameOf(storage.ResourcePrefix(key))
		r.exact[key] = r.exact[key].with(forms)
	}
	return nil
}

// with returns a chain that has more forms. c may be nil.
func (c *chain) with(forms []form) *chain {
	out := &chain{}
	if c != nil {
		out.forms = append(out.forms, c.forms...)
	}
	out.forms = append(out.forms, forms...)
	out.writer = &out.forms[0]
	return out
}

// of returns the providers of a storage name, nil if there is no rule for it.
func (r *ring) of(storageName string) *chain {
	if c := r.exact[storageName]; c != nil {
		return c
	}
	if len(r.groups) > 0 {
		group, _, grouped := strings.Cut(storageName, "%2F")
		if !grouped {
			group = ""
		}
		if c := r.groups[group]; c != nil {
			return c
		}
	}
	return r.all
}

// storageNameOf returns the storage name of an object key, as it is escaped there, and "" for other
// keys, which are never encrypted.
func storageNameOf(key string) string {
	prefix := strings.TrimSuffix(storage.ResourcePrefixOf(key), "/")
	return prefix[strings.LastIndexByte(prefix, '/')+1:]
}

// mark is what every encrypted value begins with.
const mark = "k8s:enc:"

var (
	errNoRule   = errors.New("the value is encrypted, and no rule names its resource: add the rule that it was written under")
	errReserved = errors.New("a value that begins with \"k8s:enc:\" cannot be stored without encryption")
)
