package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

type pot struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

func TestDEL_10_ADeletionThatCannotBeMeantIsRefused(t *testing.T) {
	for want, d := range map[string]registry.Deletion{
		`Deletion.Policy "orphan" is none of`: {Policy: "orphan"},
		"Deletion.Expire is for kinds":        {Expire: true},
		"NoDependents and a Policy exclude":   {NoDependents: true, Policy: meta.DeletePropagationOrphan},
		"":                                    {Policy: meta.DeletePropagationForeground},
	} {
		_, err := registry.Kind[pot]{Group: "shop.example.com", Version: "v1", Plural: "pots", Names: registry.Names{Kind: "Pot"}, Deletion: d}.Resource()
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	_, err := registry.Kind[pot]{
		Group: "shop.example.com", Version: "v1", Plural: "pots", Names: registry.Names{Kind: "Pot"},
		Deletion: registry.Deletion{Expire: true}, Rules: registry.Rules[pot]{Grace: registry.GraceSeconds[*pot](5)},
	}.Resource()
	require.NoError(t, err)
}

func TestDEL_08_GraceSecondsIsWhatNobodyAskedFor(t *testing.T) {
	three := int64(3)
	require.Equal(t, int64(7), registry.GraceSeconds[registry.Tree](7)(nil, nil))
	require.Equal(t, three, registry.GraceSeconds[registry.Tree](7)(nil, &three))
}
