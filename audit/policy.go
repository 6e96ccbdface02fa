package audit

import (
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/internal/config"
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
	Level      Level       `json:"level"`
	Users      []string    `json:"users"`
	UserGroups []string    `json:"userGroups"`
	Verbs      []string    `json:"verbs"`
	Resources  []Resources `json:"resources"`
	Namespaces []string    `json:"namespaces"` // "" matches resources without a namespace, and requests across all

	// NonResourceURLs are paths. "*" matches all of them, and a path that ends in "*" all that begin
	// as it does.
	NonResourceURLs []string `json:"nonResourceURLs"`

	OmitStages        []Stage `json:"omitStages"`        // beside those of the policy
	OmitManagedFields *bool   `json:"omitManagedFields"` // nil: as the policy says
}

// Resources are resources of one API group.
type Resources struct {
	Group string `json:"group"` // "" for the core group, "*" for every group

	// Resources have the forms "pods", "pods/log", "pods/*" and "*/scale"; "*" is all of them. None
	// stands for all too.
	Resources []string `json:"resources"`

	// ResourceNames are the names of objects. None stands for all. They need Resources.
	ResourceNames []string `json:"resourceNames"`
}

// policyKind is the document. The server accepts its own group domain alone.
var policyKind = config.Kind{Name: "Policy", Group: "audit.k8s.io", AnyDomain: "audit", Versions: []string{"v1"}}

// ParsePolicy reads the document of a policy, YAML or JSON. It rejects unknown fields, fields that
// come twice and wrong values, and names the path of each: `rules[2].level: Required value`.
func ParsePolicy(document []byte) (Policy, error) {
	var doc struct {
		Metadata meta.ObjectMeta `json:"metadata"` // which nothing reads

		Rules             []Rule  `json:"rules"`
		OmitStages        []Stage `json:"omitStages"`
		OmitManagedFields bool    `json:"omitManagedFields"`
	}
	d, err := config.Read(document, policyKind)
	if err == nil {
		err = d.Decode(&doc)
	}
	if err != nil {
		return Policy{}, fmt.Errorf("audit policy: %w", err)
	}
	p := Policy{APIVersion: d.APIVersion, Rules: doc.Rules, OmitStages: doc.OmitStages, OmitManagedFields: doc.OmitManagedFields}
	return p, p.Validate()
}

// Validate reports everything that is wrong with a policy, with the path of each field.
func (p Policy) Validate() error {
	var f status.Fields
	p.check(&f)
	if err := config.Problems(f.Errors()); err != nil {
		return fmt.Errorf("audit policy: %w", err)
	}
	return nil
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
		if url == "*" {
			continue
		}
		if !strings.HasPrefix(url, "/") {
			at.Invalid(url, "non-resource URL rules must begin with a '/' character")
		}
		if url != "" && strings.Contains(url[:len(url)-1], "*") {
			at.Invalid(url, "non-resource URL wildcards '*' must be the final character of the rule")
		}
	}
	if len(r.NonResourceURLs) > 0 && len(r.Resources)+len(r.Namespaces) > 0 {
		f.Child("nonResourceURLs").Invalid(r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
	}
	for i, res := range r.Resources {
		at := f.Child("resources").Index(i)
		if res.Group != "" && res.Group != "*" {
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
			f.Index(i).Invalid(string(stage), "allowed stages are "+strings.Join(known, ","))
		}
	}
}
