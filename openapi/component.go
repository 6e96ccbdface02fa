package openapi

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/kindwright/kindwright/meta"
)

// sharedSchema is a schema that every document publishes.
type sharedSchema struct {
	name   string
	schema *Schema
	kinds  []meta.GroupVersionKind
}

// shared is what every document needs. It is never changed.
type shared struct {
	schemas       []sharedSchema // those that the operations of all kinds refer to
	listMeta      *Schema
	deleteOptions *Schema

	// documents has published the schemas and all parameters in the form of v3. Documents are made
	// for each group version, so what they share is encoded only once.
	documents func() *publisher
	discovery func() []sharedSchema // that only Swagger publishes
}

// sharedOnce makes the shared schemas on the first call: reading them from their Go types costs more
// than the rest of a document.
var sharedOnce = sync.OnceValue(func() *shared {
	list := listMeta()
	s := &shared{listMeta: list, deleteOptions: fromMeta[meta.DeleteOptions]("What may be said of a deletion."), schemas: []sharedSchema{
		{objectMetaComponent, ObjectMeta(), nil},
		{metaPackage + "ListMeta", list, nil},
		{metaPackage + "Status", fromMeta[meta.Status]("The answer to a request that does not return an object."), v1("Status")},
		{metaPackage + "APIResourceList", fromMeta[meta.APIResourceList]("The resources of one group version."), v1("APIResourceList")},
		{metaPackage + "WatchEvent", fromMeta[meta.WatchEvent]("One event of a watch."), v1("WatchEvent")},
		{metaPackage + "Patch", &Schema{Type: Object, Description: "A change in the format that the content type names."}, nil},
	}}
	s.documents = sync.OnceValue(func() *publisher {
		p := newPublisher(documentForm{}, s)
		p.namedParameters(nil, slices.Collect(maps.Keys(parameters)))
		return p
	})
	s.discovery = sync.OnceValue(discoverySchemas)
	return s
})

// v1 is the kind of a document of the API machinery.
func v1(kind string) []meta.GroupVersionKind {
	return []meta.GroupVersionKind{{Version: "v1", Kind: kind}}
}

func listMeta() *Schema {
	s := *fromMeta[meta.ListMeta]("Metadata of a list.")
	s.Component = metaPackage + "ListMeta"
	return &s
}

// fromMeta makes the schema of a type of package meta. These types do not have tags of this
// package, so only fields with an explicit tag are required.
func fromMeta[T any](description string) *Schema {
	s, err := FromType(reflect.TypeFor[T](), RequiredWhenTagged())
	if err != nil {
		panic(err) // only types of this module come here, and a test covers all of them
	}
	out := *s
	out.Description = description
	return &out
}
