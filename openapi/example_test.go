package openapi_test

import (
	"fmt"
	"reflect"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// Boat is a kind as its author writes it.
type Boat struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Length int32     `json:"length" minimum:"1" doc:"Length in metres." column:"Length"`
		Color  string    `json:"color,omitempty" enum:"red,green,blue" default:"blue" selectable:""`
		Built  meta.Time `json:"built,omitzero"`
	} `json:"spec"`
}

// A write uses the steps in this order.
func Example() {
	boats, err := openapi.FromType(reflect.TypeFor[Boat]())
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, _ := json.DecodeTree([]byte(`{"metadata":{"name":"a"},"spec":{"length":12.0,"built":"2020-05-01T02:00:00+02:00","colour":"red"}}`), json.TreeOptions{})

	object, problems := boats.Canonical(tree.(map[string]any))
	object, unknown := boats.Prune(object)
	object = boats.Default(object)
	problems = append(problems, boats.Validate(object)...)

	text, _ := json.AppendTree(nil, object)
	fmt.Println(string(text))
	fmt.Println("unknown:", unknown, "problems:", problems)

	for _, p := range boats.Validate(map[string]any{"spec": map[string]any{"color": "pink", "length": int64(0)}}) {
		fmt.Println(p)
	}
	// Output:
	// {"metadata":{"name":"a"},"spec":{"built":"2020-05-01T00:00:00Z","color":"blue","length":12}}
	// unknown: [spec.colour] problems: []
	// spec.color: Unsupported value: "pink": supported values: "red", "green", "blue"
	// spec.length: Invalid value: 0: spec.length in body should be greater than or equal to 1
}

// An invalid tag is reported when the server is built, not when an object arrives.
func ExampleFromType_badTag() {
	type Boat struct {
		Spec struct {
			Length int32 `json:"length" minimum:"short"`
		} `json:"spec"`
	}
	_, err := openapi.FromType(reflect.TypeFor[Boat]())
	fmt.Println(err)
	// Output:
	// openapi: Boat.spec.length: tag minimum:"short": "short" is not a 64-bit integer
}

// Harbour is a type of another package, which has none of our tags.
type Harbour struct {
	Berths []Berth `json:"berths"`
	Flag   string  `json:"flag,omitempty"`
}

// Berth is one place in a harbour.
type Berth struct {
	Pier   int32  `json:"pier"`
	Side   string `json:"side,omitempty"`
	Vessel string `json:"vessel,omitempty"`
}

// An overlay supplies in one document the tags of types that cannot be edited.
func ExampleParseOverlay() {
	overlay, err := openapi.ParseOverlay([]byte(`{
		"types": {
			"github.com/kindwright/kindwright/openapi_test": {
				"Harbour.berths": {"list": "map,key=pier,key=side"},
				"Berth.side": {"default": "port", "enum": "port,starboard"}
			}
		}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	harbours, err := openapi.FromType(reflect.TypeFor[Harbour](), openapi.WithOverlay(overlay))
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, _ := json.DecodeTree([]byte(`{"berths":[{"pier":1,"vessel":"Ada"},{"pier":1,"side":"starboard"},{"pier":1}]}`), json.TreeOptions{})
	for _, p := range harbours.Validate(harbours.Default(tree.(map[string]any))) {
		fmt.Println(p)
	}

	typo, _ := openapi.ParseOverlay([]byte(`{"types": {"github.com/kindwright/kindwright/openapi_test": {"Harbour.birth": {"doc": "?"}}}}`))
	_, err = openapi.FromType(reflect.TypeFor[Harbour](), openapi.WithOverlay(typo))
	fmt.Println(err)
	// Output:
	// berths[2]: Duplicate value: {"pier":1,"side":"port"}
	// openapi: overlay: github.com/kindwright/kindwright/openapi_test.Harbour.birth: the type declares no field with this JSON name
}
