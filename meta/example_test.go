package meta_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kindwright/kindwright/meta"
)

// An object is a struct that embeds TypeMeta and ObjectMeta.
func Example() {
	type Widget struct {
		meta.TypeMeta
		meta.ObjectMeta `json:"metadata"`
		Spec            struct {
			Size int32 `json:"size"`
		} `json:"spec"`
	}
	kind := meta.GroupVersion{Group: "example.dev", Version: "v1"}.WithKind("Widget")

	w := Widget{
		TypeMeta:   meta.TypeMeta{Kind: kind.Kind, APIVersion: kind.GroupVersion().String()},
		ObjectMeta: meta.Named("team", "blue"),
	}
	w.CreationTimestamp = meta.NewTime(time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC))
	w.Spec.Size = 3

	b, err := json.Marshal(w)
	fmt.Println(string(b), err)
	fmt.Println(w.Key(), w.GroupVersionKind())
	// Output:
	// {"kind":"Widget","apiVersion":"example.dev/v1","metadata":{"name":"blue","namespace":"team","creationTimestamp":"2024-01-02T03:04:05Z"},"spec":{"size":3}} <nil>
	// team/blue example.dev/v1, Kind=Widget
}

func ExampleParseSelector() {
	s, err := meta.ParseSelector("tier in (front, back), app==web, !legacy")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s)
	fmt.Println(s.Matches(meta.LabelMap{"app": "web", "tier": "back"}))
	fmt.Println(s.Matches(meta.LabelMap{"app": "web", "tier": "back", "legacy": ""}))

	_, err = meta.ParseSelector("app in (web")
	fmt.Println(err)
	// Output:
	// app=web,!legacy,tier in (back,front)
	// true
	// false
	// unable to parse requirement: found the end where ',' or ')' was expected
}

func ExampleSelectorFrom() {
	everything, _ := meta.SelectorFrom(&meta.LabelSelector{})
	nothing, _ := meta.SelectorFrom(nil)
	labels := meta.LabelMap{"app": "web"}
	fmt.Println(everything.Matches(labels), nothing.Matches(labels))
	// Output: true false
}

func ExampleParseFieldSelector() {
	s, err := meta.ParseFieldSelector(`metadata.name=web,spec.owner!=a\,b`)
	if err != nil {
		fmt.Println(err)
		return
	}
	name, pinned := s.Exact("metadata.name")
	fmt.Println(name, pinned)
	fmt.Println(s.Matches(meta.LabelMap{"metadata.name": "web", "spec.owner": "c"}))
	fmt.Println(s.Check("metadata.name", "metadata.namespace"))
	// Output:
	// web true
	// true
	// "spec.owner" is not a known field selector: only "metadata.name", "metadata.namespace"
}

func ExampleCompareVersions() {
	versions := []string{"v1alpha1", "v1", "v2beta1", "v10", "v1beta2"}
	slices.SortFunc(versions, meta.CompareVersions)
	fmt.Println(versions)
	// Output: [v10 v1 v2beta1 v1beta2 v1alpha1]
}

func ExampleCheckDNSLabel() {
	for _, name := range []string{"team-a", "Team"} {
		if problem := meta.CheckDNSLabel(name); problem != "" {
			fmt.Printf("%q %s\n", name, problem)
		}
	}
	// Output: "Team" must consist of lower-case letters, digits and '-', and must start and end with a letter or digit (for example "my-name")
}
