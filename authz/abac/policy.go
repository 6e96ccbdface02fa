package abac

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/json"
)

// Policy is one line of a file. A request matches it if the user, what is asked for and the verb
// match. "*" matches everything in APIGroup, Resource, Namespace and NonResourcePath.
type Policy struct {
	// User and Group are the user. Each that is set must match, and one must be set. "*" is everybody
	// who has proved who they are: the members of the group system:authenticated.
	User  string `json:"user"`
	Group string `json:"group"`

	// Readonly limits the policy to get, list and watch.
	Readonly bool `json:"readonly"`

	// APIGroup, Resource and Namespace are what a request for a resource must have. Empty ones match
	// the core group and requests without a namespace.
	APIGroup  string `json:"apiGroup"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace"`

	// NonResourcePath is the path of other requests. With an asterisk at its end, it is what the path
	// begins with.
	NonResourcePath string `json:"nonResourcePath"`
}

// kind is the document of a line. Kubernetes writes the domain kubernetes.io here.
var kind = config.Kind{
	Name: "Policy", Group: "abac.authorization.kubernetes.io", AnyDomain: "abac.authorization",
	Versions: []string{"v1beta1", unversioned},
}

// unversioned is the version of lines in the form of the first releases, which may name it.
const unversioned = "v0"

// Open reads the policies of a file. Its errors name the file and the line.
func Open(path string) (Policies, error) {
	data, err := files.Read(path)
	if err != nil {
		return nil, fmt.Errorf("policy file: %w", err)
	}
	policies, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("policy file %s: %w", path, err)
	}
	return policies, nil
}

// Parse reads policies, one on each line. It skips empty lines and those that begin with "#". A
// line with an unknown field, or with one that comes twice, is an error. A line without apiVersion
// and kind has the form of the first releases of Kubernetes, and so has one of version v0.
// Source: ABAC-01, ABAC-02.
func Parse(data []byte) (Policies, error) {
	out := Policies{}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		p, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func parse(line []byte) (Policy, error) {
	if err := json.Valid(line); err != nil { // a line is no YAML
		return Policy{}, err
	}
	untyped, err := config.ReadUntyped(line)
	if err != nil {
		return Policy{}, err
	}
	if !untyped.Typed() {
		return parseOld(untyped)
	}
	d, err := config.Read(line, kind)
	if err != nil {
		return Policy{}, err
	}
	if d.Version == unversioned {
		return parseOld(d)
	}
	var doc struct {
		Spec Policy `json:"spec"`
	}
	return doc.Spec, d.Decode(&doc)
}

// parseOld reads a line of the first form. What it does not say matches everything.
func parseOld(d *config.Document) (Policy, error) {
	var old struct {
		User      string `json:"user"`
		Group     string `json:"group"`
		Readonly  bool   `json:"readonly"`
		Resource  string `json:"resource"`
		Namespace string `json:"namespace"`
	}
	if err := d.Decode(&old); err != nil {
		return Policy{}, err
	}
	p := Policy{User: old.User, Group: old.Group, Readonly: old.Readonly, APIGroup: "*", Resource: old.Resource, Namespace: old.Namespace}
	switch {
	case p.User == "*" || p.Group == "*":
		p.User, p.Group = "", authn.GroupAuthenticated
	case p.User == "" && p.Group == "":
		p.Group = authn.GroupAuthenticated
	}
	if p.Namespace == "" && p.Resource == "" {
		p.NonResourcePath = "*"
	}
	if p.Namespace == "" {
		p.Namespace = "*"
	}
	if p.Resource == "" {
		p.Resource = "*"
	}
	return p, nil
}

// matchesPath reports whether the policy is for a path.
func (p *Policy) matchesPath(path string) bool {
	if prefix := strings.TrimRight(p.NonResourcePath, "*"); len(prefix) < len(p.NonResourcePath) {
		return strings.HasPrefix(path, prefix)
	}
	return p.NonResourcePath == path
}
