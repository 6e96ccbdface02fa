package meta

// MetadataRule says what servers do with a field of [ObjectMeta]. Rules combine with |.
type MetadataRule uint8

const (
	// IdentifiesObject marks the fields that say which object a document is about.
	IdentifiesObject MetadataRule = 1 << iota
	// SetByServer marks the fields that only the server sets: what clients send is dropped.
	// Source: META-17.
	SetByServer
	// KeptOnUpdate marks the fields that an update leaves as they are stored.
	KeptOnUpdate
	// NeverOwned marks the fields that no manager owns.
	// Source: SSA-24.
	NeverOwned
	// Bookkeeping marks the fields that the server writes for every object. They say nothing about
	// what its author wanted, so comparisons of objects skip them.
	Bookkeeping
)

// metadataFields lists the fields of ObjectMeta in its order, each with its rules.
var metadataFields = [...]struct {
	name  string
	rules MetadataRule
}{
	{"name", IdentifiesObject | NeverOwned},
	{"generateName", KeptOnUpdate}, // META-02
	{"namespace", IdentifiesObject | NeverOwned},
	{"selfLink", SetByServer | KeptOnUpdate | NeverOwned | Bookkeeping},
	{"uid", IdentifiesObject | SetByServer | KeptOnUpdate | NeverOwned | Bookkeeping},
	{"resourceVersion", IdentifiesObject | KeptOnUpdate | NeverOwned | Bookkeeping},
	{"generation", SetByServer | KeptOnUpdate | NeverOwned | Bookkeeping},
	{"creationTimestamp", SetByServer | KeptOnUpdate | NeverOwned | Bookkeeping},
	{"deletionTimestamp", SetByServer | KeptOnUpdate | NeverOwned},
	{"deletionGracePeriodSeconds", SetByServer | KeptOnUpdate | NeverOwned},
	{"labels", 0},
	{"annotations", 0},
	{"ownerReferences", 0},
	{"finalizers", 0},
	{"managedFields", NeverOwned | Bookkeeping},
}

// MetadataFields returns the JSON names of the fields of [ObjectMeta] that have all the given
// rules, in the order of ObjectMeta. No rules gives all fields.
func MetadataFields(rules MetadataRule) []string {
	out := make([]string, 0, len(metadataFields)) // stays on the stack of most callers
	for i := range metadataFields {
		if metadataFields[i].rules&rules == rules {
			out = append(out, metadataFields[i].name)
		}
	}
	return out
}

// MetadataRulesOf returns the rules of the field of [ObjectMeta] with a JSON name, none if there is
// no such field.
func MetadataRulesOf(name string) MetadataRule {
	for i := range metadataFields {
		if metadataFields[i].name == name {
			return metadataFields[i].rules
		}
	}
	return 0
}
