package apply_test

import (
	"fmt"
	"log"
	"time"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// Two managers share one object. Each sends only the fields it cares about. Neither can change a
// field of the other unless it forces the change.
func Example() {
	schema, errs := openapi.FromTree(tree(`
type: object
properties:
  spec:
    type: object
    properties:
      size: {type: integer}
      color: {type: string}
`))
	if len(errs) > 0 {
		log.Fatal(errs)
	}
	fields, err := apply.New([]apply.Version{{APIVersion: "example.dev/v1", Schema: schema}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	send := func(live map[string]any, manager, spec string, force bool) (map[string]any, error) {
		return fields.Apply(apply.Request{
			Live:    live,
			New:     tree("{apiVersion: example.dev/v1, kind: Widget, metadata: {name: a}, spec: " + spec + "}"),
			Manager: manager, APIVersion: "example.dev/v1", Force: force,
			Time: meta.NewTime(time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)),
		})
	}

	object, err := send(nil, "deploy", "{size: 3, color: red}", false)
	fmt.Println(object["spec"], err)
	_, err = send(object, "autoscaler", "{size: 5}", false)
	fmt.Println(err)
	object, err = send(object, "autoscaler", "{size: 5}", true)
	fmt.Println(object["spec"], err)
	again, err := send(object, "autoscaler", "{size: 5}", false)
	fmt.Println("unchanged:", apply.EqualButTimes(object, again), err)

	metadata := object["metadata"].(map[string]any)
	for _, entry := range metadata["managedFields"].([]any) {
		e := entry.(map[string]any)
		text, err := json.AppendTree(nil, e["fieldsV1"])
		fmt.Println(e["manager"], string(text), err)
	}
	// Output:
	// map[color:red size:3] <nil>
	// Apply failed with 1 conflict: conflict with "deploy": .spec.size
	// map[color:red size:5] <nil>
	// unchanged: true <nil>
	// autoscaler {"f:spec":{"f:size":{}}} <nil>
	// deploy {"f:spec":{"f:color":{}}} <nil>
}

func tree(text string) map[string]any {
	data, err := yaml.ToJSON([]byte(text), 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	out, err := json.DecodeTree(data, json.TreeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return out.(map[string]any)
}
