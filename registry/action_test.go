package registry_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

type vase struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

func TestPATH_15_PATH_21_SubresourcesThatCannotBeServed(t *testing.T) {
	act := func(context.Context, registry.Action) (registry.Tree, error) { return nil, nil }
	merge := func(_, sent registry.Tree) registry.Tree { return sent }
	for text, sub := range map[string]registry.Subresource{
		"":                  {Name: "x", Verbs: []string{"create"}, Act: act},
		"belong together":   {Name: "x", Verbs: []string{"create"}},
		"and the function":  {Name: "x", Verbs: []string{"get"}, Act: act},
		"has no Merge":      {Name: "x", Verbs: []string{"create", "patch"}, Act: act},
		"cannot be served":  {Name: "x", Verbs: []string{"delete"}, Merge: merge},
		"has no verbs":      {Name: "x", Merge: merge},
		`subresource "a b"`: {Name: "a b", Verbs: []string{"get"}},
	} {
		_, err := registry.Kind[vase]{Group: "example.dev", Version: "v1", Plural: "vases", Name: "Vase", Subresources: []registry.Subresource{sub}}.Resource()
		if text == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, text)
		}
	}
}
