package differential

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A generator makes the requests of one episode. It depends only on its random numbers and on how
// many values have been seen.
type generator struct {
	*rand.Rand
	seen *side // either side: both have seen the same number of values
	made int   // objects with generated names
	cm   bool  // this request is about config maps

	// faulty is set once this request has a fault that a server may reject. If there were two, each
	// server could name another one first.
	faulty bool
}

func newGenerator(seed, episode uint64, seen *side) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, episode)), seen: seen}
}

// of returns one of its arguments.
func of[T any](g *generator, choices ...T) T { return choices[g.IntN(len(choices))] }

// in returns true once in n times.
func (g *generator) in(n int) bool { return g.IntN(n) == 0 }

// fault is like in, but true at most once in a request.
func (g *generator) fault(n int) bool {
	if g.faulty || !g.in(n) {
		return false
	}
	g.faulty = true
	return true
}

// value returns one of good, or rarely one of bad.
func value[T any](g *generator, n int, good, bad []T) T {
	if g.fault(n) {
		return of(g, bad...)
	}
	return of(g, good...)
}

// object is a JSON object under construction.
type object = map[string]any

// next makes a request.
func (g *generator) next() *ask {
	g.cm, g.faulty = g.in(2), false
	kinds := []struct {
		weight int
		make   func() *ask
	}{
		{24, g.create},
		{12, g.get},
		{12, g.update},
		{26, g.patch},
		{10, g.apply},
		{8, g.delete},
		{2, g.deleteCollection},
		{24, g.list},
		{3, g.watch},
		{4, g.other},
		{4, g.status},
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := g.IntN(total)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			a := k.make()
			if g.in(40) {
				a.query = append(a.query, of(g, [2]string{"pretty", of(g, "true", "false", "", "x")}, [2]string{"unknown", "1"},
					[2]string{"timeout", value(g, 2, []string{"10s"}, []string{"x", "-1s"})}))
			}
			return a
		}
	}
	panic("weights")
}

func (g *generator) resource() string {
	if g.cm {
		return configMaps
	}
	return gadgets
}

func (g *generator) root() string {
	if g.cm {
		return "/api/v1"
	}
	return "/apis/" + gadgetGroup + "/v1"
}

func (g *generator) collection() string {
	return g.root() + "/namespaces/⟦namespace⟧/" + g.resource()
}

// name returns one of a few names, so that requests meet. Rarely it is one that the server
// generated, or a bad one.
func (g *generator) name() string {
	switch {
	case g.in(20) && len(g.seen.names) > 0:
		return fmt.Sprintf("⟦name %d⟧", g.IntN(len(g.seen.names)))
	case g.fault(30):
		return of(g, "A_b", "-x", "x..y", strings.Repeat("x", 254), "a.b.c", "nobody", "%41", "é")
	default:
		return of(g, "a", "b", "c", "d")
	}
}

func (g *generator) version() string {
	switch {
	case g.fault(15):
		return of(g, "abc", "-1", "01", "1.5", "18446744073709551616", " 1")
	case len(g.seen.versions) == 0 || g.in(15):
		return of(g, "", "0")
	case g.in(2) || len(g.seen.lists) == 0:
		return fmt.Sprintf("⟦version %d⟧", max(g.IntN(len(g.seen.versions)), g.IntN(len(g.seen.versions))))
	default:
		return fmt.Sprintf("⟦list %d⟧", max(g.IntN(len(g.seen.lists)), g.IntN(len(g.seen.lists))))
	}
}

func (g *generator) kind() (apiVersion, kind string) {
	if g.cm {
		return "v1", "ConfigMap"
	}
	return gadgetGroup + "/v1", "Gadget"
}

// metadata returns metadata as clients send it, now and then with a fault.
func (g *generator) metadata() object {
	m := object{}
	if g.in(2) {
		m["labels"] = g.labels()
	}
	if g.in(3) {
		m["annotations"] = of(g, object{"note": "one"}, object{"note": "two", "example.com/x": ""}, object{"note": of(g, "three", "four")})
	}
	if g.in(8) {
		m["finalizers"] = of(g, []string{"example.com/hold"}, []string{"example.com/hold", "example.com/more"}, []string{})
	}
	if g.fault(12) {
		g.spoil(m)
	}
	return m
}

func (g *generator) labels() object {
	l := object{"app": of(g, "x", "y", "z")}
	if g.in(2) {
		l["tier"] = of(g, "1", "2", "")
	}
	return l
}

// spoil adds a field to metadata that a server rejects, replaces or ignores.
func (g *generator) spoil(m object) {
	switch g.IntN(14) {
	case 0:
		m["labels"] = of(g, object{"bad key": "x"}, object{"app": "-bad-"}, object{"a/b/c": "x"}, object{strings.Repeat("k", 64): ""}, object{"app": strings.Repeat("v", 64)})
	case 1:
		m["annotations"] = of(g, object{"bad key": "x"}, object{"UPPER/case": "x"}, object{"": "x"})
	case 2:
		m["finalizers"] = of(g, []string{"hold"}, []string{"bad key/x"}, []string{""}, []string{"example.com/hold", "example.com/hold"})
	case 3:
		m["ownerReferences"] = of(g,
			[]object{{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "11111111-1111-1111-1111-111111111111"}},
			[]object{{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": ""}},
			[]object{{"apiVersion": "v1", "kind": "Event", "name": "o", "uid": "u"}},
			[]object{{"apiVersion": "v1", "kind": "", "name": "", "uid": "u"}},
			[]object{{"apiVersion": "v1", "kind": "A", "name": "o", "uid": "u", "controller": true}, {"apiVersion": "v1", "kind": "B", "name": "o", "uid": "w", "controller": true}},
			[]object{{"apiVersion": "v1", "kind": "A", "name": "o", "uid": "u"}, {"apiVersion": "v1", "kind": "A", "name": "o", "uid": "u"}})
	case 4:
		m["uid"] = of(g, "22222222-2222-2222-2222-222222222222", g.uid())
	case 5:
		m["resourceVersion"] = g.version()
	case 6:
		m["namespace"] = of(g, "other", "", "Bad_Ns")
	case 7:
		m["creationTimestamp"] = of[any](g, "2001-01-01T00:00:00Z", nil, "yesterday", 5)
	case 8:
		m["deletionTimestamp"] = "2001-01-01T00:00:00Z"
	case 9:
		m["managedFields"] = of[any](g, []object{{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": object{}}},
			[]object{{"manager": "m", "operation": "Nonsense"}}, []object{{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "V9"}})
	case 10:
		m["selfLink"], m["generation"] = "/x", 7
	case 11:
		m["foo"] = of[any](g, "unknown", object{"x": 1})
	case 12:
		m["labels"] = of[any](g, []string{"x"}, object{"app": 1}, object{"app": nil}, nil, "x")
	default:
		m["deletionGracePeriodSeconds"] = 5
	}
}

func (g *generator) uid() string {
	if len(g.seen.uids) == 0 {
		return "33333333-3333-3333-3333-333333333333"
	}
	return fmt.Sprintf("⟦uid %d⟧", g.IntN(len(g.seen.uids)))
}

// content fills an object with the fields of its kind, now and then with a fault.
func (g *generator) content(o object) {
	if g.cm {
		o["data"] = g.data()
	} else {
		o["spec"] = g.spec()
		if g.in(4) {
			o["status"] = object{"phase": of(g, "Up", "Down")}
		}
	}
	if g.fault(15) {
		o["foo"] = of[any](g, 1, object{"bar": 2}, nil)
	}
}

func (g *generator) data() any {
	if g.fault(25) {
		return of[any](g, nil, 5, []string{"x"}, object{"k": 5}, object{"k": nil}, object{"k": object{}}, object{})
	}
	d := object{"k": of(g, "1", "2", "3")}
	if g.in(2) {
		d["l"] = of(g, "", "x", "<&>")
	}
	return d
}

func (g *generator) spec() any {
	if g.fault(25) {
		return of[any](g, nil, object{}, object{"seq": 5}, []string{}, object{"seq": nil}, object{"seq": "x", "size": "big"}, object{"seq": "x", "size": 1.5},
			object{"seq": "x", "paused": nil}, object{"seq": "x", "size": 1e3}, object{"seq": "x", "paused": "yes"})
	}
	s := object{"seq": of(g, "1", "2", "3")}
	if g.in(2) {
		s["alpha"] = of(g, "x", "y", "")
	}
	if g.in(3) {
		s["size"] = value(g, 6, []int{0, 2, 3}, []int{-1})
	}
	if g.in(4) {
		s["paused"] = g.in(2)
	}
	if g.in(3) {
		s["ports"] = g.ports()
	}
	if g.fault(20) {
		s["unknown"] = of[any](g, "x", object{"deep": 1}, []int{1})
	}
	return s
}

func (g *generator) ports() []object {
	out := []object{}
	for _, name := range []string{"http", "https", "dns"} {
		if g.in(2) {
			p := object{"name": name, "port": of(g, 80, 443)}
			if g.in(3) {
				p["protocol"] = of(g, "TCP", "UDP")
			}
			out = append(out, p)
		}
	}
	if g.fault(12) {
		out = append(out, of(g, object{"name": "http", "port": 1}, object{"port": 1}, object{"name": "x"}, object{"name": "http", "port": "x"}, object{"name": "y", "port": 1, "more": 1}))
	}
	return out
}

// whole returns a complete object with a name.
func (g *generator) whole(name string) object {
	m := g.metadata()
	m["name"] = name
	o := object{"metadata": m}
	o["apiVersion"], o["kind"] = g.kind()
	g.content(o)
	if !g.fault(20) {
		return o
	}
	switch g.IntN(3) {
	case 0:
		o["kind"] = of(g, "Nonsense", "configmap", "Gadget", "ConfigMap", "")
	case 1:
		o["apiVersion"] = of(g, "v2", "bench.example.com/v2", "", "a/b/c")
	default:
		delete(o, "kind")
		delete(o, "apiVersion")
	}
	return o
}

// written returns the object as text, sometimes with features that only text can have.
func (g *generator) written(o object) string {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	s := string(data)
	if !g.fault(10) {
		return s
	}
	switch g.IntN(6) {
	case 0:
		return of(g, "", "null", "[]", "{", `"x"`, s+"x", s+s, "5", "{}", "\xff", `{"metadata":null}`, `{"metadata":[]}`, "kind: ConfigMap")
	case 1:
		return strings.Replace(s, "{", `{"kind":"Other",`, 1)
	case 2:
		return strings.Replace(s, `"metadata":{`, `"metadata":{"name":"other",`, 1)
	case 3:
		return strings.Replace(s, `"k":`, `"k":"0","k":`, 1)
	case 4:
		return strings.Replace(s, `"seq":`, `"seq":"0","seq":`, 1)
	default:
		return strings.Replace(s, `"metadata"`, of(g, `"Metadata"`, `"METADATA"`), 1)
	}
}

// options returns the query of a write.
func (g *generator) options(a *ask) *ask {
	if g.in(6) {
		a.query = append(a.query, [2]string{"fieldValidation", value(g, 6, []string{"Strict", "Strict", "Warn", "Ignore", ""}, []string{"Bad", "strict"})})
	}
	if g.in(10) {
		a.query = append(a.query, [2]string{"dryRun", value(g, 4, []string{"All"}, []string{"Bad", "", "all"})})
	}
	if g.in(4) {
		a.query = append(a.query, [2]string{"fieldManager", value(g, 8, []string{"m1", "m2", "m3", "", strings.Repeat("m", 128)}, []string{strings.Repeat("m", 129), "a\tb"})})
	}
	g.accept(a)
	return a
}

func (g *generator) accept(a *ask) {
	if g.in(14) {
		a.header = append(a.header, [2]string{"Accept", g.accepted()})
	}
}

func (g *generator) accepted() string {
	const table, partial = "application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	const list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	return value(g, 3, []string{
		table, table, "application/json;as=Table;g=meta.k8s.io;v=v1beta1", table + ", application/json", list + "," + partial, partial + "," + list,
		"application/json;as=Nonsense;g=meta.k8s.io;v=v1, application/json", "application/yaml", "*/*", "text/html, */*;q=0.1", "", "image/png, application/json",
		"application/yaml;q=0.1,application/json", "application/json;charset=utf-8", "application/json;pretty=1",
	}, []string{
		partial, list, "application/*", "application/json;as=Table;g=meta.k8s.io;v=v9", "image/png", "nonsense", "application/json;q=0", "application/json;g=x", "APPLICATION/JSON",
		"application/json;stream=watch", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1", "application/json;as=Table;g=x;v=v1", "application/json;as=Table",
	})
}

func (g *generator) create() *ask {
	name := of(g, "a", "b", "c", "d")
	o := g.whole(name)
	m := o["metadata"].(object)
	a := &ask{does: "create", method: "POST", path: g.collection()}
	switch g.IntN(18) {
	case 0:
		delete(m, "name")
		g.made++
		name, m["generateName"] = "", fmt.Sprintf("g%03d-%s", g.made, of(g, "", "x", "x.", strings.Repeat("y", 80)))
	case 1:
		m["generateName"] = "unused-"
	case 2:
		if g.faulty {
			break
		}
		delete(m, "name")
		if g.in(2) {
			g.made++
			m["generateName"] = of(g, "", fmt.Sprintf("g%03d-BAD", g.made), fmt.Sprintf("-g%03d-x", g.made), fmt.Sprintf("g%03d-_", g.made))
		}
		name, g.faulty = "", true
	case 3:
		if g.faulty {
			break
		}
		name = of[string](g, "A_b", "-x", "x..y", strings.Repeat("x", 254), "..", ".", "a/b", "%", "", "a b", "é")
		m["name"], g.faulty = name, true
	case 4:
		if g.faulty {
			break
		}
		m["name"] = of[any](g, 5, nil, []string{})
		name, g.faulty = "", true
	}
	if name != "" {
		a.object = g.resource() + "/" + name
	}
	a.body = g.written(o)
	a.header = append(a.header, [2]string{"Content-Type", g.contentType("application/json")})
	return g.options(a)
}

func (g *generator) contentType(usual string) string {
	if g.fault(30) {
		return of(g, "application/yaml", "text/plain", "", "application/json; charset=utf-8", "nonsense", "application/xml", "application/json-patch+json", "APPLICATION/JSON", "*/*", "application/yaml;x=y")
	}
	return usual
}

func (g *generator) one(does, method string) *ask {
	name := g.name()
	a := &ask{does: does, method: method, path: g.collection() + "/" + strings.ReplaceAll(name, "é", "%C3%A9"), object: g.resource() + "/" + name}
	return a
}

func (g *generator) get() *ask {
	a := g.one("get", "GET")
	if g.in(2) {
		v := g.version()
		if len(g.seen.versions) > 0 && g.fault(60) {
			v = "⟦future⟧"
		}
		a.settle = v != ""
		a.query = append(a.query, [2]string{"resourceVersion", v})
	}
	if g.fault(12) {
		a.query = append(a.query, [2]string{"resourceVersionMatch", of(g, "Exact", "NotOlderThan", "Bad", "")})
	}
	if g.in(5) {
		a.header = append(a.header, [2]string{"Accept", g.accepted()})
		if g.in(3) {
			a.query = append(a.query, [2]string{"includeObject", value(g, 4, []string{"None", "Metadata", "Object", ""}, []string{"Bad"})})
		}
	}
	return a
}

func (g *generator) update() *ask {
	a := g.one("update", "PUT")
	name := a.object[strings.IndexByte(a.object, '/')+1:]
	a.header = append(a.header, [2]string{"Content-Type", g.contentType("application/json")})
	stored := g.seen.bodies[a.object] != ""
	switch {
	case stored && g.in(4):
		a.does, a.body = "update without a change", "⟦body "+a.object+"⟧"
		return g.options(a)
	case g.fault(15):
		name = of(g, "other", "", "a", "b")
	}
	o := g.whole(name)
	if !g.in(4) {
		if v := g.newest(a.object); v != "" {
			o["metadata"].(object)["resourceVersion"] = v
		}
	} else if g.in(2) {
		o["metadata"].(object)["resourceVersion"] = g.version()
	}
	a.body = g.written(o)
	return g.options(a)
}

// newest returns the version of an object that was seen last.
func (g *generator) newest(name string) string {
	v, err := decode([]byte(g.seen.bodies[name]))
	if err != nil {
		return ""
	}
	for i, known := range g.seen.versions {
		if fmt.Sprint(known) == text(v, "metadata", "resourceVersion") {
			return fmt.Sprintf("⟦version %d⟧", i)
		}
	}
	return ""
}

func (g *generator) status() *ask {
	g.cm = g.cm && g.in(4) // config maps have none
	a := g.one("status", of(g, "GET", "PUT", "PATCH", "DELETE", "POST"))
	a.path += "/" + of(g, "status", "status", "status", "status", "status", "scale", "nonsense")
	name := a.object[strings.IndexByte(a.object, '/')+1:]
	switch a.method {
	case "PUT":
		o := g.whole(name)
		o["status"] = object{"phase": of(g, "Up", "Down")}
		if v := g.newest(a.object); v != "" && !g.in(5) {
			o["metadata"].(object)["resourceVersion"] = v
		}
		a.body = g.written(o)
		a.header = append(a.header, [2]string{"Content-Type", "application/json"})
		g.options(a)
	case "PATCH":
		a.body = `{"metadata":{"labels":{"app":"x"}},"spec":{"seq":"9"},"status":{"phase":"` + of(g, "Up", "Down") + `"}}`
		a.header = append(a.header, [2]string{"Content-Type", "application/merge-patch+json"})
		g.options(a)
	case "POST":
		a.body = `{}`
		a.header = append(a.header, [2]string{"Content-Type", "application/json"})
	}
	return a
}

func (g *generator) delete() *ask {
	a := g.one("delete", "DELETE")
	g.deletion(a)
	return a
}

// deletion adds options, in the query or the body.
func (g *generator) deletion(a *ask) {
	o := object{}
	q := func(name string, good, bad []string) {
		a.query = append(a.query, [2]string{name, value(g, 4, good, bad)})
	}
	if g.in(5) {
		q("propagationPolicy", []string{"Background", "Foreground", "Orphan"}, []string{"Bad", ""})
	}
	if g.in(10) {
		q("gracePeriodSeconds", []string{"0", "5", "-1"}, []string{"x", ""})
	}
	if g.in(8) {
		q("dryRun", []string{"All"}, []string{"Bad", ""})
	}
	if g.fault(25) {
		q("orphanDependents", []string{"true", "false", "x"}, []string{"true"})
	}
	if g.in(3) && !g.faulty {
		g.faulty = true
		switch g.IntN(9) {
		case 0:
			o["preconditions"] = object{"uid": g.uid()}
		case 1:
			o["preconditions"] = object{"resourceVersion": g.version()}
		case 2:
			o["propagationPolicy"] = of(g, "Background", "Foreground", "Orphan", "Bad")
		case 3:
			o["dryRun"] = of(g, []string{"All"}, []string{"Bad"}, []string{})
		case 4:
			o["gracePeriodSeconds"] = of[any](g, 0, 10, -1, "x")
		case 5:
			o["orphanDependents"] = g.in(2)
			if g.in(3) {
				o["propagationPolicy"] = "Background"
			}
		case 6:
			o["foo"] = "unknown"
		case 7:
			o["kind"] = of(g, "Nonsense", "DeleteOptions", "ConfigMap")
		default:
			o["kind"], o["apiVersion"] = "DeleteOptions", of(g, "v1", "meta.k8s.io/v1", "v2", "bench.example.com/v1")
		}
		data, _ := json.Marshal(o)
		a.body = string(data)
		contentType := "application/json"
		if g.in(25) {
			a.body = of(g, "{", "null", "[]", " ", "5")
		} else if g.in(12) {
			contentType = of(g, "application/yaml", "text/plain", "", "nonsense")
		}
		a.header = append(a.header, [2]string{"Content-Type", contentType})
	}
	g.accept(a)
}

func (g *generator) deleteCollection() *ask {
	a := &ask{does: "delete collection", method: "DELETE", path: g.collection()}
	if !g.in(6) {
		g.selectors(a, 2)
	}
	g.deletion(a)
	return a
}

func (g *generator) selectors(a *ask, often int) {
	if g.in(often) {
		a.query = append(a.query, [2]string{"labelSelector", value(g, 5, []string{
			"app=x", "app==y", "app!=x", "app", "!app", "app in (x,y)", "app notin (x)", "tier>1", "tier<2",
			"app=x,tier=1", "tier=", "", "app=", "!app,!tier", " app = x ", "app in (x)", "app notin (x,y),tier",
		},
			[]string{",", "!", "a b", "app in", "app=x,", "app in ()", "-x=1", "app=-bad-", "app in (x", "tier>a", "app=x;y", ",app", "app=in", "app in (,)", "app>1.5"})})
	}
	if g.in(often + 2) {
		a.query = append(a.query, [2]string{"fieldSelector", value(g, 4, []string{
			"metadata.name=a", "metadata.name!=a", "metadata.name==b", "metadata.namespace=⟦namespace⟧", "metadata.namespace=none",
			"metadata.name=a,metadata.name=b", "", "metadata.name=", "metadata.name=a\\,b", "metadata.name!=a,metadata.name!=b",
		},
			[]string{",", "x", "spec.seq=1", "metadata.uid=1", "metadata.name=a=b", "metadata.name", "=a", "metadata.name=a,", "metadata.name=a\\b", "status.phase=Up"})})
	}
}

func (g *generator) list() *ask {
	a := &ask{does: "list", method: "GET", path: g.collection()}
	if g.in(30) { // all namespaces; the peer has more of them
		a.path = g.root() + "/" + g.resource()
		a.query = append(a.query, [2]string{"fieldSelector", "metadata.namespace=⟦namespace⟧"})
	}
	q := func(name, value string) { a.query = append(a.query, [2]string{name, value}) }
	all := len(a.query) > 0
	var match, version string
	switch g.IntN(10) {
	case 0, 1, 2: // any row
		match, version = value(g, 10, []string{"", "Exact", "NotOlderThan"}, []string{"Bad"}), g.version()
		if len(g.seen.versions) > 0 && g.fault(40) {
			version = "⟦future⟧"
		}
	case 3, 4:
		version = of(g, "0", g.version())
	}
	if match != "" {
		g.faulty = g.faulty || version == "" || version == "0"
		q("resourceVersionMatch", match)
	}
	if version != "" || g.in(20) {
		q("resourceVersion", version)
	}
	a.settle = version != ""
	limited := g.in(2)
	if limited {
		q("limit", value(g, 8, []string{"1", "2", "3", "1", "2", "100", "0"}, []string{"-1", "x", "9223372036854775808", ""}))
	}
	if g.in(4) && len(g.seen.tokens) > 0 {
		n := g.IntN(len(g.seen.tokens))
		q("continue", fmt.Sprintf("⟦token %d⟧", n))
		if from := g.seen.from[n]; !g.fault(10) {
			a.path = from.path
			a.query = slices.DeleteFunc(a.query, func(q [2]string) bool { return q[0] == "fieldSelector" })
			for _, name := range []string{"labelSelector", "fieldSelector"} {
				if v := from.get(name); v != "" {
					q(name, v)
				}
			}
		}
	} else {
		if g.fault(30) {
			q("continue", of(g, "garbage", "", "e30", strings.Repeat("a", 100)))
		} else if known := strings.HasPrefix(version, "⟦version") || strings.HasPrefix(version, "⟦list"); known && (match == "Exact" || match == "" && limited && a.get("limit") != "0" && a.get("limit") != "") {
			a.exactly = version
		}
		if !all {
			g.selectors(a, 5)
		}
	}
	if g.fault(40) {
		q(of(g, "sendInitialEvents", "allowWatchBookmarks", "timeoutSeconds", "watch"), of(g, "false", "0", "x"))
	}
	if a.get("watch") == "x" {
		a.watch = true
		q("timeoutSeconds", "1")
	}
	if g.in(5) {
		a.header = append(a.header, [2]string{"Accept", g.accepted()})
		if g.in(3) {
			q("includeObject", value(g, 4, []string{"None", "Metadata", "Object"}, []string{"Bad"}))
		}
	}
	return a
}

func (g *generator) watch() *ask {
	a := &ask{does: "watch", method: "GET", path: g.collection(), watch: true, settle: true}
	q := func(name, value string) { a.query = append(a.query, [2]string{name, value}) }
	q("watch", of(g, "1", "true", "True", "yes", ""))
	q("timeoutSeconds", "1")
	version := g.version()
	if g.in(4) {
		version = of(g, "", "0")
	} else if len(g.seen.versions) > 0 && g.fault(20) {
		version = "⟦future⟧"
	}
	if version != "" {
		q("resourceVersion", version)
	}
	if g.in(3) {
		q("sendInitialEvents", of(g, "true", "true", "true", "false", "x", ""))
		if !g.fault(8) {
			q("resourceVersionMatch", value(g, 8, []string{"NotOlderThan"}, []string{"Exact", "Bad"}))
		}
	} else if g.fault(12) {
		q("resourceVersionMatch", of(g, "NotOlderThan", "Exact", "Bad"))
	}
	if g.in(2) {
		q("allowWatchBookmarks", of(g, "true", "true", "false"))
	}
	if g.fault(20) {
		q(of(g, "limit", "continue"), of(g, "1", "x"))
	}
	g.selectors(a, 4)
	if g.in(4) {
		a.header = append(a.header, [2]string{"Accept", g.accepted()})
	}
	return a
}

// other returns a request that no API client sends on purpose.
func (g *generator) other() *ask {
	a := g.one("other", of(g, "OPTIONS", "POST", "GET", "PUT", "DELETE", "HEAD", "PATCH", "TRACE", "NONSENSE"))
	c := g.collection()
	switch g.IntN(9) {
	case 0: // a method on an object
		if a.method != "POST" && a.method != "HEAD" && a.method != "TRACE" && a.method != "NONSENSE" {
			a.method = "OPTIONS"
		}
		return a
	case 1:
		a.path, a.method = c, of(g, "PUT", "PATCH", "OPTIONS", "HEAD", "NONSENSE")
	case 2:
		a.path = g.root() + "/nonsense"
	case 3:
		a.path = "/apis/nonsense.example.com/v1/things"
	case 4:
		a.path = g.root() + "/namespaces/⟦namespace⟧/nonsense/a"
	case 5:
		a.path, a.method = g.root()+"/"+g.resource()+"/a", of(g, "GET", "DELETE", "PUT", "PATCH")
	case 6:
		a.path = of(g, "/nonsense", "/api/v2/x", "/apis/bench.example.com/v2/gadgets", "/api/v1/x/y/z/w/v/u")
	case 7:
		a.path, a.method = of(g, c+"/", c+"/a/", c+"//a", c+"/a/b/c/d"), "GET"
	default:
		a.path, a.method = g.root()+"/"+g.resource(), of(g, "POST", "DELETE", "PATCH", "PUT")
	}
	a.object = ""
	return a
}
