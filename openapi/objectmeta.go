package openapi

import "sync"

// metaPackage is the prefix of the names under which the types shared by all kinds are published.
// Clients look them up by these names.
const (
	metaPackage         = "io.k8s.apimachinery.pkg.apis.meta.v1."
	objectMetaComponent = metaPackage + "ObjectMeta"
)

// ObjectMeta returns the schema of the metadata of every object, ready for use. All callers share it.
//
// Source: META-01 to META-19.
func ObjectMeta() *Schema { return objectParts().metadata }

// typeMeta returns the fields apiVersion and kind. All callers share them, so they clone the list
// before they change it.
func typeMeta() []Property { return objectParts().typeMeta }

// objectParts are the parts of every object. They are made on the first call, and are never changed.
var objectParts = sync.OnceValue(func() (parts struct {
	metadata *Schema
	typeMeta []Property
},
) {
	parts.metadata = metadataSchema()
	parts.typeMeta = built(&Schema{Type: Object, Properties: []Property{
		{"apiVersion", text("APIVersion defines the group and version that the object is written in, such as example.dev/v1.")},
		{"kind", text("Kind names the type of the object, such as Widget.")},
	}}).Properties
	return parts
})

func metadataSchema() *Schema {
	return built(&Schema{
		Component:   objectMetaComponent,
		Type:        Object,
		Description: "Standard object's metadata, which every stored object has.",
		Properties: []Property{
			{"name", text("Name of the object, unique among those of its kind in a namespace. It cannot be changed.")},
			{"generateName", text("A prefix from which the server generates a unique name if name is empty.")},
			{"namespace", text("Namespace of the object; empty for kinds that are not namespaced. It cannot be changed.")},
			{"selfLink", &Schema{Type: String, Deprecated: true, Description: "No longer used."}},
			{"uid", text("Unique identity of the object, set by the server. A new object with the same name has another uid.")},
			{"resourceVersion", text("Version of the object for optimistic concurrency and watches. Clients must send it back unmodified.")},
			{"generation", &Schema{Type: Integer, Format: "int64", Description: "Number of changes to the desired state, counted by the server."}},
			{"creationTimestamp", timestamp("CreationTimestamp is a timestamp of when the object was created, by the server's clock.")},
			{"deletionTimestamp", timestamp("When the object was or will be deleted. The server sets it when deletion is requested.")},
			{"deletionGracePeriodSeconds", &Schema{Type: Integer, Format: "int64", Description: "Seconds that the object may take to terminate gracefully. Set together with deletionTimestamp."}},
			{"labels", stringMap("Keys and values by which objects are organised and selected.")},
			{"annotations", stringMap("Keys and values that tools attach to the object. They cannot be used to select objects.")},
			{"ownerReferences", ownerReferences()},
			{"finalizers", &Schema{
				Type: Array, ListType: ListSet, Items: &Schema{Type: String}, PatchStrategy: "merge",
				allowsDuplicates: true, nullIsZero: true,
				Description: "Controllers that must finish before the object is removed. Each removes its own entry; the object is removed with the last one.",
			}},
			{"managedFields", managedFields()},
		},
	})
}

// built prepares a schema that this package defines.
func built(s *Schema) *Schema {
	out, err := New(s)
	if err != nil {
		panic(err) // a test builds all of them
	}
	return out
}

func text(description string) *Schema { return &Schema{Type: String, Description: description} }

func timestamp(description string) *Schema {
	return &Schema{Type: String, Format: "date-time", Notation: NotationTime, Description: description}
}

func stringMap(description string) *Schema {
	return &Schema{Type: Object, AdditionalProperties: &Schema{Type: String}, Description: description}
}

func ownerReferences() *Schema {
	return &Schema{
		Type: Array, ListType: ListMap, ListMapKeys: []string{"uid"}, PatchStrategy: "merge", PatchMergeKey: "uid",
		allowsDuplicates: true, nullIsZero: true,
		Description: "Owners of the object. It is deleted once all of them are gone.",
		Items: &Schema{
			Component:   metaPackage + "OwnerReference",
			Type:        Object,
			MapType:     MapAtomic,
			Description: "An owner of another object. It is in the same namespace or cluster-scoped.",
			Required:    []string{"apiVersion", "kind", "name", "uid"},
			Properties: []Property{
				{"apiVersion", text("API version of the owner.")},
				{"kind", text("Kind of the owner.")},
				{"name", text("Name of the owner.")},
				{"uid", text("Identity of the owner.")},
				{"controller", &Schema{Type: Boolean, Description: "Whether the owner is the managing controller of the object. At most one owner is."}},
				{"blockOwnerDeletion", &Schema{Type: Boolean, Description: "Whether a foreground deletion of the owner waits for the object."}},
			},
		},
	}
}

func managedFields() *Schema {
	return &Schema{
		Type: Array, ListType: ListAtomic, nullIsZero: true, Description: "Which manager owns which fields. The server maintains it for server-side apply.",
		Items: &Schema{
			Component:   metaPackage + "ManagedFieldsEntry",
			Type:        Object,
			Description: "The fields that one manager owns.",
			Properties: []Property{
				{"manager", text("Name of the manager.")},
				{"operation", text("How the manager acquired the fields: Apply or Update.")},
				{"apiVersion", text("API version to which the field names belong.")},
				{"time", timestamp("When the manager's set of fields or their values last changed.")},
				{"fieldsType", text("Format of fieldsV1; always FieldsV1.")},
				{"fieldsV1", &Schema{Component: metaPackage + "FieldsV1", Type: Object, PreserveUnknown: true, Description: "A set of fields as a tree of their names."}},
				{"subresource", text("Subresource that the manager wrote to; empty for the object itself.")},
			},
		},
	}
}
