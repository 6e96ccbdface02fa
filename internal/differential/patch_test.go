package differential

import (
	"encoding/json"
	"strings"
)

// patch returns a JSON patch, a merge patch or a strategic merge patch.
func (g *generator) patch() *ask {
	a := g.one("patch", "PATCH")
	switch g.IntN(3) {
	case 0:
		a.does, a.body = "json patch", g.jsonPatch()
		a.header = append(a.header, [2]string{"Content-Type", g.patchType("application/json-patch+json")})
	case 1:
		a.does, a.body = "merge patch", g.mergePatch(a.object)
		a.header = append(a.header, [2]string{"Content-Type", g.patchType("application/merge-patch+json")})
	default:
		g.cm = g.cm || !g.in(4) // gadgets refuse it
		g.faulty = !g.cm
		a = g.one("strategic patch", "PATCH")
		a.body = g.strategicPatch(a.object)
		a.header = append(a.header, [2]string{"Content-Type", g.patchType("application/strategic-merge-patch+json")})
	}
	if g.fault(30) {
		a.query = append(a.query, [2]string{"force", of(g, "true", "false", "x")})
	}
	return g.options(a)
}

func (g *generator) patchType(usual string) string {
	if g.fault(40) {
		return of(g, "application/json", "", "text/plain", usual+"; charset=utf-8", "nonsense", "application/yaml", strings.ToUpper(usual))
	}
	return usual
}

func (g *generator) jsonPatch() string {
	if g.fault(15) {
		return of(g, "", "{}", "[", "null", "[]", "[{}]", `[{"op":"nonsense","path":"/x"}]`, `[{"op":"add","path":"x","value":1}]`, `[{"op":"add"}]`, `[5]`,
			`[{"op":"add","path":"/metadata/labels/x"}]`, `[{"op":"replace","path":"","value":{}}]`, `[{"op":"add","path":"/metadata","value":5}]`)
	}
	field, value := "/data/k", of[any](g, "1", "2", "9", 5, nil)
	if !g.cm {
		field = of(g, "/spec/seq", "/spec/alpha", "/spec/beta")
	}
	g.faulty = true
	var ops []object
	for range 1 + g.IntN(3) {
		ops = append(ops, of(g,
			object{"op": "replace", "path": field, "value": value},
			object{"op": "add", "path": field, "value": of(g, "1", "7")},
			object{"op": "remove", "path": field},
			object{"op": "test", "path": field, "value": of(g, "1", "2")},
			object{"op": "test", "path": "/metadata/name", "value": "a"},
			object{"op": "add", "path": "/metadata/labels", "value": g.labels()},
			object{"op": "add", "path": "/metadata/labels/tier", "value": of[any](g, "1", "2", 5)},
			object{"op": "remove", "path": "/metadata/labels/tier"},
			object{"op": "remove", "path": "/metadata/finalizers"},
			object{"op": "add", "path": "/metadata/finalizers", "value": []string{"example.com/hold"}},
			object{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/more"},
			object{"op": "copy", "from": field, "path": "/metadata/annotations/copied"},
			object{"op": "move", "from": field, "path": field + "2"},
			object{"op": "replace", "path": "/metadata/name", "value": of(g, "a", "renamed")},
			object{"op": "replace", "path": "/metadata/resourceVersion", "value": g.version()},
			object{"op": "add", "path": "/spec/ports/-", "value": object{"name": "http", "port": 1}},
			object{"op": "add", "path": "/foo", "value": 1},
			object{"op": "replace", "path": "/metadata/managedFields", "value": []object{{}}},
			object{"op": "add", "path": "/metadata/annotations", "value": object{"note": "x"}},
			object{"op": "replace", "path": "/metadata/uid", "value": "x"},
			object{"op": "replace", "path": "/kind", "value": "Other"},
			object{"op": "add", "path": "/metadata/labels/-/x", "value": "1"},
			object{"op": "add", "path": "/spec/ports/7", "value": object{"name": "far", "port": 1}},
		))
		if !g.in(3) {
			break
		}
	}
	data, _ := json.Marshal(ops)
	return string(data)
}

// change returns an object with some of its fields, as in a merge patch.
func (g *generator) change(name string) object {
	o := object{}
	if g.in(2) {
		m := g.metadata()
		if g.in(3) {
			m["labels"] = of[any](g, nil, object{"tier": nil}, object{"app": nil, "new": "x"}, object{})
		}
		if g.in(5) {
			m["finalizers"] = of[any](g, nil, []string{}, []string{"example.com/hold"})
		}
		if g.in(6) {
			if v := g.newest(name); v != "" {
				m["resourceVersion"] = v
			}
		}
		if g.fault(20) {
			m["name"] = of(g, "a", "renamed")
		}
		o["metadata"] = m
	}
	if !g.in(3) {
		g.content(o)
		if g.in(3) {
			if g.cm {
				o["data"] = of[any](g, nil, object{"k": nil, "m": "1"}, object{"l": nil, "m": "n"})
			} else {
				o["spec"] = of[any](g, object{"alpha": nil}, object{"seq": nil}, object{"size": nil}, object{"ports": nil}, nil, object{"paused": nil, "beta": "b"})
			}
		}
	}
	if g.in(15) {
		o["apiVersion"], o["kind"] = g.kind()
		if g.fault(3) {
			o["kind"] = "Other"
		}
	}
	return o
}

func (g *generator) mergePatch(name string) string {
	if g.fault(25) {
		return of(g, "", "null", "[]", "{", `"x"`, "{}", `{"metadata":null}`, `{"metadata":5}`, "5")
	}
	return g.written(g.change(name))
}

func (g *generator) strategicPatch(name string) string {
	o := g.change(name)
	if g.faulty {
		return g.written(o)
	}
	n := g.IntN(12)
	g.faulty = n < 7
	switch n {
	case 0:
		o["data"] = object{"$patch": of(g, "replace", "delete", "merge", "nonsense"), "k": "5"}
	case 1:
		o["metadata"] = object{"$deleteFromPrimitiveList/finalizers": []string{"example.com/hold"}}
	case 2:
		o["metadata"] = object{"finalizers": []string{"example.com/more"}}
	case 3:
		o["metadata"] = object{"$setElementOrder/finalizers": []string{"example.com/more", "example.com/hold"}, "finalizers": []string{"example.com/more"}}
	case 4:
		o["$patch"] = of(g, "delete", "replace", "merge")
	case 5:
		o["metadata"] = object{"$retainKeys": []string{"name"}}
	case 6:
		return of(g, "", "null", "[]", "{", "{}", `{"metadata":null}`, `{"metadata":5}`, `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"u"}]}}`,
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"o","uid":"u"}]}}`)
	}
	return g.written(o)
}

// apply returns a server-side apply.
func (g *generator) apply() *ask {
	a := g.one("apply", "PATCH")
	name := a.object[strings.IndexByte(a.object, '/')+1:]
	o := object{}
	o["apiVersion"], o["kind"] = g.kind()
	m := object{"name": name}
	o["metadata"] = m
	if g.in(3) {
		m["labels"] = g.labels()
	}
	if g.in(8) {
		m["finalizers"] = []string{"example.com/hold"}
	}
	if g.in(8) {
		m["annotations"] = object{"note": of(g, "one", "two")}
	}
	if !g.in(6) {
		g.content(o)
	}
	if g.faulty {
		return g.applied(a, o)
	}
	n := g.IntN(30)
	g.faulty = n < 9
	switch n {
	case 0:
		m["managedFields"] = []object{}
	case 1:
		m["uid"] = g.uid()
	case 2:
		m["resourceVersion"] = g.version()
	case 3:
		o["kind"] = "Other"
	case 4:
		delete(o, of(g, "kind", "apiVersion", "metadata"))
	case 5:
		delete(m, "name")
	case 6:
		m["name"] = "other"
	case 7:
		m["namespace"] = of(g, "other", "⟦namespace⟧")
	case 8:
		g.spoil(m)
	}
	return g.applied(a, o)
}

// applied sends an object as an apply.
func (g *generator) applied(a *ask, o object) *ask {
	a.body = g.written(o)
	a.header = append(a.header, [2]string{"Content-Type", "application/apply-patch+yaml"})
	a.query = append(a.query, [2]string{"fieldManager", of(g, "m1", "m2", "m3")})
	if g.in(3) {
		a.query = append(a.query, [2]string{"force", of(g, "true", "true", "true", "false", "x", "")})
	}
	if g.in(12) {
		a.query = append(a.query, [2]string{"dryRun", value(g, 3, []string{"All"}, []string{"Bad"})})
	}
	if g.in(8) {
		a.query = append(a.query, [2]string{"fieldValidation", value(g, 4, []string{"Strict", "Warn", "Ignore"}, []string{"Bad"})})
	}
	if g.fault(30) {
		a.query = a.query[1:]
	}
	return a
}
