package main

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// newDepth is how deep new values are.
const newDepth = 3

// A generator makes changes at random. One with the same seed makes the same ones.
type generator struct {
	*rand.Rand

	api  *source
	text []string
}

func newGenerator(api *source, seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 0)), api: api, text: texts()} //nolint:gosec // repeatable
}

// texts are strings that mean something to the check of some field.
func texts() []string {
	return []string{
		"", "a", "b", "A", "-", "0", "1", "-1", "a b", "a\nb", "é", "%", "=", "a=b", "x_y", "..", "*", strings.Repeat("a", 64), strings.Repeat("a", 254), // names
		"a.b", "*.a.b", "a/b", "a.b/c", "example.com/x", "kubernetes.io/x", "k8s.io", "system:x", "v1", "node", "default", "zone", "kubernetes.io/hostname", // qualified names
		"/", "/a", "../a", "https://a.b/c", "http://a", "1.2.3.4", "::1", "10.0.0.0/8", "http", "TCP", // paths, addresses, ports
		"cpu", "memory", "pods", "requests.cpu", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu", "50%", "101%", "1Gi", "100m", // resources and amounts
		"true", "True", "0-1", "1,3", "* * * * *", "TZ=UTC * * * * *", "@hourly", "UTC", "metadata.name", "$(A)", "-----BEGIN", // languages
	}
}

// one returns one of several.
func one[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// scalar makes a value of a scalar type.
func (g *generator) scalar(t reflect.Type) any {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return one[any](g, "0", "1", "-1", "1Gi", "100m", "1.5", "2Gi", "5", "1500m", "1000000000000", "0.0001")
	case reflect.TypeFor[intstr.IntOrString]():
		return one[any](g, 0., 1., -1., "50%", "http", "101%", "0%", "", "a_b", 80., 65536., "100%", "5")
	case reflect.TypeFor[metav1.Time]():
		return one[any](g, "2021-01-01T00:00:00Z", nil)
	case reflect.TypeFor[metav1.MicroTime]():
		return one[any](g, "2021-01-01T00:00:00.000000Z", nil)
	case reflect.TypeFor[metav1.Duration]():
		return one[any](g, "5s", "-1s")
	case reflect.TypeFor[runtime.RawExtension]():
		return map[string]any{"a": "b"}
	case reflect.TypeFor[metav1.FieldsV1]():
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.String:
		if values := g.api.values(t); len(values) > 0 && g.IntN(3) > 0 {
			return one(g, values...)
		}
		return one(g, g.text...)
	case reflect.Bool:
		return one(g, true, false)
	case reflect.Slice:
		return one[any](g, "AAAA", "", "e30=") // bytes
	case reflect.Interface:
		return nil
	default:
		return one[any](g, 0., 1., -1., 2., 3., 5., 10., 80., 100., 101., 512., 600., 1000., 1001., 3600., 32767., 65535., 65536., 86401., 2147483647., -2147483648.)
	}
}

// value makes a small value of a type, with at most so many structs in each other.
func (g *generator) value(t reflect.Type, depth int) any {
	t = pointed(t)
	if scalar(t) {
		return g.scalar(t)
	}
	switch t.Kind() {
	case reflect.Slice:
		out := []any{}
		for range g.IntN(3) {
			out = append(out, g.value(t.Elem(), depth-1))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for range g.IntN(3) {
			out[one(g, g.text...)] = g.value(t.Elem(), depth-1)
		}
		return out
	default:
		out := map[string]any{}
		fields := g.fields(t)
		if depth <= 0 || len(fields) == 0 {
			return out
		}
		for range 1 + g.IntN(3) {
			f := one(g, fields...)
			out[f.name] = g.value(f.typ, depth-1)
		}
		return out
	}
}

// fields returns the fields of a struct that Kubernetes' version has, too.
func (g *generator) fields(t reflect.Type) []field {
	return slices.DeleteFunc(jsonFields(t), func(f field) bool { return !g.api.has(f.in, f.name) })
}
