package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
)

// Overlay supplies tags for Go types whose source cannot be edited. The types of k8s.io/api, for
// example, describe in comments how their lists merge and what their defaults are. Make an Overlay
// with [ParseOverlay]. It is immutable, and all kinds of a server can share one. A nil Overlay is
// empty.
type Overlay struct {
	shared     bool
	onlyTagged bool
	advisory   bool // enums and uniqueness of list items are published, not enforced
	types      map[goTypeName]*typeOverlay
}

// goTypeName identifies a Go type in an overlay by import path and name.
type goTypeName struct{ path, name string }

func (n goTypeName) String() string { return n.path + "." + n.name }

// typeOverlay holds the overlay's tags for one Go type.
type typeOverlay struct {
	own    *fieldTags // tags of the type, applied at every use; nil for none
	fields map[string]*fieldTags
}

// ParseOverlay reads an overlay from its JSON form:
//
//	{
//	  "shared": true,
//	  "required": "tagged",
//	  "values": "told",
//	  "types": {
//	    "k8s.io/api/core/v1": {
//	      "Container.ports": {"list": "map,key=containerPort,key=protocol"},
//	      "ContainerPort.containerPort": {"required": ""},
//	      "ContainerPort.protocol": {"default": "TCP"},
//	      "Protocol": {"enum": "SCTP,TCP,UDP"},
//	      "ObjectFieldSelector": {"map": "atomic"}
//	    }
//	  }
//	}
//
// The keys below types are import paths of packages. The keys below these are Go type names,
// optionally followed by a dot and the JSON name of a field. Their values are the tags that
// [FromType] lists. They replace the tags in the source. Tags of a type apply wherever it is used,
// also as the item of a list.
//
// With "required": "tagged", a field is required only if a tag says so. Fields that look required
// in Go are then published as required but not enforced, which is how Kubernetes treats its own
// types. The tags expected and optional correct that guess. Strategic merge patches then follow
// only the tags patchStrategy and patchMergeKey, as they do in Kubernetes.
//
// With "values": "told", enumerations are published and lists merge by their keys, but neither is
// enforced: objects with other values, and lists with two items of the same key, are accepted.
// Kubernetes does the same, for example for two environment variables of the same name. Checking
// them is left to the validation of the kind.
//
// A type that no kind of a server uses is an error when the server is made, so that a typo does not
// go unnoticed. An overlay marked as "shared" may describe more kinds than a server has, so unused
// types are then allowed. An unknown field is always an error. Errors report all problems at once
// and name the type, field and tag.
func ParseOverlay(data []byte) (*Overlay, error) {
	tree, err := json.DecodeTree(data, json.TreeOptions{})
	if err != nil {
		return nil, fmt.Errorf("overlay: %w", err)
	}
	o := &Overlay{types: map[goTypeName]*typeOverlay{}}
	if err := o.read(tree); err != nil {
		return nil, err
	}
	return o, nil
}

// read reads the members of an overlay document.
func (o *Overlay) read(tree any) error {
	document, ok := tree.(map[string]any)
	if !ok {
		return errors.New("overlay: must be an object")
	}
	var errs []error
	for _, name := range sortedNames(document) {
		value := document[name]
		var ok bool
		var want string
		switch name {
		case "shared":
			o.shared, ok = value.(bool)
			want = "true or false"
		case "required":
			o.onlyTagged = value == "tagged"
			ok, want = o.onlyTagged, `"tagged"`
		case "values":
			o.advisory = value == "told"
			ok, want = o.advisory, `"told"`
		case "types":
			var packages map[string]any
			packages, ok = value.(map[string]any)
			want = "an object"
			for _, path := range sortedNames(packages) {
				errs = append(errs, o.readPackage(path, packages[path]))
			}
		default:
			errs = append(errs, fmt.Errorf("overlay: %s: not one of required, shared, types, values", name))
			continue
		}
		if !ok {
			errs = append(errs, fmt.Errorf("overlay: %s: must be %s", name, want))
		}
	}
	return errors.Join(errs...)
}

func (o *Overlay) readPackage(path string, value any) error {
	entries, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("overlay: %s: must be an object", path)
	}
	var errs []error
	for _, entry := range sortedNames(entries) {
		goName, field, isField := strings.Cut(entry, ".")
		at := place{text: "overlay: " + path + "." + entry}
		tags, err := overlayTags(entries[entry], isField, at)
		switch {
		case goName == "" || isField && field == "" || path == "":
			err = at.errorf("must be Type or Type.field: the name of a Go type, optionally with the JSON name of a field")
		case err == nil && len(tags.values) == 0:
			err = at.errorf("must contain at least one tag")
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		name := goTypeName{path, goName}
		t := o.types[name]
		if t == nil {
			t = &typeOverlay{fields: map[string]*fieldTags{}}
			o.types[name] = t
		}
		if isField {
			t.fields[field] = tags
		} else {
			t.own = tags
		}
	}
	return errors.Join(errs...)
}

// notOfTypes are the tags that apply to fields and not to types.
var notOfTypes = []string{"required", "optional", "expected", "selectable", "column"}

// overlayTags returns the tags of one entry.
func overlayTags(value any, ofField bool, at place) (*fieldTags, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, at.errorf("must be an object of tags")
	}
	tags := &fieldTags{values: make(map[string]string, len(object))}
	var errs []error
	for _, keyword := range sortedNames(object) {
		text, isText := object[keyword].(string)
		switch {
		case !slices.Contains(keywords, keyword):
			errs = append(errs, at.errorf("unknown tag %q%s", keyword, didYouMean(keyword)))
		case !isText:
			errs = append(errs, at.errorf("tag %s: must be a string, as in a Go struct", keyword))
		case !ofField && slices.Contains(notOfTypes, keyword):
			errs = append(errs, at.errorf("tag %s: applies to fields, not to types", keyword))
		}
		tags.values[keyword] = text
	}
	return tags, errors.Join(errs...)
}

func didYouMean(keyword string) string {
	if keyword != "" && misspelt(keyword) != "" {
		return ": did you mean " + misspelt(keyword) + "?"
	}
	return ""
}

// of returns the entry for a type, or nil. Unnamed and predeclared types have no import path, so an
// overlay cannot describe them.
func (o *Overlay) of(t reflect.Type) *typeOverlay {
	if o == nil || t.Name() == "" || t.PkgPath() == "" {
		return nil
	}
	return o.types[goTypeName{t.PkgPath(), t.Name()}]
}

// tagsOf returns the tags of a field, or nil.
func (t *typeOverlay) tagsOf(field string) *fieldTags {
	if t == nil {
		return nil
	}
	return t.fields[field]
}

// missing reports entries for fields that the struct does not declare.
func (t *typeOverlay) missing(goType reflect.Type) error {
	declared := map[string]bool{}
	for i := range goType.NumField() {
		sf := goType.Field(i)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		declared[cmp.Or(name, sf.Name)] = true
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(t.fields)) {
		if !declared[name] {
			errs = append(errs, fmt.Errorf("overlay: %s.%s.%s: the type declares no field with this JSON name", goType.PkgPath(), goType.Name(), name))
		}
	}
	return errors.Join(errs...)
}

// unused reports the types that have not occurred.
func (o *Overlay) unused(met map[goTypeName]bool) error {
	if o == nil || o.shared {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(o.types), func(a, b goTypeName) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.name, b.name))
	})
	var errs []error
	for _, name := range names {
		if !met[name] {
			errs = append(errs, fmt.Errorf("overlay: %s: no kind uses this Go type", name))
		}
	}
	return errors.Join(errs...)
}
