package openapi

// metaPackage is under which names documents publish the types that all kinds share. Clients know them by these names.
const (
	metaPackage         = "io.k8s.apimachinery.pkg.apis.meta.v1."
	objectMetaComponent = metaPackage + "ObjectMeta"
)

// ObjectMeta returns the schema of the metadata of every object (META-01 to META-19), ready for use.
func ObjectMeta() *Schema {
	return built(&Schema{
		Component:   objectMetaComponent,
		Type:        Object,
		Description: "Metadata that every stored object has.",
		Properties: []Property{
			{"name", text("Name of the object, unique among those of its kind in a namespace. It cannot be changed.")},
			{"generateName", text("A prefix from which the server makes a unique name when name is empty.")},
			{"namespace", text("Namespace of the object; empty for kinds that are not namespaced. It cannot be changed.")},
			{"selfLink", &Schema{Type: String, Deprecated: true, Description: "Not used any more."}},
			{"uid", text("Identity of this life of the object, given by the server: a new object with an old name has another uid.")},
			{"resourceVersion", text("Version of the object for optimistic concurrency and watches. Clients pass it back unmodified.")},
			{"generation", &Schema{Type: Integer, Format: "int64", Description: "Number of changes to the desired state, counted by the server."}},
			{"creationTimestamp", timestamp("When the object was created, by the server's clock.")},
			{"deletionTimestamp", timestamp("When the object was or will be deleted; set by the server when deletion is asked for.")},
			{"deletionGracePeriodSeconds", &Schema{Type: Integer, Format: "int64", Description: "Seconds the object may take to end by itself. Set with deletionTimestamp."}},
			{"labels", stringMap("Names and values by which objects are organised and selected.")},
			{"annotations", stringMap("Names and values for tools to keep with the object. They cannot be selected by.")},
			{"ownerReferences", ownerReferences()},
			{"finalizers", &Schema{
				Type: Array, ListType: ListSet, Items: &Schema{Type: String}, PatchStrategy: "merge", repeats: true,
				Description: "Who has to finish before the object goes. Each removes its own entry; the object goes with the last.",
			}},
			{"managedFields", managedFields()},
		},
	})
}

// built makes a schema that this package wrote itself ready.
func built(s *Schema) *Schema {
	out, err := New(s)
	if err != nil {
		panic(err) // the tests make every one of them
	}
	return out
}

func text(description string) *Schema { return &Schema{Type: String, Description: description} }

func timestamp(description string) *Schema {
	return &Schema{Type: String, Format: "date-time", Form: FormTime, Description: description}
}

func stringMap(description string) *Schema {
	return &Schema{Type: Object, AdditionalProperties: &Schema{Type: String}, Description: description}
}

func ownerReferences() *Schema {
	return &Schema{
		Type: Array, ListType: ListMap, ListMapKeys: []string{"uid"}, PatchStrategy: "merge", PatchMergeKey: "uid", repeats: true,
		Description: "Objects that this one depends on. When all of them are gone, it is deleted too.",
		Items: &Schema{
			Component:   metaPackage + "OwnerReference",
			Type:        Object,
			MapType:     MapAtomic,
			Description: "An object that owns another one, in the same namespace or not namespaced.",
			Required:    []string{"apiVersion", "kind", "name", "uid"},
			Properties: []Property{
				{"apiVersion", text("API version of the owner.")},
				{"kind", text("Kind of the owner.")},
				{"name", text("Name of the owner.")},
				{"uid", text("Identity of the owner.")},
				{"controller", &Schema{Type: Boolean, Description: "Whether the owner manages the object. At most one does."}},
				{"blockOwnerDeletion", &Schema{Type: Boolean, Description: "Whether a foreground deletion of the owner waits for the object."}},
			},
		},
	}
}

func managedFields() *Schema {
	return &Schema{
		Type: Array, ListType: ListAtomic, Description: "Who owns which fields, kept by the server for apply.",
		Items: &Schema{
			Component:   metaPackage + "ManagedFieldsEntry",
			Type:        Object,
			Description: "The fields that one manager owns.",
			Properties: []Property{
				{"manager", text("Name of the manager.")},
				{"operation", text("How the manager came to own the fields: Apply or Update.")},
				{"apiVersion", text("Version in which the fields are named.")},
				{"time", timestamp("When the fields last changed hands.")},
				{"fieldsType", text("Format of fieldsV1; always FieldsV1.")},
				{"fieldsV1", &Schema{Component: metaPackage + "FieldsV1", Type: Object, PreserveUnknown: true, Description: "A set of fields as a tree of their names."}},
				{"subresource", text("Subresource through which the manager wrote; empty for the object itself.")},
			},
		},
	}
}

// typeMeta are the fields that say what a document is.
func typeMeta() []Property {
	return built(&Schema{Type: Object, Properties: []Property{
		{"apiVersion", text("Group and version of the API in which the object is written, such as example.dev/v1.")},
		{"kind", text("Kind of the object, such as Widget.")},
	}}).Properties
}
