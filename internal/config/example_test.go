package config_test

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/config"
)

func Example() {
	kind := config.Kind{Name: "LampConfiguration", Group: "lamps.k8s.io", AnyDomain: "lamps", Versions: []string{"v1", "v1beta1"}}
	var lamps struct {
		Lamps []struct {
			Color string `json:"color"`
		} `json:"lamps"`
	}
	document, err := config.Read([]byte("apiVersion: lamps.example.dev/v1beta1\nkind: LampConfiguration\nlamps: [{color: red}, {colour: blue}]"), kind)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(document.Version)
	fmt.Println(document.Decode(&lamps))
	// Output:
	// v1beta1
	// lamps[1].colour: Forbidden: unknown field, did you mean "color"?
}
