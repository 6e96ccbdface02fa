package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
)

// texts are strings that might break a marshaller.
var texts = []string{
	"", "a", "app", "näme", "日本", "😀", "<&>", "\"quoted\"", "back\\slash", "line\nbreak\ttab", "\u2028\u2029", "\x00\x01\x7f",
	strings.Repeat("x", 126), strings.Repeat("x", 127), strings.Repeat("x", 128), strings.Repeat("y", 300), strings.Repeat("ü", 9000),
}

func text(c randfill.Continue) string {
	if c.Intn(3) == 0 {
		return texts[c.Intn(len(texts))]
	}
	return fmt.Sprintf("t%d", c.Intn(1_000_000))
}

// raws are field sets of managed fields.
var raws = []string{`{}`, `{"a":1}`, `{"f:metadata":{"f:labels":{".":{},"f:a<b":{}}}}`}

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(.4).NumElements(0, 3).MaxDepth(30).Funcs(
		func(s *string, c randfill.Continue) { *s = text(c) },
		func(l *metav1.ListMeta, c randfill.Continue) {
			c.FillNoCustom(l)
			l.ShardInfo = nil // for sharded lists, which are not supported
		},
		func(s *corev1.NamespaceSpec, c randfill.Continue) { // never empty: the server sets it
			s.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes, corev1.FinalizerName(text(c))}
		},
		func(s *corev1.NamespaceStatus, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Phase = corev1.NamespaceActive
			for i := range s.Conditions {
				s.Conditions[i].LastTransitionTime = metav1.Unix(c.Int63n(1<<32), 0)
			}
		},
		func(t *metav1.Time, c randfill.Continue) {
			if c.Intn(5) > 0 {
				t.Time = time.Unix(c.Int63n(253402300799+62167219200)-62167219200, c.Int63n(1e9)).UTC()
			}
		},
		func(t *metav1.MicroTime, c randfill.Continue) {
			if c.Intn(5) > 0 {
				t.Time = time.Unix(c.Int63n(253402300799+62167219200)-62167219200, c.Int63n(1e9)).UTC()
			}
		},
		func(v *metav1.FieldsV1, c randfill.Continue) { v.SetRawBytes([]byte(raws[c.Intn(len(raws))])) },
		func(v *apiextensionsv1.JSON, c randfill.Continue) { v.Raw = []byte(raws[c.Intn(len(raws))]) },
		func(s *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
			if s.Type = text(c); c.Intn(40) == 0 { // most are leaves, or there would be no end
				c.FillNoCustom(s)
			}
		},
	)
}

// random returns a random value of a type. It is read back from its JSON, so that values that JSON
// cannot distinguish become equal.
func random(t reflect.Type, seed int64) (value any, text []byte, err error) {
	v := reflect.New(t).Interface()
	filler(seed).Fill(v)
	return viaJSON(t, v)
}

func viaJSON(t reflect.Type, v any) (value any, text []byte, err error) {
	if text, err = plainJSON(v); err != nil {
		return nil, nil, err
	}
	out := reflect.New(t).Interface()
	if err := json.Unmarshal(text, out); err != nil {
		return nil, nil, err
	}
	text, err = plainJSON(out)
	return out, text, err
}

// plainJSON returns JSON without HTML escapes, which would otherwise end up in raw JSON.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
