package kube_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"github.com/kindwright/kindwright/internal/json"
)

// TestKubernetesTypesBecomeTreesAsTheirText converts random values of every type of Kubernetes in
// both directions, as package json does for hooks and rules, and compares with what goes through text.
func TestKubernetesTypesBecomeTreesAsTheirText(t *testing.T) {
	var objects int
	for kind, typ := range scheme.Scheme.AllKnownTypes() {
		if strings.HasPrefix(kind.Version, "__") || strings.HasSuffix(kind.Kind, "Options") {
			continue
		}
		filler := randfill.NewWithSeed(1).NilChance(0.4).NumElements(0, 2).MaxDepth(12).Funcs(
			func(r *runtime.RawExtension, _ randfill.Continue) { r.Raw = []byte(`{"a":1.0}`) },
			func(*runtime.Object, randfill.Continue) {},
			func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"f:a":{}}`) },
			func(q *resource.Quantity, _ randfill.Continue) { *q = resource.MustParse("1.5Gi") },
			func(t *metav1.Time, c randfill.Continue) { t.Time = time.Unix(c.Int63n(1e9), 0).Local() },
			func(t *metav1.MicroTime, c randfill.Continue) { t.Time = time.UnixMicro(c.Int63n(1e15)).Local() },
			func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31()) },
		)
		for range 4 {
			objects++
			v := reflect.New(typ)
			filler.Fill(v.Interface())
			text, err := json.Marshal(v.Interface())
			require.NoError(t, err, kind)
			want, err := json.DecodeTree(text, json.TreeOptions{})
			require.NoError(t, err, kind)
			got, err := json.TreeOf(v.Interface())
			require.NoError(t, err, kind)
			require.Equal(t, want, got, kind)

			text, err = json.AppendTree(nil, got)
			require.NoError(t, err, kind)
			filled, direct := reflect.New(typ), reflect.New(typ)
			require.NoError(t, json.Unmarshal(text, filled.Interface()), kind)
			require.NoError(t, json.FromTree(got, direct.Interface()), kind)
			require.Equal(t, filled.Interface(), direct.Interface(), kind)
		}
	}
	assert.Greater(t, objects, 500)
}
