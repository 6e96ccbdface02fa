package feature_test

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/feature"
	"github.com/kindwright/kindwright/meta"
)

// A release has features of its own, which flags switch.
func Example() {
	release, _ := feature.ParseRelease("1.31")
	gates, err := feature.NewGates(release, "APIResponseCompression=false")
	fmt.Println(gates.Enabled(feature.WatchList), gates.Enabled(feature.ResponseCompression), err)

	_, err = feature.NewGates(release, "ServerSideApply=false")
	fmt.Println(err)

	served, err := feature.ParseSelection("api/beta=false,shop.example.com/v1beta1/widgets")
	for _, resource := range []string{"widgets", "gadgets"} {
		fmt.Println(resource, served.Serves(meta.GroupVersionResource{Group: "shop.example.com", Version: "v1beta1", Resource: resource}, false), err)
	}
	// Output:
	// false false <nil>
	// cannot set feature gate ServerSideApply to false, feature is locked to true
	// widgets true <nil>
	// gadgets false <nil>
}
