// Package overlay says what the Go types of k8s.io/api keep in comments: how their lists merge,
// their defaults, the values that a string may have, and which fields are optional.
//
// overlaygen makes overlay.json from the OpenAPI of the version of k8s.io/api that this module
// requires. It has 31 KB for all stable groups and is read once, in about a millisecond.
// testdata/published.json is an extract of the schemas for v0.37.2. These schemas are the output of
// kube-openapi's openapi-gen, which Kubernetes uses for its own, for k8s.io/api and its
// dependencies. After an update of k8s.io/api, generate the overlay again:
//
//	go run ./overlay/overlaygen -openapi DIR -published overlay/testdata/published.json > overlay/overlay.json
package overlay

import (
	_ "embed"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

//go:embed overlay.json
var document []byte

// Parse returns the overlay, to be given to all kinds of a server.
func Parse() (*openapi.Overlay, error) { return openapi.ParseOverlay(document) }

// ParseWithoutEnums returns the overlay without the values that strings may have. Schemas then do not tell
// them, as those of Kubernetes without the feature OpenAPIEnums.
func ParseWithoutEnums() (*openapi.Overlay, error) {
	tree, err := json.DecodeTree(document, json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	whole, _ := tree.(map[string]any)
	packages, _ := whole["types"].(map[string]any)
	for _, p := range packages {
		types, _ := p.(map[string]any)
		for name, t := range types {
			tags, _ := t.(map[string]any)
			if delete(tags, "enum"); len(tags) == 0 {
				delete(types, name)
			}
		}
	}
	text, err := json.AppendTree(nil, whole)
	if err != nil {
		return nil, err
	}
	return openapi.ParseOverlay(text)
}
