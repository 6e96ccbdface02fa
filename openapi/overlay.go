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

// Overlay says of Go types that cannot be edited what tags would say: those of k8s.io/api, for example, keep in comments
// how their lists merge and what their defaults are. Make one with [ParseOverlay]. It is immutable, and one serves all
// kinds of a server.
//
// A nil Overlay says nothing.
type Overlay struct {
	shared     bool
	onlyTagged bool
	told       bool // what values there are, and that items of lists differ, is published and not checked
	types      map[goTypeName]*typeOverlay
}

// goTypeName is how an overlay names a Go type: by the import path of its package and its name in there.
type goTypeName struct{ path, name string }

func (n goTypeName) String() string { return n.path + "." + n.name }

// typeOverlay is what an overlay says of one Go type.
type typeOverlay struct {
	own    *fieldTags // of the type itself, wherever it is used; nil for none
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
// Below types stand import paths of packages, and below these the types and their fields: the Go name of the type, and for
// a field a dot and its JSON name. What is said of them are the tags that [FromType] lists, with the same values; they
// replace those in the source. Tags of a type count wherever it is used, for the items of a list as well.
//
// With "required": "tagged" a field is required only if a tag says so. Those that Go suggests are required are then
// published as such and nobody insists on them, which is how Kubernetes treats its own types; the tags expected and optional
// correct what Go suggests. Strategic merge patches then go by the tags patchStrategy and patchMergeKey alone, as those of
// Kubernetes do.
//
// With "values": "told" documents list the values of an enumeration, and lists merge by their keys, but objects with other
// values are taken, and lists with two items of the same key, as Kubernetes takes two variables of the same name: the
// validation that is written for a kind finds fault with them or does not.
//
// A type that no kind of a server uses is an error when the server is made, so that nothing is lost to a typo, unless
// the overlay is "shared": made for more kinds than every one of its servers has. A field that its type lacks is an error
// in any case. Errors tell of every problem, and name type, field and tag.
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

// read takes the parts of an overlay's document.
func (o *Overlay) read(tree any) error {
	document, ok := tree.(map[string]any)
	if !ok {
		return errors.New("overlay: must be an object")
	}
	var errs []error
	for _, name := range sortedNames(document) {
		value := document[name]
		var ok bool
		switch name {
		case "shared":
			o.shared, ok = value.(bool)
		case "required":
			o.onlyTagged = value == "tagged"
			ok = o.onlyTagged
		case "values":
			o.told = value == "told"
			ok = o.told
		case "types":
			var packages map[string]any
			packages, ok = value.(map[string]any)
			for _, path := range sortedNames(packages) {
				errs = append(errs, o.readPackage(path, packages[path]))
			}
		default:
			errs = append(errs, fmt.Errorf("overlay: %s: not one of required, shared, types, values", name))
			continue
		}
		if !ok {
			errs = append(errs, fmt.Errorf(`overlay: %s: shared is true or false, required is "tagged", values is "told", and types is an object`, name))
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
			err = at.errorf("must be the name of a Go type, or such a name, a dot and the JSON name of a field")
		case err == nil && len(tags.values) == 0:
			err = at.errorf("says nothing")
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

// notOfTypes are tags that speak of a field, not of the values in it.
var notOfTypes = []string{"required", "optional", "expected", "selectable", "column"}

// overlayTags are the tags of one entry.
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
			errs = append(errs, at.errorf("there is no tag %q%s", keyword, didYouMean(keyword)))
		case !isText:
			errs = append(errs, at.errorf("tag %s: must be a string, as in a Go struct", keyword))
		case !ofField && slices.Contains(notOfTypes, keyword):
			errs = append(errs, at.errorf("tag %s: is for fields, not for types", keyword))
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

// of is what the overlay says of a type, nil if nothing. Types without a name, and those of all programs, have no place in it.
func (o *Overlay) of(t reflect.Type) *typeOverlay {
	if o == nil || t.Name() == "" || t.PkgPath() == "" {
		return nil
	}
	return o.types[goTypeName{t.PkgPath(), t.Name()}]
}

// tagsOf are the tags of a field, nil if there are none.
func (t *typeOverlay) tagsOf(field string) *fieldTags {
	if t == nil {
		return nil
	}
	return t.fields[field]
}

// missing reports the fields that a struct lacks.
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
			errs = append(errs, fmt.Errorf("overlay: %s.%s.%s: the type declares no field of this JSON name", goType.PkgPath(), goType.Name(), name))
		}
	}
	return errors.Join(errs...)
}

// unused reports the types that were not met.
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
			errs = append(errs, fmt.Errorf("overlay: %s: no kind uses such a Go type", name))
		}
	}
	return errors.Join(errs...)
}
