package overlay_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	kwjson "github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/patch"
)

// Strategic merge patches of one random object to another, made by Kubernetes' own code, come out as with that code, for
// the lists that have a merge key as for those that have only a list type. Ports merge by one key there: so do they here.
func TestPATCH_17_KubernetesKindsMergeAsTheirTypesSay(t *testing.T) {
	all, types := schemas(t), stable(t)
	for gvk, lists := range merged {
		t.Run(gvk.Kind, func(t *testing.T) {
			m := manager{t: t, gvk: gvk, schema: all[gvk], lists: lists}
			zero := reflect.New(types[gvk]).Elem().Interface()
			typed := func(body []byte) any {
				out := reflect.New(types[gvk]).Interface()
				require.NoError(t, json.Unmarshal(body, out))
				return out
			}
			const enough = 150
			compared := 0
			random := rand.New(rand.NewPCG(17, 4))
			for rounds := 0; compared < enough && rounds < 300; rounds++ {
				original, modified, other := []byte(text(t, m.object(random))), []byte(text(t, m.object(random))), []byte(text(t, m.object(random)))
				computed, err := strategicpatch.CreateTwoWayMergePatch(original, modified, zero)
				if err != nil {
					continue // two ports of one number, say
				}
				objects := [][]byte{original}
				if !bytes.Contains(computed, []byte(`"$patch":"delete"`)) {
					objects = append(objects, other) // where somebody else was first: after a deletion, it appends to what it compares with
				}
				for _, on := range objects {
					want, theirs := strategicpatch.StrategicMergePatch(on, computed, zero)
					if theirs != nil || bytes.Contains(want, []byte(`"$`)) {
						continue // it leaves directives in items that it adds
					}
					tree, err := kwjson.DecodeTree(on, kwjson.TreeOptions{})
					require.NoError(t, err)
					got, err := patch.Strategic(tree.(map[string]any), computed, all[gvk], patch.Options{})
					require.NoError(t, err, "%s\npatched by %s", on, computed)
					compared++
					require.Equal(t, typed(want), typed([]byte(text(t, got))), "%s\npatched by %s", on, computed)
				}
			}
			require.GreaterOrEqual(t, compared, enough)
		})
	}
}
