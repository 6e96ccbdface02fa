package apply

import (
	"errors"
	"fmt"
	"sync"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/merge"
	"sigs.k8s.io/structured-merge-diff/v4/schema"
	"sigs.k8s.io/structured-merge-diff/v4/typed"
	"sigs.k8s.io/structured-merge-diff/v4/value"

	"github.com/kindwright/kindwright/openapi"
)

// Version is one version in which the objects of a kind are served.
type Version struct {
	APIVersion string          // such as example.dev/v1
	Schema     *openapi.Schema // of the whole object, ready for use

	// Reach limits the fields that an endpoint can change. The key "" is the main resource; other
	// keys are names of subresources. Endpoints without an entry can change the whole object.
	Reach map[string]Reach

	// Blank is what every object holds without anybody's doing, such as the empty structs of a Go type
	// that its encoding always writes. It has no metadata. Nobody becomes the manager of what a new
	// object shares with it, unless by an apply.
	Blank map[string]any
}

// Convert returns an object in another version of its kind. It must not modify its argument.
// Neither tree contains managedFields.
type Convert func(tree map[string]any, apiVersion string) (map[string]any, error)

// Fields holds the ownership rules of one kind. It is immutable and safe for concurrent use.
type Fields struct {
	versions         map[string]*version
	bySchema         map[*schema.Schema]*version
	convert          Convert
	neverOwned       *fieldpath.Set
	resetByEmptyList bool
}

// version is a Version with its compiled merge rules.
type version struct {
	apiVersion string
	schema     *openapi.Schema
	blank      map[string]any
	reach      map[string]*reach

	// The schema in merge and root are filled in when the version is first used, since a server may
	// have many kinds that are never written. The address of the schema is fixed from the start,
	// because it identifies the version.
	made  sync.Once
	merge typed.ParseableType
	root  *node
}

// ready returns the version after building its lazy fields.
func (v *version) ready() *version {
	v.made.Do(func() {
		mergeType(v.merge.Schema, v.schema)
		v.root = compile(v.merge)
	})
	return v
}

// Option changes the rules of a kind.
type Option func(*Fields)

// ResetByEmptyList makes an update with an empty managedFields list reset ownership, as
// kube-apiserver does. By default, an empty list has no effect and only a list with one empty entry
// resets ownership, as the Kubernetes documentation says.
//
// Source: SSA-14, READ-03.
func ResetByEmptyList() Option {
	return func(f *Fields) { f.resetByEmptyList = true }
}

// New returns the ownership rules of a kind. convert may be nil if the kind has only one version.
// An error names the version that is invalid.
func New(versions []Version, convert Convert, options ...Option) (*Fields, error) {
	f := &Fields{
		versions:   make(map[string]*version, len(versions)),
		bySchema:   make(map[*schema.Schema]*version, len(versions)),
		convert:    convert,
		neverOwned: fieldpath.NewSet(),
	}
	for _, p := range neverOwned() {
		f.neverOwned.Insert(p.elements())
	}
	for _, v := range versions {
		if err := f.add(v); err != nil {
			return nil, fmt.Errorf("version %s: %w", quoted(v.APIVersion), err)
		}
	}
	switch {
	case len(versions) == 0:
		return nil, errors.New("a kind needs at least one version")
	case len(versions) > 1 && convert == nil:
		return nil, errors.New("a kind with several versions needs a Convert function")
	}
	for _, o := range options {
		if o != nil {
			o(f)
		}
	}
	return f, nil
}

// add validates a version and registers it. The merge rules are compiled later; see version.ready.
func (f *Fields) add(v Version) error {
	switch {
	case v.APIVersion == "":
		return errors.New("APIVersion must be set")
	case f.versions[v.APIVersion] != nil:
		return errors.New("duplicate version")
	case v.Schema == nil:
		return errors.New("the field Schema must be set")
	}
	out := &version{apiVersion: v.APIVersion, schema: v.Schema, blank: v.Blank, reach: map[string]*reach{}}
	out.merge = typed.ParseableType{Schema: &schema.Schema{}, TypeRef: named(rootName)}
	for subresource, r := range v.Reach {
		compiled, err := newReach(r)
		if err != nil {
			return err
		}
		out.reach[subresource] = compiled
	}
	f.versions[v.APIVersion] = out
	f.bySchema[out.merge.Schema] = out
	return nil
}

// stored wraps a stored object for structured-merge-diff without validating it. The object was
// validated when it was written, and one that an earlier schema allowed must remain readable.
func (v *version) stored(tree map[string]any) *typed.TypedValue {
	return typed.AsTypedUnvalidated(value.NewValueInterface(tree), v.merge.Schema, v.merge.TypeRef) //nolint:staticcheck // see above
}

// updater returns a merge.Updater for one request through a version. What this path cannot change is not compared
// in any version. A path that can change everything is compared everywhere: it may change what is out of reach in
// the version of another owner, which loses it or conflicts.
func (f *Fields) updater(home *version, subresource string) *merge.Updater {
	b := merge.UpdaterBuilder{Converter: &conversion{fields: f, home: home}, ReturnInputOnNoop: true}
	if home.reach[subresource].whole() {
		return b.BuildUpdater()
	}
	for name, v := range f.versions {
		if r := v.reach[subresource]; r != nil {
			if b.IgnoreFilter == nil {
				b.IgnoreFilter = map[fieldpath.APIVersion]fieldpath.Filter{}
			}
			b.IgnoreFilter[fieldpath.APIVersion(name)] = r
		}
	}
	return b.BuildUpdater()
}

// conversion converts objects for structured-merge-diff. It serves one request and caches its
// results, because the library requests the same conversions repeatedly.
//
// When an apply removes what its manager applied through another version, the library converts the
// object to that version, removes fields there, and converts the rest back. What that version does
// not have would be lost on the way. So conversion remembers of which object of the request's version
// it made an object, and converts a changed one back by making the change in the first.
type conversion struct {
	fields *Fields
	home   *version // of the request
	done   map[conversionKey]*typed.TypedValue
	origin map[*typed.TypedValue]*typed.TypedValue // of a converted object, in the home version
	last   map[*schema.Schema]converted            // by version, the last object made of one of the home version
}

// converted is an object in another version, and the one of the home version that it shows.
type converted struct{ object, origin *typed.TypedValue }

// conversionKey identifies a conversion by the address of the object, which is sufficient within
// one request.
type conversionKey struct {
	object  *typed.TypedValue
	version fieldpath.APIVersion
}

// errMissingVersion marks owners whose version is no longer served. The library drops them.
var errMissingVersion = errors.New("the version is not served")

func (c *conversion) IsMissingVersionError(err error) bool { return errors.Is(err, errMissingVersion) }

// Convert implements merge.Converter. It returns the object itself for an unknown version, together
// with an error that the library recognises as a missing version.
func (c *conversion) Convert(object *typed.TypedValue, name fieldpath.APIVersion) (*typed.TypedValue, error) {
	to := c.fields.versions[string(name)]
	if to == nil {
		return object, errMissingVersion
	}
	if object.Schema() == to.merge.Schema {
		// The object was made for this version, so the version is ready.
		return object, nil
	}
	k := conversionKey{object, name}
	if out, ok := c.done[k]; ok {
		return out, nil
	}
	if origin := c.origin[object]; origin != nil && to == c.home {
		return origin, nil
	}
	tree, err := c.convert(object, name)
	if err != nil {
		return object, err
	}
	if to == c.home {
		if tree, err = c.back(object, tree); err != nil {
			return object, err
		}
	}
	out := to.ready().stored(tree)
	c.remember(k, out)
	return out, nil
}

func (c *conversion) convert(object *typed.TypedValue, name fieldpath.APIVersion) (map[string]any, error) {
	tree, ok := object.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, errors.New("the object to convert is empty")
	}
	out, err := c.fields.convert(tree, string(name))
	if err != nil {
		return nil, fmt.Errorf("convert to %s: %w", name, err)
	}
	return out, nil
}

// remember records a conversion, and which object of the home version the result shows.
func (c *conversion) remember(k conversionKey, out *typed.TypedValue) {
	if c.done == nil {
		c.done = map[conversionKey]*typed.TypedValue{}
		c.origin = map[*typed.TypedValue]*typed.TypedValue{}
		c.last = map[*schema.Schema]converted{}
	}
	c.done[k] = out
	origin := c.origin[k.object]
	if k.object.Schema() == c.home.merge.Schema {
		origin = k.object
	}
	if origin != nil {
		c.origin[out] = origin
		c.last[out.Schema()] = converted{out, origin}
	}
}

// back returns what tree, made of an object of another version, is in the home version: the object of
// the home version that was last converted to that version, with what changed there since.
func (c *conversion) back(object *typed.TypedValue, tree map[string]any) (map[string]any, error) {
	was, ok := c.last[object.Schema()]
	if !ok {
		return tree, nil
	}
	origin, ok := was.origin.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, errors.New("the object to convert back is empty")
	}
	before, err := c.convert(was.object, fieldpath.APIVersion(c.home.apiVersion))
	if err != nil {
		return nil, err
	}
	return c.home.schema.Merge(origin, before, tree), nil
}
