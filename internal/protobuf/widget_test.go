package protobuf

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

// widget has a field of every shape. Its tags are as inaccurate as those of k8s.io/api: only the
// numbers count.
type widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	Spec            widgetSpec   `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	Status          widgetStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

type color string

type widgetSpec struct {
	Size     int32   `json:"size" protobuf:"varint,1,opt,name=size"`
	Replicas *int32  `json:"replicas,omitempty" protobuf:"varint,2,opt,name=replicas"`
	Weight   int64   `json:"weight,omitempty" protobuf:"varint,3,opt,name=weight"`
	Mask     uint8   `json:"mask,omitempty" protobuf:"varint,4,opt,name=mask"`
	Ratio    float64 `json:"ratio,omitempty" protobuf:"bytes,5,opt,name=ratio"`
	Share    float32 `json:"share,omitempty" protobuf:"bytes,6,opt,name=share"`
	Color    color   `json:"color,omitempty" protobuf:"bytes,7,opt,name=color,casttype=color"`
	Title    *string `json:"title" protobuf:"bytes,8,opt,name=title"`
	Shiny    bool    `json:"shiny,omitempty" protobuf:"varint,9,opt,name=shiny"`
	Broken   *bool   `json:"broken,omitempty" protobuf:"varint,10,opt,name=broken"`
	Seal     []byte  `json:"seal,omitempty" protobuf:"bytes,11,opt,name=seal"`

	Tags    []string          `json:"tags" protobuf:"bytes,12,rep,name=tags"`
	Numbers []int64           `json:"numbers,omitempty" protobuf:"varint,13,opt,name=numbers"`
	Shares  []float64         `json:"shares,omitempty" protobuf:"bytes,14,opt,name=shares"`
	Seals   [][]byte          `json:"seals,omitempty" protobuf:"bytes,15,rep,name=seals"`
	Parts   []part            `json:"parts,omitempty" protobuf:"bytes,16,rep,name=parts"`
	Notes   map[string]string `json:"notes,omitempty" protobuf:"bytes,17,rep,name=notes"`
	Secrets map[string][]byte `json:"secrets,omitempty" protobuf:"bytes,18,rep,name=secrets"`
	Shelves map[color]part    `json:"shelves,omitempty" protobuf:"bytes,19,rep,name=shelves"`
	Extra   map[string]extra  `json:"extra,omitempty" protobuf:"bytes,20,rep,name=extra"`
	Verbs   verbs             `json:"verbs,omitempty" protobuf:"bytes,21,opt,name=verbs"`

	shelf  `json:",inline" protobuf:"bytes,22,opt,name=shelf"`
	Source `json:",inline" protobuf:"bytes,23,opt,name=source"`
	Origin *part `json:"origin,omitempty" protobuf:"bytes,24,opt,name=origin"`

	Limit    Quantity                     `json:"limit" protobuf:"bytes,25,opt,name=limit"`
	Limits   map[string]Quantity          `json:"limits,omitempty" protobuf:"bytes,26,rep,name=limits"`
	Port     IntOrString                  `json:"port,omitempty" protobuf:"bytes,27,opt,name=port"`
	Raw      RawExtension                 `json:"raw,omitempty" protobuf:"bytes,28,opt,name=raw"`
	Text     meta.RawJSON                 `json:"text,omitempty" protobuf:"bytes,29,opt,name=text"`
	Started  meta.Time                    `json:"started,omitempty" protobuf:"bytes,30,opt,name=started"`
	Renewed  *meta.MicroTime              `json:"renewed,omitempty" protobuf:"bytes,31,opt,name=renewed"`
	Patience meta.Duration                `json:"patience,omitempty,omitzero" protobuf:"bytes,32,opt,name=patience"`
	Allowed  *JSONSchemaPropsOrBool       `json:"allowed,omitempty" protobuf:"bytes,33,opt,name=allowed"`
	Items    *JSONSchemaPropsOrArray      `json:"items,omitempty" protobuf:"bytes,34,opt,name=items"`
	Needs    JSONSchemaPropsOrStringArray `json:"needs,omitempty,omitzero" protobuf:"bytes,35,opt,name=needs"`
	Base     part                         `json:"base,omitzero" protobuf:"bytes,700,opt,name=base"`
	Tree     *tree                        `json:"tree,omitempty" protobuf:"bytes,701,opt,name=tree"`
	Ignored  string                       `json:"-"`
	Hidden   string                       `json:"-" protobuf:"bytes,36,opt,name=hidden"`
	Wireless string                       `json:"wireless,omitempty" protobuf:"-"`
}

type part struct {
	Name  string  `json:"name" protobuf:"bytes,1,opt,name=name"`
	Count *int64  `json:"count,omitempty" protobuf:"varint,2,opt,name=count"`
	Parts []*part `json:"parts,omitempty" protobuf:"bytes,3,rep,name=parts"`
}

// tree contains itself by value through a pointer.
type tree struct {
	Left  *leaf  `json:"left,omitempty" protobuf:"bytes,1,opt,name=left"`
	Label string `json:"label" protobuf:"bytes,2,opt,name=label"`
}

type leaf struct {
	Tree tree `json:"tree" protobuf:"bytes,1,opt,name=tree"`
}

// shelf is unexported, but it has exported fields.
type shelf struct {
	Shelf string `json:"shelf,omitempty" protobuf:"bytes,1,opt,name=shelf"`
}

// Source is a union like that of volumes in pods.
type Source struct {
	Disk *disk  `json:"disk,omitempty" protobuf:"bytes,1,opt,name=disk"`
	URL  string `json:"url,omitempty" protobuf:"bytes,2,opt,name=url"`
}

type disk struct {
	Size int64 `json:"size" protobuf:"varint,1,opt,name=size"`
}

type widgetStatus struct {
	Phase      string           `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase"`
	Conditions []meta.Condition `json:"conditions,omitempty" protobuf:"bytes,2,rep,name=conditions"`
	*Origin    `json:",inline" protobuf:"bytes,3,opt,name=origin"`
}

// Origin is embedded as a pointer.
type Origin struct {
	Country string `json:"country,omitempty" protobuf:"bytes,1,opt,name=country"`
	Year    int    `json:"year" protobuf:"varint,2,opt,name=year"`
}

type extra []string

type verbs []string

// Marshal marks a list that has a message of its own.
func (v *verbs) Marshal() ([]byte, error) { return nil, nil }

// Quantity and the types below have the names and the structure of types in the Kubernetes
// libraries.
type Quantity struct{ text string }

func (q Quantity) MarshalJSON() ([]byte, error) {
	if q.text == "" {
		return []byte(`"0"`), nil
	}
	return json.Marshal(q.text)
}
func (q *Quantity) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &q.text) }
func (Quantity) OpenAPISchemaType() []string     { return []string{"string"} }

type IntOrString struct {
	Type   int64  `protobuf:"varint,1,opt,name=type"`
	IntVal int32  `protobuf:"varint,2,opt,name=intVal"`
	StrVal string `protobuf:"bytes,3,opt,name=strVal"`
}

func (i IntOrString) MarshalJSON() ([]byte, error) {
	if i.Type == 1 {
		return json.Marshal(i.StrVal)
	}
	return json.Marshal(i.IntVal)
}

func (i *IntOrString) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		i.Type = 1
		return json.Unmarshal(b, &i.StrVal)
	}
	return json.Unmarshal(b, &i.IntVal)
}

type RawExtension struct {
	Raw    []byte `json:"-" protobuf:"bytes,1,opt,name=raw"`
	Object any    `json:"-"`
}

func (r RawExtension) MarshalJSON() ([]byte, error) {
	if r.Raw == nil {
		return []byte("null"), nil
	}
	return r.Raw, nil
}

func (r *RawExtension) UnmarshalJSON(b []byte) error {
	if string(b) != "null" {
		r.Raw = bytes.Clone(b)
	}
	return nil
}

type JSONSchemaPropsOrBool struct {
	Allows bool  `protobuf:"varint,1,opt,name=allows"`
	Schema *part `protobuf:"bytes,2,opt,name=schema"`
}

type JSONSchemaPropsOrArray struct {
	Schema      *part  `protobuf:"bytes,1,opt,name=schema"`
	JSONSchemas []part `protobuf:"bytes,2,rep,name=jSONSchemas"`
}

type JSONSchemaPropsOrStringArray struct {
	Schema   *part    `protobuf:"bytes,1,opt,name=schema"`
	Property []string `protobuf:"bytes,2,rep,name=property"`
}

func (s JSONSchemaPropsOrBool) MarshalJSON() ([]byte, error) {
	if s.Schema != nil {
		return json.Marshal(s.Schema)
	}
	return json.Marshal(s.Allows)
}

func (s JSONSchemaPropsOrArray) MarshalJSON() ([]byte, error) {
	if len(s.JSONSchemas) > 0 {
		return json.Marshal(s.JSONSchemas)
	}
	return json.Marshal(s.Schema)
}

func (s JSONSchemaPropsOrStringArray) MarshalJSON() ([]byte, error) {
	if len(s.Property) > 0 {
		return json.Marshal(s.Property)
	}
	return json.Marshal(s.Schema)
}

// describe calls Describe for a type that must have a message.
func describe[T any](t testing.TB) *Descriptor {
	t.Helper()
	d, ok, err := Describe(reflect.TypeFor[T]())
	require.NoError(t, err)
	require.True(t, ok)
	return d
}
