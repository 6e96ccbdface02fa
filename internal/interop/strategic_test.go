package interop

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	ours "github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/patch"
	"github.com/kindwright/kindwright/openapi"
)

// Strategic merge patches of pods have the same result as in apimachinery: patches that it
// computes, as kubectl does, and random ones that merge, replace, delete and reorder.
func TestPATCH_17_StrategicMergeAsApimachinery(t *testing.T) {
	schema, err := openapi.FromType(reflect.TypeFor[corev1.Pod]())
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 17))
	compared := 0
	for i := range 3000 {
		original, modified := randomPod(random), randomPod(random)
		computed, err := strategicpatch.CreateTwoWayMergePatch(original, modified, corev1.Pod{})
		require.NoError(t, err)
		for _, body := range [][]byte{computed, randomPatch(random)} {
			want, theirs := strategicpatch.StrategicMergePatch(original, body, corev1.Pod{})
			tree, err := ours.DecodeTree(original, ours.TreeOptions{})
			require.NoError(t, err)
			got, err := patch.Strategic(tree.(map[string]any), body, schema, patch.Options{})
			if theirs != nil {
				continue // it rejects some patches with a clear result, such as the order of a list without items
			}
			compared++
			require.NoError(t, err, "%d: %s", i, body)
			text, err := ours.AppendTree(nil, got)
			require.NoError(t, err)
			require.Equal(t, decodePod(t, want), decodePod(t, text), "%d: %s\npatched by %s", i, original, body)
		}
	}
	require.Greater(t, compared, 5000)
}

// decodePod drops unknown fields: apimachinery leaves some directives in items that it adds.
func decodePod(t *testing.T, body []byte) *corev1.Pod {
	pod := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(body, pod))
	return pod
}

func randomPod(random *rand.Rand) []byte {
	maybe := func(n int) bool { return random.IntN(n) == 0 }
	word := func() string { return string(rune('a' + random.IntN(5))) }
	pod := map[string]any{"metadata": map[string]any{}}
	metadata := pod["metadata"].(map[string]any)
	if maybe(2) {
		metadata["labels"] = map[string]any{word(): word(), word(): word()}
	}
	if maybe(2) {
		metadata["finalizers"] = distinct(random, 4, func(s string) any { return s })
	}
	spec := map[string]any{}
	pod["spec"] = spec
	spec["containers"] = distinct(random, 4, func(name string) any {
		c := map[string]any{"name": name, "image": word()}
		if maybe(2) {
			c["ports"] = distinct(random, 3, func(s string) any {
				return map[string]any{"containerPort": int(s[0]), "protocol": "TCP", "name": word()}
			})
		}
		if maybe(2) {
			c["env"] = distinct(random, 3, func(s string) any { return map[string]any{"name": s, "value": word()} })
		}
		if maybe(2) {
			c["command"] = []any{word(), word()}
		}
		return c
	})
	if maybe(2) {
		spec["tolerations"] = []any{map[string]any{"key": word()}}
	}
	if maybe(2) {
		spec["volumes"] = distinct(random, 3, func(s string) any {
			if maybe(2) {
				return map[string]any{"name": s, "emptyDir": map[string]any{"medium": word()}}
			}
			return map[string]any{"name": s, "hostPath": map[string]any{"path": word()}}
		})
	}
	if maybe(2) {
		spec["nodeSelector"] = map[string]any{word(): word()}
	}
	out, _ := json.Marshal(pod)
	return out
}

func distinct(random *rand.Rand, n int, item func(string) any) []any {
	out := []any{}
	for _, i := range random.Perm(5)[:random.IntN(n)] {
		out = append(out, item(string(rune('a'+i))))
	}
	return out
}

// randomPatch returns a patch whose directives may or may not fit the object.
func randomPatch(random *rand.Rand) []byte {
	word := func() string { return string(rune('a' + random.IntN(5))) }
	named := func() map[string]any { return map[string]any{"name": word()} }
	spec := map[string]any{}
	metadata := map[string]any{}
	switch random.IntN(6) {
	case 0:
		item := named()
		item["$patch"] = "delete"
		spec["containers"] = []any{item, map[string]any{"name": word(), "image": "new"}}
	case 1:
		spec["containers"] = []any{map[string]any{"$patch": "replace"}, map[string]any{"name": "z", "image": "new"}}
	case 2:
		metadata["$deleteFromPrimitiveList/finalizers"] = []any{word(), word()}
	case 3:
		order := distinct(random, 5, func(s string) any { return map[string]any{"name": s} })
		spec["$setElementOrder/containers"] = order
		if len(order) > 0 && random.IntN(2) == 0 {
			item := map[string]any{"image": "new"}
			item["name"] = order[random.IntN(len(order))].(map[string]any)["name"]
			spec["containers"] = []any{item}
		}
	case 4:
		spec["volumes"] = []any{map[string]any{"name": word(), "$retainKeys": []any{"name", "secret"}, "secret": map[string]any{"secretName": "s"}}}
	case 5:
		spec["nodeSelector"] = map[string]any{"n": "1", word(): nil}
		metadata["finalizers"] = distinct(random, 3, func(s string) any { return fmt.Sprintf("%s%s", s, s) })
	}
	out, _ := json.Marshal(map[string]any{"spec": spec, "metadata": metadata})
	return out
}
