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

	"github.com/kindwright/kindwright/openapi"
)

//go:embed overlay.json
var document []byte

// Parse returns the overlay, to be given to all kinds of a server.
func Parse() (*openapi.Overlay, error) { return openapi.ParseOverlay(document) }
