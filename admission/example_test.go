package admission_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
)

// One plugin labels every object, another one closes a namespace.
func Example() {
	stamp := admission.Plugin{Name: "stamp", Rules: []admission.Rule{{Operations: []admission.Operation{admission.Create}}}, Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		return admission.Patched(r, admission.Set("yes", "metadata", "labels", "checked"))
	})}
	closed := admission.Plugin{Name: "closed", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Namespace == "archive" {
			return admission.Denied(r, "the archive is closed")
		}
		return nil
	})}
	chain, err := admission.NewChain(stamp, closed)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := &admission.Request{
		Operation: admission.Create, Namespace: "archive", Name: "desk",
		Resource: meta.GroupVersionResource{Group: "home.example.com", Version: "v1", Resource: "lamps"},
		Object:   map[string]any{"metadata": map[string]any{"name": "desk"}},
	}
	object, changed, err := chain.Mutate(context.Background(), r)
	fmt.Println(object, changed, err)
	fmt.Println(chain.Validate(context.Background(), r))
	// Output:
	// map[metadata:map[labels:map[checked:yes] name:desk]] true <nil>
	// lamps.home.example.com "desk" is forbidden: the archive is closed
}

// Lamp is the Go type of a kind.
type Lamp struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Watts           int64 `json:"watts"`
}

// A plugin on Go structs handles one of the kinds of a server.
func ExampleTypedMutator() {
	lamps := admission.Rule{Groups: []string{"home.example.com"}, Resources: []string{"lamps"}}
	dim := admission.Plugin{Name: "dim", Rules: []admission.Rule{lamps}, Mutator: admission.TypedMutator(
		func(_ context.Context, r *admission.Request, l *Lamp) error {
			if l.Watts > 100 {
				return admission.Denied(r, "that is a stove")
			}
			l.Watts = min(l.Watts, 40)
			return nil
		})}
	chain, err := admission.NewChain(dim)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, watts := range []int64{60, 2000} {
		lamp := map[string]any{"metadata": map[string]any{"name": "desk"}, "watts": watts}
		out, _, err := chain.Mutate(context.Background(), &admission.Request{
			Operation: admission.Create, Name: "desk", Object: lamp,
			Resource: meta.GroupVersionResource{Group: "home.example.com", Version: "v1", Resource: "lamps"},
		})
		fmt.Println(out["watts"], err)
	}
	// Output:
	// 40 <nil>
	// <nil> lamps.home.example.com "desk" is forbidden: that is a stove
}
