package tolerationseconds_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/tolerationseconds"
	"github.com/kindwright/kindwright/meta"
)

// A program that serves Pods has the flags, and gives the plugin what they say.
func Example() {
	var tolerate tolerationseconds.Options
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	tolerate.AddFlags(flags)
	if err := flags.Parse([]string{"--default-unreachable-toleration-seconds=30"}); err != nil {
		fmt.Println(err)
		return
	}
	chain, err := admission.NewChain(tolerationseconds.Plugin(tolerate))
	if err != nil {
		fmt.Println(err)
		return
	}
	pod, _, err := chain.Mutate(context.Background(), &admission.Request{
		Operation: admission.Create, Resource: meta.GroupVersionResource{Version: "v1", Resource: "pods"},
		Namespace: "shop", Name: "web", Object: map[string]any{"spec": map[string]any{}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range pod["spec"].(map[string]any)["tolerations"].([]any) {
		text, _ := json.Marshal(t)
		fmt.Println(string(text))
	}
	// Output:
	// {"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300}
	// {"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":30}
}
