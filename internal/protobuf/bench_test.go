package protobuf

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

// atRest returns the canonical JSON of a widget of approximately the given size. Its proportions
// are those of a Pod: many short names, some strings and some numbers.
func atRest(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"creationTimestamp":"2026-01-02T03:04:05Z","generation":3,` +
		`"labels":{"app":"web","tier":"front","version":"v42"},"managedFields":[{"apiVersion":"example.dev/v1","fieldsType":"FieldsV1",` +
		`"fieldsV1":{"f:spec":{"f:color":{},"f:parts":{}}},"manager":"kubectl","operation":"Update","time":"2026-01-02T03:04:05Z"}],` +
		`"name":"widget-000123","namespace":"team-a","resourceVersion":"123456","uid":"5d3c2b1a-0000-4000-8000-123456789abc"},` +
		`"spec":{"color":"blue","limit":"100m","notes":{"first":"one","second":"two"},"parts":[`)
	for i := 0; b.Len() < size-150; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"count":%d,"name":"part-%d","parts":[{"name":"inner-%d"},{"count":1,"name":"registry.example.com/parts"}]}`, i*7, i, i)
	}
	b.WriteString(`],"port":8080,"size":7,"started":"2026-01-02T03:04:05Z","tags":["a","b"]},"status":{"phase":"Ready"}}`)
	return []byte(b.String())
}

func sizes(b *testing.B, run func(b *testing.B, object []byte)) {
	for _, kib := range []int{1, 4} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			object := atRest(kib << 10)
			b.SetBytes(int64(len(object)))
			b.ReportAllocs()
			run(b, object)
		})
	}
}

func BenchmarkAppendMessage(b *testing.B) {
	d := describe[widget](b)
	sizes(b, func(b *testing.B, object []byte) {
		var buf []byte
		var err error
		for b.Loop() {
			if buf, err = d.AppendMessage(buf[:0], object); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAppendMetadata(b *testing.B) {
	d := describe[meta.PartialObjectMetadata](b)
	sizes(b, func(b *testing.B, object []byte) {
		var buf []byte
		var err error
		for b.Loop() {
			if buf, err = d.AppendMessage(buf[:0], object); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	d := describe[widget](b)
	sizes(b, func(b *testing.B, object []byte) {
		message, err := d.AppendMessage(nil, object)
		require.NoError(b, err)
		var buf []byte
		for b.Loop() {
			if buf, err = d.AppendJSON(buf[:0], message, "example.dev/v1", "Widget", 1<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDescribe(b *testing.B) {
	for b.Loop() {
		if _, ok, err := Describe(reflect.TypeFor[widget]()); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// BenchmarkHostile decodes 3 MiB that are designed to be expensive. Each case must stay well below
// a second.
func BenchmarkHostile(b *testing.B) {
	const size = 3 << 20
	d := describe[widget](b)
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	nested := ""
	for range maxDepth - 3 {
		nested = text(3, nested)
	}
	var keys strings.Builder
	for i := 0; keys.Len() < size; i++ {
		keys.WriteString(text(17, text(1, fmt.Sprint(i*7919%1_000_003))))
	}
	parts := ""
	for len(parts) < size/100 {
		parts = text(3, parts) + text(3, "") + number(2, 1)
	}
	for name, message := range map[string]string{
		"empty items":         fill(text(16, "")),
		"empty messages":      fill(text(24, "")),
		"messages in parts":   text(24, fill(text(3, ""))) + fill(text(24, number(2, 1))),
		"nested":              fill(text(16, nested)),
		"nested once":         text(16, parts),
		"unknown fields":      fill(number(500, 1)),
		"groups":              fill("\xa3\x1f\xa4\x1f"),
		"groups in groups":    fill("\x0b"),
		"one entry":           fill(text(17, "")),
		"entries not sorted":  keys.String(),
		"values in an entry":  text(19, fill(text(2, text(1, "a")))),
		"packed":              text(13, fill("\x00")),
		"text to be escaped":  text(7, fill("\x01")),
		"bytes":               text(11, fill("\x00")),
		"times":               fill(text(30, number(1, 1))),
		"raw":                 text(28, text(1, fill("["))),
		"integers":            fill(number(1, 1)),
		"items of a choice":   text(34, fill(text(2, ""))),
		"an object of choice": text(33, fill(text(2, ""))),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = d.AppendJSON(nil, []byte(text(2, message)), "v1", "Widget", size)
			}
		})
	}
}
