// Package overlay says what the Go types of k8s.io/api keep in comments: how their lists merge, what their defaults are, which
// values a string may have, and what is optional.
//
// overlay.json is made by overlaygen of what Kubernetes publishes about the version of k8s.io/api that this module requires:
// 30 KiB for all stable groups, read once in about a millisecond. With another version of k8s.io/api, make it anew:
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
