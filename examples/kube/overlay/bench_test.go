package overlay_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/examples/kube/overlay"
	"github.com/kindwright/kindwright/openapi"
)

// BenchmarkParse is what a server pays once for the overlay.
func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := overlay.Parse(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSchemas is what it pays for the schemas of all stable kinds.
func BenchmarkSchemas(b *testing.B) {
	kinds := stable(b)
	o, err := overlay.Parse()
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		var types openapi.Types
		for _, typ := range kinds {
			if _, err := types.Schema(typ, openapi.WithOverlay(o)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkDocument is what the first reader of a group version's OpenAPI pays.
func BenchmarkDocument(b *testing.B) {
	var kinds []openapi.KindDoc
	for gvk, s := range schemas(b) {
		if gvk.Group == "" && gvk.Version == "v1" {
			kinds = append(kinds, openapi.KindDoc{Kind: gvk.Kind, Plural: "p" + gvk.Kind, Schema: s})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (openapi.Document{Version: "v1", Kinds: kinds}).JSON(); err != nil {
			b.Fatal(err)
		}
	}
}
