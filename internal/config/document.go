package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The bounds of a document.
const (
	MaxBytes  = 3 << 20
	maxDepth  = 64
	maxMemory = 64 << 20
)

// Kind is a kind of documents that a program reads.
type Kind struct {
	Name string

	// Group is the API group on servers whose domain is k8s.io, such as apiserver.config.k8s.io. A
	// kind without a group has documents such as a kubeconfig, whose apiVersion is v1.
	Group string

	// AnyDomain is the part of the group before a domain, such as "apiserver". The group may have any
	// domain then. Empty accepts the Group alone.
	AnyDomain string

	Versions []string // the best one first
}

// Document is a document of a known kind that is not decoded yet.
type Document struct {
	Kind       string
	APIVersion string // as the document has it
	Version    string // without the group

	tree       any
	duplicates []string
}

// Read reads one document, which must be of one of the kinds. Its errors have the form of
// [Problems].
func Read(data []byte, kinds ...Kind) (*Document, error) {
	d, err := ReadUntyped(data)
	if err != nil {
		return nil, err
	}
	f := &status.Fields{}
	object, ok := d.tree.(map[string]any)
	if !ok {
		f.At().TypeInvalid(d.tree, "must be an object")
		return nil, Problems(f.Errors())
	}
	d.Kind, d.APIVersion = text(f.At("kind"), object["kind"]), text(f.At("apiVersion"), object["apiVersion"])
	if d.Kind == "" && f.Len() == 0 {
		f.At("kind").Required("must be " + names(kinds))
	}
	if d.APIVersion == "" && f.Len() == 0 {
		f.At("apiVersion").Required("must be " + versions(kinds))
	}
	if f.Len() == 0 {
		d.dispatch(f, kinds)
	}
	return d, Problems(f.Errors())
}

// ReadUntyped reads one document, of whatever kind.
func ReadUntyped(data []byte) (*Document, error) {
	text, err := yaml.ToJSON(data, MaxBytes)
	if err != nil {
		return nil, err
	}
	d := &Document{}
	d.tree, err = json.DecodeTree(text, json.TreeOptions{
		MaxDepth: maxDepth, Memory: maxMemory,
		Duplicates: func(path string) { d.duplicates = append(d.duplicates, path) },
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Typed reports whether the document says anything about its kind.
func (d *Document) Typed() bool {
	object, _ := d.tree.(map[string]any)
	return object["kind"] != nil || object["apiVersion"] != nil
}

// Parse reads one document, which must be of one of the kinds, into a struct. See Read and Document.Decode.
func Parse[T any](data []byte, kinds ...Kind) (out T, err error) {
	d, err := Read(data, kinds...)
	if err == nil {
		err = d.Decode(&out)
	}
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}

// Default gives a field a value that has none.
func Default[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// Has reports whether the document has a field of one of these names, which is not null.
func (d *Document) Has(names ...string) bool {
	object, _ := d.tree.(map[string]any)
	return slices.ContainsFunc(names, func(name string) bool { return object[name] != nil })
}

// dispatch finds the kind of the document.
func (d *Document) dispatch(f *status.Fields, kinds []Kind) {
	known := kinds[:0:0]
	for _, k := range kinds {
		if k.Name == d.Kind {
			known = append(known, k)
		}
	}
	if len(known) == 0 {
		f.At("kind").Invalid(d.Kind, fmt.Sprintf("must be %s, in apiVersion %q", names(kinds), d.APIVersion))
		return
	}
	for _, k := range known {
		if version, ok := k.version(d.APIVersion); ok {
			d.Version = version
			return
		}
	}
	f.At("apiVersion").Invalid(d.APIVersion, fmt.Sprintf("must be %s for the kind %q", versions(known), d.Kind))
}

// Accepts reports whether documents of the kind may have this apiVersion.
func (k Kind) Accepts(apiVersion string) bool {
	_, ok := k.version(apiVersion)
	return ok
}

// version returns the version of an apiVersion that documents of the kind may have.
func (k Kind) version(apiVersion string) (version string, ok bool) {
	group, version, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group, version = "", group
	}
	return version, slices.Contains(k.Versions, version) && k.has(group)
}

func (k Kind) has(group string) bool {
	if group == k.Group {
		return true
	}
	domain, ok := strings.CutPrefix(group, k.AnyDomain+".")
	return ok && k.AnyDomain != "" && meta.CheckDNSSubdomain(domain) == ""
}

// names lists the names of kinds.
func names(kinds []Kind) string {
	var out []string
	for _, k := range kinds {
		if !slices.Contains(out, k.Name) {
			out = append(out, k.Name)
		}
	}
	return strings.Join(out, " or ")
}

// versions lists the versions of kinds.
func versions(kinds []Kind) string {
	var out []string
	for _, k := range kinds {
		for _, v := range k.Versions {
			if k.Group != "" {
				v = k.Group + "/" + v
			}
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return strings.Join(out, " or ")
}

func text(at status.Field, v any) string {
	s, ok := v.(string)
	if !ok && v != nil {
		at.TypeInvalid(v, "must be a string")
	}
	return s
}

// maxProblems bounds how many problems an error lists.
const maxProblems = 50

// InvalidError is the error of a document with problems.
type InvalidError struct{ Fields []status.FieldError }

// Error lists the problems as Kubernetes does: one as it is, several in brackets.
func (e *InvalidError) Error() string {
	var all []string
	for _, f := range e.Fields[:min(len(e.Fields), maxProblems)] {
		all = append(all, f.String())
	}
	if more := len(e.Fields) - maxProblems; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	if len(all) == 1 {
		return all[0]
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// Problems returns an *[InvalidError], or nil if there are no problems.
func Problems(errs []status.FieldError) error {
	if len(errs) == 0 {
		return nil
	}
	return &InvalidError{errs}
}
