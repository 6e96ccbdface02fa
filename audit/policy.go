package audit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/nearly"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Policy says what is recorded. It is the document Policy of the API group audit.k8s.io.
// Source: AUD-31.
type Policy struct {
	// APIVersion is audit.k8s.io/v1, with the group domain of the server instead of k8s.io. Empty
	// stands for the server's.
	APIVersion string

	// Rules are asked in order. The first one that matches a request decides. A request that none
	// matches is not recorded. There must be at least one.
	Rules []Rule

	// OmitStages are the stages that are not recorded, whatever the rule.
	OmitStages []Stage

	// OmitManagedFields leaves metadata.managedFields out of recorded objects. A rule can differ.
	OmitManagedFields bool
}

// Rule says what is recorded of the requests that it matches. Each list that is not empty must
// match. Resources and Namespaces match requests for resources alone, NonResourceURLs all others.
type Rule struct {
	Level      Level
	Users      []string
	UserGroups []string
	Verbs      []string
	Resources  []Resources
	Namespaces []string // "" matches resources without a namespace, and requests across all

	// NonResourceURLs are paths. "*" matches all of them, and a path that ends in "*" all that begin
	// as it does.
	NonResourceURLs []string

	OmitStages        []Stage // beside those of the policy
	OmitManagedFields *bool   // nil: as the policy says
}

// Resources are resources of one API group.
type Resources struct {
	Group string // "" for the core group

	// Resources have the forms "pods", "pods/log", "pods/*" and "*/scale"; "*" is all of them. None
	// stands for all too.
	Resources []string

	// ResourceNames are the names of objects. None stands for all. They need Resources.
	ResourceNames []string
}

// maxPolicyBytes bounds the document of a policy.
const maxPolicyBytes = 3 << 20

// ParsePolicy reads the document of a policy, YAML or JSON. It rejects unknown fields, fields that
// come twice and wrong values, and names the path of each: `rules[2].level: Required value`.
func ParsePolicy(document []byte) (Policy, error) {
	text, err := yaml.ToJSON(document, maxPolicyBytes)
	if err != nil {
		return Policy{}, fmt.Errorf("audit policy: %w", err)
	}
	tree, err := json.DecodeTree(text, json.TreeOptions{})
	if err != nil {
		return Policy{}, fmt.Errorf("audit policy: %w", err)
	}
	r := &reader{}
	p := r.policy(tree)
	if r.fields.Len() == 0 {
		p.check(&r.fields)
	}
	return p, problems(r.fields.Errors())
}

// Validate reports everything that is wrong with a policy, with the path of each field.
func (p Policy) Validate() error {
	var f status.Fields
	p.check(&f)
	return problems(f.Errors())
}

// problems joins the errors of fields.
func problems(errs []status.FieldError) error {
	var all []error
	for _, e := range errs {
		all = append(all, fmt.Errorf("audit policy: %s", e))
	}
	return errors.Join(all...)
}

func (p Policy) check(f *status.Fields) {
	if v := p.APIVersion; v != "" {
		domain, isAudit := strings.CutPrefix(v, "audit.")
		if domain, isV1 := strings.CutSuffix(domain, "/v1"); !isAudit || !isV1 || meta.CheckDNSSubdomain(domain) != "" {
			f.At("apiVersion").Invalid(v, "must be audit.k8s.io/v1")
		}
	}
	if len(p.Rules) == 0 {
		f.At("rules").Required("a policy without a rule records nothing")
	}
	checkStages(f.At("omitStages"), p.OmitStages)
	for i, r := range p.Rules {
		r.check(f.At("rules").Index(i))
	}
}

func (r Rule) check(f status.Field) {
	switch r.Level {
	case "":
		f.Child("level").Required("")
	case LevelNone, LevelMetadata, LevelRequest, LevelRequestResponse:
	default:
		f.Child("level").NotSupported(string(r.Level), string(LevelNone), string(LevelMetadata), string(LevelRequest), string(LevelRequestResponse))
	}
	for i, url := range r.NonResourceURLs {
		at := f.Child("nonResourceURLs").Index(i)
		switch {
		case url == "*":
		case !strings.HasPrefix(url, "/"):
			at.Invalid(url, "non-resource URL rules must begin with a '/' character")
		case strings.Contains(url[:len(url)-1], "*"):
			at.Invalid(url, "non-resource URL wildcards '*' must be the final character of the rule")
		}
	}
	if len(r.NonResourceURLs) > 0 && len(r.Resources)+len(r.Namespaces) > 0 {
		f.Child("nonResourceURLs").Invalid(r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
	}
	for i, res := range r.Resources {
		at := f.Child("resources").Index(i)
		if res.Group != "" {
			if why := meta.CheckDNSSubdomain(res.Group); why != "" {
				at.Child("group").Invalid(res.Group, why)
			}
		}
		if len(res.ResourceNames) > 0 && len(res.Resources) == 0 {
			at.Child("resourceNames").Invalid(res.ResourceNames, "using resourceNames requires at least one resource")
		}
	}
	checkStages(f.Child("omitStages"), r.OmitStages)
}

func checkStages(f status.Field, list []Stage) {
	for i, stage := range list {
		if bitOf(stage) == 0 {
			var known []string
			for _, s := range stages {
				known = append(known, string(s))
			}
			f.Index(i).NotSupported(string(stage), known...)
		}
	}
}

// reader makes a policy of the tree of a document. It collects what is wrong.
type reader struct{ fields status.Fields }

func (r *reader) policy(tree any) (p Policy) {
	root := r.fields.In(nil)
	o, ok := tree.(map[string]any)
	if !ok {
		root.TypeInvalid(tree, "must be an object")
		return p
	}
	r.known(root, o, "apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields")
	if kind := text(root, o, "kind"); kind != "Policy" {
		root.Child("kind").Invalid(kind, "must be Policy")
	}
	if p.APIVersion = text(root, o, "apiVersion"); p.APIVersion == "" {
		root.Child("apiVersion").Required("must be audit.k8s.io/v1")
	}
	if m, given := o["metadata"]; given {
		if _, ok := m.(map[string]any); !ok && m != nil {
			root.Child("metadata").TypeInvalid(m, "must be an object")
		}
	}
	p.OmitStages = texts[Stage](r, root, o, "omitStages")
	if b := r.flag(root, o, "omitManagedFields"); b != nil {
		p.OmitManagedFields = *b
	}
	for i, item := range r.items(root, o, "rules") {
		p.Rules = append(p.Rules, r.rule(root.Child("rules").Index(i), item))
	}
	return p
}

func (r *reader) rule(at status.Field, tree any) (out Rule) {
	o, ok := tree.(map[string]any)
	if !ok {
		at.TypeInvalid(tree, "must be an object")
		return out
	}
	r.known(at, o, "level", "users", "userGroups", "verbs", "resources", "namespaces", "nonResourceURLs", "omitStages", "omitManagedFields")
	out = Rule{
		Level:             Level(text(at, o, "level")),
		Users:             texts[string](r, at, o, "users"),
		UserGroups:        texts[string](r, at, o, "userGroups"),
		Verbs:             texts[string](r, at, o, "verbs"),
		Namespaces:        texts[string](r, at, o, "namespaces"),
		NonResourceURLs:   texts[string](r, at, o, "nonResourceURLs"),
		OmitStages:        texts[Stage](r, at, o, "omitStages"),
		OmitManagedFields: r.flag(at, o, "omitManagedFields"),
	}
	for i, item := range r.items(at, o, "resources") {
		at := at.Child("resources").Index(i)
		o, ok := item.(map[string]any)
		if !ok {
			at.TypeInvalid(item, "must be an object")
			continue
		}
		r.known(at, o, "group", "resources", "resourceNames")
		out.Resources = append(out.Resources, Resources{
			Group: text(at, o, "group"), Resources: texts[string](r, at, o, "resources"), ResourceNames: texts[string](r, at, o, "resourceNames"),
		})
	}
	return out
}

// known reports the members that an object must not have.
func (r *reader) known(at status.Field, o map[string]any, names ...string) {
	for name := range o {
		found := false
		for _, n := range names {
			found = found || n == name
		}
		if found {
			continue
		}
		why := "unknown field"
		if meant := nearly.Name(name, names); meant != "" {
			why += fmt.Sprintf(", did you mean %q?", meant)
		}
		at.Child(name).Forbidden(why)
	}
}

func (r *reader) items(at status.Field, o map[string]any, name string) []any {
	v := o[name]
	list, ok := v.([]any)
	if !ok && v != nil {
		at.Child(name).TypeInvalid(v, "must be a list")
	}
	return list
}

func (r *reader) flag(at status.Field, o map[string]any, name string) *bool {
	v := o[name]
	b, ok := v.(bool)
	switch {
	case ok:
		return &b
	case v != nil:
		at.Child(name).TypeInvalid(v, "must be true or false")
	}
	return nil
}

func text(at status.Field, o map[string]any, name string) string {
	v := o[name]
	s, ok := v.(string)
	if !ok && v != nil {
		at.Child(name).TypeInvalid(v, "must be a string")
	}
	return s
}

func texts[S ~string](r *reader, at status.Field, o map[string]any, name string) (out []S) {
	for i, item := range r.items(at, o, name) {
		s, ok := item.(string)
		if !ok {
			at.Child(name).Index(i).TypeInvalid(item, "must be a string")
		}
		out = append(out, S(s))
	}
	return out
}
