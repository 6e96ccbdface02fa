package kinds

import (
	"context"

	"github.com/kindwright/kindwright/internal/entries"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Secret holds confidential data, such as passwords and keys. It belongs to the core group. The
// server stores it like any other object: encryption at rest is that of the disk.
type Secret struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Data       map[string][]byte `json:"data,omitempty" protobuf:"bytes,2,rep,name=data" doc:"The entries, in base64. Names consist of alphanumeric characters, '-', '_' and '.'."`
	Type       string            `json:"type,omitempty" protobuf:"bytes,3,opt,name=type" selectable:"" doc:"What the data is for; Opaque if nothing is said. It cannot be changed."`
	StringData map[string]string `json:"stringData,omitempty" protobuf:"bytes,4,rep,name=stringData" doc:"Entries as text, for writing: the server moves them to data and never returns this field."`
	Immutable  *bool             `json:"immutable,omitempty" protobuf:"varint,5,opt,name=immutable" doc:"Once true, neither the data nor this field can be changed."`
}

// SecretTypeOpaque is the type of a secret that does not name one.
const SecretTypeOpaque = "Opaque"

// Secrets serves the kind Secret with the validation of Kubernetes, which knows the types of
// service account tokens, registry credentials, basic authentication, SSH and TLS keys. It is not
// part of [ControlPlane].
func Secrets() registry.Definition {
	return registry.Kind[Secret]{
		Version: "v1", Plural: "secrets",
		Doc:     "A secret holds confidential data.",
		Serving: registry.Serving{NoCompression: true}, // beside text that an attacker chose, the length would tell what it holds
		Writes:  registry.WriteRules{NoGeneration: true},
		Table: registry.Table{Columns: objectColumns(
			openapi.Column{Name: "Type", Type: "string", Description: "What the data is for.", Path: []string{"type"}},
			openapi.Column{Name: "Data", Type: "integer", Description: "The number of entries.", Paths: [][]string{{"data"}}, Cell: countEntries, Lasting: true},
		)},
		Rules: registry.Rules[Secret]{
			Default: func(_ context.Context, s *Secret) { fillSecret(s) },
			Validate: func(_ context.Context, s *Secret, f *status.Fields) {
				entries.CheckSecret(f, s.Type, s.Data, s.Annotations)
			},
			ValidateUpdate: func(_ context.Context, s, old *Secret, f *status.Fields) {
				if s.Type != old.Type {
					f.At("type").Invalid(s.Type, "field is immutable")
				}
				entries.Sealed(f, old.Immutable, s.Immutable, map[string]bool{"data": entries.Equal(s.Data, old.Data)})
			},
		},
	}
}

// fillSecret sets the type and moves the entries of stringData to data.
func fillSecret(s *Secret) {
	if s.Type == "" {
		s.Type = SecretTypeOpaque
	}
	for name, text := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[name] = []byte(text)
	}
	s.StringData = nil
}
