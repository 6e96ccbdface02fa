package apitest

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// generator makes random objects by their schema. Values have the right shape and respect simple
// bounds, but not patterns and conditions.
type generator struct {
	rand  *rand.Rand
	depth int
}

// deepest limits objects of recursive types.
const deepest = 12

// object makes an object of a kind.
func (g *generator) object(r *registry.Resource) map[string]any {
	object, _ := g.value(r.Schema).(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	object["apiVersion"], object["kind"] = r.APIVersion(), r.Names.Kind
	metadata := map[string]any{"name": g.word(), "uid": "00000000-0000-4000-8000-000000000000", "labels": map[string]any{"l": g.word()}}
	if !r.ClusterScoped {
		metadata["namespace"] = "default"
	}
	object["metadata"] = metadata
	return settled(r, object)
}

func (g *generator) value(s *openapi.Schema) any {
	if s == nil || g.depth > deepest {
		return nil
	}
	g.depth++
	defer func() { g.depth-- }()
	if len(s.Enum) > 0 {
		return s.Enum[g.rand.IntN(len(s.Enum))]
	}
	switch s.Type {
	case openapi.Object:
		return g.members(s)
	case openapi.Array:
		return g.items(s)
	case openapi.String:
		return g.text(s)
	case openapi.Integer:
		return g.integer(s)
	case openapi.Number:
		return float64(g.integer(s)) + 0.5
	case openapi.Boolean:
		return g.rand.IntN(2) == 0
	}
	if s.IntOrString {
		return g.integer(s)
	}
	if s.PreserveUnknown || s.AdditionalProperties != nil {
		return g.members(s)
	}
	return nil
}

// often is true for three of four optional fields.
func (g *generator) often() bool { return g.rand.IntN(4) > 0 }

func (g *generator) members(s *openapi.Schema) map[string]any {
	out := map[string]any{}
	required := map[string]bool{}
	for _, name := range s.Required {
		required[name] = true
	}
	for _, p := range s.Properties {
		if required[p.Name] || g.often() {
			if v := g.value(p.Schema); v != nil {
				out[p.Name] = v
			}
		}
	}
	if s.AdditionalProperties != nil {
		for range g.rand.IntN(4) {
			if v := g.value(s.AdditionalProperties); v != nil {
				out[g.word()] = v
			}
		}
	}
	if s.PreserveUnknown && g.often() {
		out[g.word()] = g.word()
	}
	return out
}

func (g *generator) items(s *openapi.Schema) []any {
	n := g.rand.IntN(4)
	if s.MinItems != nil {
		n = max(n, int(min(*s.MinItems, 16)))
	}
	if s.MaxItems != nil {
		n = min(n, int(*s.MaxItems))
	}
	out := []any{}
	seen := map[string]bool{}
	for range n {
		v := g.value(s.Items)
		if v == nil {
			continue
		}
		id := ""
		if item, ok := v.(map[string]any); ok && s.ListType == openapi.ListMap {
			for _, key := range s.ListMapKeys {
				id += fmt.Sprint(item[key], "/")
			}
		} else if s.ListType == openapi.ListSet {
			id = fmt.Sprint(v)
		}
		if id == "" || !seen[id] {
			seen[id] = true
			out = append(out, v)
		}
	}
	return out
}

// span is the approximate range of random numbers without bounds.
const span = 1000

func (g *generator) integer(s *openapi.Schema) int64 {
	low, high := int64(-span), int64(span)
	if v, ok := bound(s.Minimum); ok {
		low, high = v+1, max(high, v+span)
	}
	if v, ok := bound(s.Maximum); ok {
		high = v - 1
		if s.Minimum == nil {
			low = min(low, high-span)
		}
	}
	if high < low {
		return low - 1 // one value is left between the bounds
	}
	n := low + g.rand.Int64N(high-low+1)
	if step, ok := bound(s.MultipleOf); ok && step > 0 {
		n -= n % step
	}
	return n
}

func bound(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	}
	return 0, false
}

func (g *generator) text(s *openapi.Schema) string {
	at := time.Unix(1700000000+g.rand.Int64N(100000000), g.rand.Int64N(1e6)*1000).UTC()
	switch {
	case s.Notation == openapi.NotationMicroTime:
		return at.Format("2006-01-02T15:04:05.000000Z07:00")
	case s.Notation == openapi.NotationTime, s.Format == "date-time", s.Format == "datetime":
		return at.Format(time.RFC3339)
	case s.Notation == openapi.NotationDuration, s.Format == "duration":
		return time.Duration(g.rand.IntN(86400) * int(time.Second)).String()
	case s.Notation == openapi.NotationBytes, s.Format == "byte":
		return base64.StdEncoding.EncodeToString([]byte(g.word()))
	case s.Format == "date":
		return at.Format(time.DateOnly)
	case s.Format == "ipv4":
		return fmt.Sprintf("192.0.2.%d", g.rand.IntN(256))
	case s.Format == "ipv6":
		return fmt.Sprintf("2001:db8::%x", g.rand.IntN(65536))
	case s.OrNumber: // a quantity
		return strconv.Itoa(g.rand.IntN(span))
	}
	out := g.word()
	for s.MinLength != nil && int64(len(out)) < min(*s.MinLength, 4096) {
		out += g.word()
	}
	if s.MaxLength != nil && int64(len(out)) > *s.MaxLength {
		out = out[:*s.MaxLength]
	}
	return out
}

// word returns a short word, which is also a valid name.
func (g *generator) word() string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	out := make([]byte, 1+g.rand.IntN(8))
	for i := range out {
		out[i] = letters[g.rand.IntN(len(letters))]
	}
	return string(out)
}
