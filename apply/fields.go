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

// Version is one form in which the objects of a kind are served.
type Version struct {
	APIVersion string          // such as example.dev/v1
	Schema     *openapi.Schema // of the whole object, ready for use

	// Reach says for an endpoint which fields it can change: "" is the main path, other endpoints go by the name of the
	// subresource. Endpoints that are not named reach the whole object.
	Reach map[string]Reach
}

// Convert returns an object in another version of its kind. It must not change the tree it is given. Both trees are without
// managedFields.
type Convert func(tree map[string]any, apiVersion string) (map[string]any, error)

// Fields knows the ownership rules of one kind. It never changes and may be used by many at once.
type Fields struct {
	versions         map[string]*version
	bySchema         map[*schema.Schema]*version
	convert          Convert
	neverOwned       *fieldpath.Set
	resetByEmptyList bool
}

type version struct {
	apiVersion string
	schema     *openapi.Schema
	reach      map[string]*reach

	// Made of schema when the version is first asked for, as a server may have many kinds that nobody writes to.
	made  sync.Once
	merge typed.ParseableType // where its own schema lies is known from the beginning
	root  *node
}

// ready returns the version with what is made late.
func (v *version) ready() *version {
	v.made.Do(func() {
		mergeType(v.merge.Schema, v.schema)
		v.root = compile(v.merge)
	})
	return v
}

// Option changes the rules of a kind from the default.
type Option func(*Fields)

// ResetByEmptyList makes an update with an empty managedFields list reset ownership, as kube-apiserver does. By default only
// a list with one empty entry does, and an empty list changes nothing, as the API's documentation says (SSA-14, READ-03).
func ResetByEmptyList() Option {
	return func(f *Fields) { f.resetByEmptyList = true }
}

// New returns the ownership rules of a kind. convert may be nil for a kind with one version.
//
// The error names the version that cannot be used.
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
		return nil, errors.New("a kind needs a version")
	case len(versions) > 1 && convert == nil:
		return nil, errors.New("a kind with several versions needs a function that converts between them")
	}
	for _, o := range options {
		o(f)
	}
	return f, nil
}

func (f *Fields) add(v Version) error {
	switch {
	case v.APIVersion == "":
		return errors.New("it has no name")
	case f.versions[v.APIVersion] != nil:
		return errors.New("it is given twice")
	case v.Schema == nil:
		return errors.New("it has no schema")
	}
	out := &version{apiVersion: v.APIVersion, schema: v.Schema, reach: map[string]*reach{}}
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

// stored is an object as structured-merge-diff wants it. The object is taken as it is: it was checked when it was written,
// and what an earlier schema allowed must stay readable.
func (v *version) stored(tree map[string]any) *typed.TypedValue {
	return typed.AsTypedUnvalidated(value.NewValueInterface(tree), v.merge.Schema, v.merge.TypeRef) //nolint:staticcheck // see above
}

// updater does the work of one request in structured-merge-diff.
func (f *Fields) updater(subresource string) *merge.Updater {
	b := merge.UpdaterBuilder{Converter: &conversion{fields: f}, ReturnInputOnNoop: true}
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

// conversion answers structured-merge-diff's wish for an object in another version. It belongs to one request, in which
// the same objects are asked for again and again.
type conversion struct {
	fields *Fields
	done   map[conversionKey]*typed.TypedValue
}

type conversionKey struct {
	object  *typed.TypedValue
	version fieldpath.APIVersion
}

// errMissingVersion says that fields are owned in a version that is served no more. Such owners are dropped.
var errMissingVersion = errors.New("the version is not served")

func (c *conversion) IsMissingVersionError(err error) bool { return errors.Is(err, errMissingVersion) }

func (c *conversion) Convert(object *typed.TypedValue, name fieldpath.APIVersion) (*typed.TypedValue, error) {
	to := c.fields.versions[string(name)]
	if to == nil {
		return object, errMissingVersion
	}
	if object.Schema() == to.merge.Schema {
		return object, nil // which it was made for, so that the version is ready
	}
	k := conversionKey{object, name}
	if out, ok := c.done[k]; ok {
		return out, nil
	}
	tree, ok := object.AsValue().Unstructured().(map[string]any)
	if !ok {
		return object, errors.New("nothing is left of the object to convert")
	}
	converted, err := c.fields.convert(tree, string(name))
	if err != nil {
		return object, fmt.Errorf("convert to %s: %w", name, err)
	}
	out := to.ready().stored(converted)
	if c.done == nil {
		c.done = map[conversionKey]*typed.TypedValue{}
	}
	c.done[k] = out
	return out, nil
}
