package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"
)

// Write is a write of an object under a schema with rules, and what Kubernetes says to it.
type Write struct {
	Schema   json.RawMessage `json:"schema"`
	Object   map[string]any  `json:"object"`
	Old      map[string]any  `json:"old,omitempty"`
	Causes   []string        `json:"causes"`
	Warnings []string        `json:"warnings"`
}

// warnings collects the warnings of one write.
type warnings []string

// AddWarning adds a warning.
func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

// writesCount is how many writes are recorded.
const writesCount = 300

// writes returns random writes, which are the same in every run with the same seed. The first ones are made,
// because each depends on those before it, and Kubernetes is not asked about them.
func writes(from, count, seed int) iter.Seq2[Write, error] {
	random := rand.New(rand.NewPCG(uint64(seed), 2))
	return func(yield func(Write, error) bool) {
		for range from {
			if _, err := write(random); err != nil {
				yield(Write{}, err)
				return
			}
		}
		for ; count > 0; count -= stretch {
			for _, w := range judged(random, min(count, stretch)) {
				if !yield(w.Write, w.err) || w.err != nil {
					return
				}
			}
		}
	}
}

// stretch is how many writes are judged side by side, before the next ones are made.
const stretch = 1000

// answered is a write with its answers, or why there are none.
type answered struct {
	Write

	err error
}

// judged makes some writes, one after the other, and asks Kubernetes about all of them at once: compiling the
// rules of a schema takes milliseconds there.
func judged(random *rand.Rand, count int) []answered {
	out := make([]answered, count)
	next := make(chan *answered)
	var asking sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		asking.Go(func() {
			for w := range next {
				w.err = judge(&w.Write)
			}
		})
	}
	for i := range out {
		if out[i].Write, out[i].err = write(random); out[i].err == nil {
			next <- &out[i]
		}
	}
	close(next)
	asking.Wait()
	return out
}

// write makes one write.
func write(random *rand.Rand) (Write, error) {
	g := generator{random}
	document, err := json.Marshal(g.root())
	if err != nil {
		return Write{}, err
	}
	w := Write{Schema: document, Object: g.object(), Causes: []string{}, Warnings: []string{}}
	if random.IntN(4) > 0 {
		w.Old = g.object()
		if random.IntN(2) > 0 { // mostly the same
			w.Old = copied(w.Object)
			g.change(w.Old["spec"].(map[string]any))
		}
	}
	return w, nil
}

// judge asks Kubernetes.
func judge(w *Write) error {
	structural, err := read(string(w.Schema))
	if err != nil {
		return err
	}
	validator := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	var collected warnings
	ctx := warning.WithWarningRecorder(context.Background(), &collected)
	var old any
	var options []cel.Option
	if w.Old != nil {
		old = w.Old
		options = append(options, cel.WithRatcheting(common.NewCorrelatedObject(w.Object, w.Old, &model.Structural{Structural: structural})))
	}
	errs, _ := validator.Validate(ctx, nil, structural, w.Object, old, celconfig.RuntimeCELCostBudget, options...)
	for _, e := range errs {
		w.Causes = append(w.Causes, e.Error())
	}
	w.Warnings = append(w.Warnings, collected...)
	slices.Sort(w.Causes) // Kubernetes visits fields in any order
	slices.Sort(w.Warnings)
	return nil
}

func copied(v map[string]any) map[string]any {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was made of strings and numbers
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return integers(out).(map[string]any)
}

// generator makes schemas with rules, and objects that fit them.
type generator struct{ random *rand.Rand }

func (g generator) chance(n int) bool { return g.random.IntN(n) == 0 }

func (g generator) pick(from ...string) string { return from[g.random.IntN(len(from))] }

// rules returns a few of some rules, with messages of all kinds.
func (g generator) rules(expressions ...string) v1.ValidationRules {
	var out v1.ValidationRules
	for range g.random.IntN(3) {
		r := v1.ValidationRule{Rule: g.pick(expressions...)}
		switch g.random.IntN(5) {
		case 0:
			r.Message = "message " + fmt.Sprint(g.random.IntN(3))
		case 1:
			r.MessageExpression = g.pick("'says ' + 'so'", "'a\\nb'", "''", "string(1 / 0)", "'  trimmed '")
			if g.chance(2) {
				r.Message = "instead"
			}
		}
		if g.chance(4) {
			reason := []v1.FieldValueErrorReason{v1.FieldValueForbidden, v1.FieldValueRequired, v1.FieldValueDuplicate, v1.FieldValueInvalid}[g.random.IntN(4)]
			r.Reason = &reason
		}
		out = append(out, r)
	}
	return out
}

func (g generator) text() v1.JSONSchemaProps {
	return v1.JSONSchemaProps{Type: "string", XValidations: g.rules("self != 'a'", "self == oldSelf", "self.size() < 2", "self.startsWith('b') || self == 'a'", "int(self) > 0")}
}

func (g generator) number() v1.JSONSchemaProps {
	return v1.JSONSchemaProps{Type: "integer", XValidations: g.rules("self > 1", "self >= oldSelf", "10 / self > 3")}
}

func (g generator) root() v1.JSONSchemaProps {
	list, set, keyed := "atomic", "set", "map"
	item := v1.JSONSchemaProps{
		Type: "object", Required: []string{"k"}, Properties: map[string]v1.JSONSchemaProps{"k": {Type: "string"}, "v": g.number()},
		XValidations: g.rules("self.v > 1", "self.v == oldSelf.v", "self.k != 'b'", "has(self.v)"),
	}
	plain := v1.JSONSchemaProps{Type: "string", XValidations: g.rules("self != 'a'", "self.size() > 1")}
	text := g.text()
	spec := v1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]v1.JSONSchemaProps{
			"s": g.text(), "n": g.number(), "a-b": g.text(),
			"io":   {XIntOrString: true, XValidations: g.rules("self == 1", "self == 'a'", "type(self) == int", "self > 1")},
			"list": {Type: "array", XListType: &list, Items: &v1.JSONSchemaPropsOrArray{Schema: &plain}, XValidations: g.rules("self.size() < 2", "self == oldSelf", "self.all(i, i != 'b')")},
			"set":  {Type: "array", XListType: &set, Items: &v1.JSONSchemaPropsOrArray{Schema: &plain}, XValidations: g.rules("self == oldSelf", "oldSelf.all(i, i in self)", "self == ['a', 'b']")},
			"keyed": {
				Type: "array", XListType: &keyed, XListMapKeys: []string{"k"}, Items: &v1.JSONSchemaPropsOrArray{Schema: &item},
				XValidations: g.rules("self == oldSelf", "self.exists(i, i.k == 'a')", "self.size() == oldSelf.size()", "(self + oldSelf).size() == self.size()"),
			},
			"map": {Type: "object", AdditionalProperties: &v1.JSONSchemaPropsOrBool{Allows: true, Schema: &text}, XValidations: g.rules("self.all(k, k != 'a')", "self == oldSelf", "'a' in self && self['a'] == 'b'")},
		},
		XValidations: g.rules("has(self.s)", "self.n > 2", "!has(self.list) || self.list.size() < 3", "self == oldSelf", "self.a__dash__b == self.s", "has(self.io) ? self.io != 2 : true", "self.map.a == 'a'"),
	}
	for i := range spec.XValidations {
		if g.chance(3) {
			spec.XValidations[i].FieldPath = g.pick(".s", ".n", ".map['a']", "['a-b']")
		}
		g.optional(&spec.XValidations[i])
	}
	root := v1.JSONSchemaProps{Type: "object", Properties: map[string]v1.JSONSchemaProps{"spec": spec}, XValidations: g.rules("self.metadata.name == 'x'", "self.kind == 'K'", "has(self.spec.s)", "self.spec == oldSelf.spec")}
	return root
}

// optional makes some rules that use oldSelf apply to new values too.
func (g generator) optional(r *v1.ValidationRule) {
	if r.Rule == "self == oldSelf" && g.chance(2) {
		yes := true
		r.Rule, r.OptionalOldSelf = g.pick("!oldSelf.hasValue() || oldSelf.value() == self", "oldSelf.hasValue()", "oldSelf.orValue(self).n == self.n"), &yes
	}
}

func (g generator) object() map[string]any {
	spec := map[string]any{}
	for range 6 {
		g.change(spec)
	}
	return map[string]any{"apiVersion": "g.example.com/v1", "kind": "K", "metadata": map[string]any{"name": g.pick("x", "y")}, "spec": spec}
}

// change changes one field of a spec.
func (g generator) change(spec map[string]any) {
	letters := func() []any {
		out := []any{}
		for _, s := range []string{"a", "b", "cc"} {
			if g.chance(2) {
				out = append(out, s)
			}
		}
		g.random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out
	}
	switch field := g.pick("s", "n", "a-b", "io", "list", "set", "keyed", "map"); field {
	case "s", "a-b":
		spec[field] = g.pick("a", "b", "cc", "1")
	case "n":
		spec[field] = int64(g.random.IntN(5))
	case "io":
		spec[field] = any(int64(g.random.IntN(3)))
		if g.chance(2) {
			spec[field] = g.pick("a", "b")
		}
	case "list", "set":
		spec[field] = letters()
	case "keyed":
		items := letters()
		for i, k := range items {
			item := map[string]any{"k": k}
			if !g.chance(4) {
				item["v"] = int64(g.random.IntN(4))
			}
			items[i] = item
		}
		spec[field] = items
	case "map":
		m := map[string]any{}
		for _, k := range letters() {
			m[k.(string)] = g.pick("a", "b", "cc")
		}
		spec[field] = m
	}
	if g.chance(8) {
		delete(spec, g.pick("s", "n", "list", "keyed", "map"))
	}
}
