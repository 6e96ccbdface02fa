package kinds

import (
	"context"
	"maps"
	"time"

	"github.com/kindwright/kindwright/internal/entries"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// ConfigMap holds configuration for programs. It belongs to the core group.
type ConfigMap struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Data       map[string]string `json:"data,omitempty" protobuf:"bytes,2,rep,name=data" doc:"Entries with text in UTF-8. Names consist of alphanumeric characters, '-', '_' and '.'."`
	BinaryData map[string][]byte `json:"binaryData,omitempty" protobuf:"bytes,3,rep,name=binaryData" doc:"Entries with any bytes. Their names must not occur in data."`
	Immutable  *bool             `json:"immutable,omitempty" protobuf:"varint,4,opt,name=immutable" doc:"Once true, neither the data nor this field can be changed."`
}

// ConfigMaps serves the kind ConfigMap with the validation of Kubernetes. It is not part of
// [ControlPlane].
func ConfigMaps() registry.Definition {
	return registry.Kind[ConfigMap]{
		Version: "v1", Plural: "configmaps", Names: registry.Names{ShortNames: []string{"cm"}},
		Doc:    "A config map holds configuration for programs.",
		Writes: registry.WriteRules{NoGeneration: true},
		Table: registry.Table{Columns: objectColumns(openapi.Column{
			Name: "Data", Type: "integer", Description: "The number of entries.",
			Paths: [][]string{{"data"}, {"binaryData"}}, Cell: countEntries, Lasting: true,
		})},
		Rules: registry.Rules[ConfigMap]{
			Validate: func(_ context.Context, m *ConfigMap, f *status.Fields) {
				entries.CheckConfigMap(f, m.Data, m.BinaryData)
			},
			ValidateUpdate: func(_ context.Context, m, old *ConfigMap, f *status.Fields) {
				entries.Sealed(f, old.Immutable, m.Immutable, map[string]bool{
					"data": maps.Equal(m.Data, old.Data), "binaryData": entries.Equal(m.BinaryData, old.BinaryData),
				})
			},
		},
	}
}

// objectColumns returns the columns Name and Age with others between them.
func objectColumns(between ...openapi.Column) []openapi.Column {
	out := []openapi.Column{{Name: "Name", Type: "string", Format: "name", Description: "The name of the object.", Path: []string{"metadata", "name"}}}
	out = append(out, between...)
	return append(out, openapi.Column{Name: "Age", Type: "date", Description: "How long the object has existed.", Path: []string{"metadata", "creationTimestamp"}})
}

// countEntries is a cell with the number of entries in some maps.
func countEntries(_ time.Time, values []any) any {
	var n int64
	for _, v := range values {
		m, _ := v.(map[string]any)
		n += int64(len(m))
	}
	return n
}
