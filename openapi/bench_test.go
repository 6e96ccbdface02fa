package openapi_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// Crate is a kind like Widget whose objects can be as large as a benchmark needs.
type Crate struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Size  int32             `json:"size" minimum:"1"`
		Color string            `json:"color,omitempty" enum:"red,green,blue" default:"blue"`
		Parts []CratePart       `json:"parts,omitempty" list:"map,key=name"`
		Notes map[string]string `json:"notes,omitempty"`
	} `json:"spec"`
}

type CratePart struct {
	Name  string   `json:"name" minLength:"1" maxLength:"63"`
	Image string   `json:"image" pattern:"^[a-z./:0-9-]+$"`
	Count int64    `json:"count,omitempty" default:"1"`
	Ratio float64  `json:"ratio,omitempty"`
	Tags  []string `json:"tags,omitempty" list:"set"`
}

func crate(b *testing.B, size int) (*openapi.Schema, map[string]any) {
	var text strings.Builder
	text.WriteString(`{"apiVersion":"example.dev/v1","kind":"Crate","metadata":{"creationTimestamp":"2026-01-02T03:04:05Z","generation":3,` +
		`"labels":{"app":"web","tier":"front"},"name":"crate-000123","namespace":"team-a","uid":"5d3c2b1a-0000-4000-8000-123456789abc"},"spec":{"color":"blue","parts":[`)
	for i := 0; text.Len() < size-120; i++ {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `{"count":%d,"image":"registry.example.com/parts/%d:v1.2.3","name":"part-%d","ratio":0.%d5,"tags":["a","b"]}`, i*7, i, i, i)
	}
	text.WriteString(`],"size":7}}`)
	s, err := openapi.FromType(reflect.TypeFor[Crate]())
	if err != nil {
		b.Fatal(err)
	}
	tree, err := json.DecodeTree([]byte(text.String()), json.TreeOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return s, tree.(map[string]any)
}

func BenchmarkSteps(b *testing.B) {
	for _, kib := range []int{1, 4} {
		s, object := crate(b, kib<<10)
		for name, step := range map[string]func() bool{
			"Canonical": func() bool { _, errs := s.Canonical(object); return len(errs) == 0 },
			"Prune":     func() bool { _, unknown := s.Prune(object); return len(unknown) == 0 },
			"Default":   func() bool { return s.Default(object) != nil },
			"Validate":  func() bool { return len(s.Validate(object)) == 0 },
		} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, kib), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !step() {
						b.Fatal("a good object was refused")
					}
				}
			})
		}
	}
}

func BenchmarkFromType(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := openapi.FromType(reflect.TypeFor[Widget]()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFromTree reads a document of 10 KB, the size of a usual definition.
func BenchmarkFromTree(b *testing.B) {
	var properties []string
	for i := range 8 {
		properties = append(properties, fmt.Sprintf(`"part%d":%s`, i, strings.ReplaceAll(structural, `"metadata": {"type": "object"}`, `"x": {"type": "object"}`)))
	}
	v, err := json.DecodeTree([]byte(`{"type":"object","properties":{`+strings.Join(properties, ",")+`}}`), json.TreeOptions{})
	if err != nil {
		b.Fatal(err)
	}
	document, _ := v.(map[string]any)
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := openapi.FromTree(document); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

func BenchmarkDocument(b *testing.B) {
	b.ReportAllocs()
	d := document(widget(b))
	for b.Loop() {
		if _, err := d.JSON(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSwagger makes the OpenAPI v2 document of a thousand group versions.
func BenchmarkSwagger(b *testing.B) {
	s := widget(b)
	all := openapi.Swagger{Version: "v1.2.3"}
	for i := range 1000 {
		d := document(s)
		d.Group, d.Kinds[0].Kind, d.Kinds[0].Plural = fmt.Sprintf("g%d.example.dev", i), fmt.Sprintf("Widget%d", i), fmt.Sprintf("widgets%d", i)
		all.Documents = append(all.Documents, d)
	}
	for name, write := range map[string]func() ([]byte, error){"JSON": all.JSON, "Protobuf": all.Protobuf} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := write()
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(data)))
			}
		})
	}
}

// BenchmarkBomb reads schemas that were designed to be expensive. Each must stay well below a
// second.
//
// Source: security vector C5.
func BenchmarkBomb(b *testing.B) {
	properties := func(n int, of string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"p%d":%s,`, i, of)
		}
		return `{"type":"object","properties":{` + b.String() + `"z":{"type":"string"}}}`
	}
	var patterns strings.Builder
	patterns.WriteString(`{"type":"object","properties":{"z":{"type":"string"}`)
	for i := range 40_000 {
		fmt.Fprintf(&patterns, `,"p%d":{"type":"string","pattern":"^[a-z]{1,63}%d$"}`, i, i)
	}
	patterns.WriteString(`}}`)
	for name, source := range map[string]string{
		"properties": properties(90_000, `{"type":"string"}`),
		"enum":       properties(1, `{"type":"string","enum":["`+strings.Repeat(`x","`, 700_000)+`y"]}`),
		"patterns":   patterns.String(),
	} {
		tree, err := json.DecodeTree([]byte(source), json.TreeOptions{})
		if err != nil {
			b.Fatal(err)
		}
		object, _ := tree.(map[string]any)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				openapi.FromTree(object)
			}
		})
	}
}
