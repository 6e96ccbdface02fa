// Package overlay says what the Go types of k8s.io/api keep in comments: how their lists merge, what their defaults are, which
// values a string may have, and what is optional.
//
// overlay.json is made by overlaygen of the OpenAPI of the version of k8s.io/api that this module requires: 31 KB for all stable
// groups, read once in about a millisecond. The schemas for v0.37.2, of which testdata/published.json is an extract, are what
// openapi-gen of kube-openapi, with which Kubernetes makes its own, makes of k8s.io/api and what it uses. With another version of
// k8s.io/api, make it anew:
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
