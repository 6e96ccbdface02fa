package interop

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"
)

const (
	widgetsInDefault = "/apis/example.dev/v1/namespaces/default/widgets"
	tableOfAll       = "as=Table"
)

// five creates widgets a to e, the first ones the largest, and one in another namespace.
func (k *kubectl) five() {
	k.t.Helper()
	var all strings.Builder
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		fmt.Fprintf(&all, "---\napiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: %s, labels: {app: shop, number: n%d}}\nspec: {size: %d, owner: owner-%d}\n", name, i, 50-i*10, i%2)
	}
	all.WriteString("---\napiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: f, namespace: kube-public, labels: {app: stall}}\nspec: {size: 6}\n")
	k.shows("create -f "+k.file("five.yaml", all.String()), `^widget\.example\.dev/a created$`, `^widget\.example\.dev/f created$`)
}

// asks returns the reads of widgets that a command makes.
func (k *kubectl) asks(command string) (out []request) {
	k.t.Helper()
	before := k.asked()
	k.shows(command)
	return k.since(before, func(r *request) bool { return r.path == widgetsInDefault })
}

func chunks(k *kubectl) {
	k.five()
	for _, form := range []string{"", " -o yaml", " -o name", " -o custom-columns=NAME:.metadata.name", " --server-print=false"} {
		asked := k.asks("get widgets --chunk-size=2" + form)
		require.Len(k.t, asked, 3, form)
		for i, r := range asked {
			require.Equal(k.t, "2", r.query.Get("limit"))
			require.Equal(k.t, i > 0, r.query.Get("continue") != "", form)
		}
	}
	require.Len(k.t, k.asks("get widgets --chunk-size=0"), 1)
	out := k.run("get", "widgets", "--chunk-size=2", "-o", "name")
	require.Equal(k.t, "widget.example.dev/a\nwidget.example.dev/b\nwidget.example.dev/c\nwidget.example.dev/d\nwidget.example.dev/e\n", out)
	require.Equal(k.t, 1, strings.Count(k.run("get", "widgets", "--chunk-size=2"), "NAME"), "one table from three pages")
}

func tables(k *kubectl) {
	k.five()
	asked := k.asks("get widgets")
	require.Contains(k.t, asked[0].accept, tableOfAll)
	k.shows("get widgets", `^NAME +SIZE +COLOR +PHASE +AGE$`, `^a +50 +blue +\d+s$`)
	k.shows("get widgets -o wide", `^NAME +SIZE +COLOR +PHASE +AGE$`, `^e +10 +blue`)
	k.shows("get widgets --no-headers", `^a +50 `, `!NAME`)
	k.shows("get widgets --show-labels", `^NAME +SIZE +COLOR +PHASE +AGE +LABELS$`, `^c +30 .* app=shop,number=n2$`)
	k.shows("get widgets -L number,none", `^NAME +.*AGE +NUMBER +NONE$`, `^b +40 +blue +\d+s +n1 *$`)
	k.shows("get widgets --show-kind", `^widget\.example\.dev/a +50 `)
	k.shows("get widgets -A", `^NAMESPACE +NAME +SIZE`, `^default +a +50 `, `^kube-public +f +6 `)
	k.shows("get widgets a e", `^a +50 `, `^e +10 `, `!^b`)
	k.shows("get widgets/a widgets/e", `^a +50 `, `^e +10 `)
	require.NotContains(k.t, k.asks("get widgets --server-print=false")[0].accept, tableOfAll)
	k.shows("get widgets --server-print=false", `^NAME +AGE$`, `^a +\d+s$`)
	for _, list := range []string{"widgets", "wd", "widget.example.dev", "widgets.v1.example.dev"} {
		require.Equal(k.t, 6, strings.Count(k.run("get", list), "\n"), list)
	}
	k.shows("get ns", `^NAME +STATUS +AGE$`, `^default +Active +\d+s$`)
	k.shows("get -f "+k.file("five.yaml", "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: d}\n"), `^d +20 `)
	k.shows("get widget none --ignore-not-found", `^$`)
}

func selections(k *kubectl) {
	k.five()
	k.shows("get widgets -l number=n1", `^b `, `!^a`)
	for selector, want := range map[string]string{
		"app=shop": "abcde", "app!=shop": "f", "number in (n0,n4)": "ae", "number notin (n0),app": "bcdef", "!number": "f", "app==stall": "f", "app=none": "",
	} {
		require.Equal(k.t, want, strings.ReplaceAll(k.run("get", "widgets", "-A", "--selector", selector, "-o", "jsonpath={.items[*].metadata.name}"), " ", ""), selector)
	}
	for selector, want := range map[string]string{
		"metadata.name=c": "c", "metadata.name!=c": "abdef", "metadata.namespace=kube-public": "f", "spec.owner=owner-1": "bd",
		"spec.owner!=owner-1,metadata.namespace==default": "ace",
	} {
		require.Equal(k.t, want, strings.ReplaceAll(k.run("get", "widgets", "-A", "--field-selector", selector, "-o", "jsonpath={.items[*].metadata.name}"), " ", ""), selector)
	}
	k.shows("get widgets -l app=shop --field-selector=spec.owner=owner-1 --chunk-size=1", `^b `, `^d `, `!^a`)
	k.fails("get widgets --field-selector spec.color=blue", `BadRequest.*field label not supported|BadRequest.*spec\.color`)
	k.fails("get widgets -l app=,,", `unable to parse requirement`)
	k.shows("get widgets -l app=none", `No resources found in default namespace`)
}

func forms(k *kubectl) {
	k.five()
	order := func(args ...string) string {
		return strings.ReplaceAll(k.run(append([]string{"get", "widgets", "--no-headers", "-o", "custom-columns=N:.metadata.name"}, args...)...), "\n", "")
	}
	require.Equal(k.t, "edcba", order("--sort-by=.spec.size"))
	require.Equal(k.t, "edcba", order("--sort-by={.spec.size}", "-l", "app=shop"))
	require.Equal(k.t, "abcde", order("--sort-by=.metadata.name"))
	require.Equal(k.t, "abcde", order("--sort-by=.metadata.labels.number", "--chunk-size=2"))
	sorted := k.run("get", "widgets", "--sort-by=.spec.size") // kubectl sorts a table by the objects in its rows
	require.Regexp(k.t, `(?s)^NAME.*\ne .*\nd .*\nc .*\nb .*\na `, sorted)

	k.shows("get widget a -o yaml", `^apiVersion: example\.dev/v1$`, `^kind: Widget$`, `^  name: a$`, `^  size: 50$`, `^  replicas: 1$`)
	k.shows("get widgets -o yaml", `^apiVersion: v1$`, `^kind: List$`, `^- apiVersion: example\.dev/v1$`, `^    name: e$`)
	k.shows("get widget a -o json", `^    "kind": "Widget",$`, `^        "size": 50$`)
	k.shows("get widget/a -o name", `^widget\.example\.dev/a$`)
	k.shows("get widgets -o jsonpath={range.items[*]}{.metadata.name}:{.spec.size};{end}", `^a:50;b:40;c:30;d:20;e:10;$`)
	k.shows("get widget a -o jsonpath-as-json={.spec}", `"color": "blue"`)
	k.shows("get widgets -o custom-columns=NAME:.metadata.name,OWNER:.spec.owner,PHASE:.status.phase", `^NAME +OWNER +PHASE$`, `^a +owner-0 +<none>$`)
	k.shows("get widgets -o go-template={{range.items}}{{.metadata.name}}/{{end}}", `^a/b/c/d/e/$`)
	k.shows("get widgets a -o kyaml", `kind: "Widget"`)
	k.shows("get widgets,zones,ns -o name", `^widget\.example\.dev/a$`, `^namespace/default$`)

	k.shows("get --raw "+widgetsInDefault+"?limit=1&labelSelector=number%3Dn3", `"name":"d"`, `"kind":"WidgetList"`, `!"name":"a"`)
	k.shows("get --raw "+widgetsInDefault+"/b", `"name":"b"`)
	k.shows("get --raw /apis/example.dev/v1", `"kind":"APIResourceList"`, `"name":"widgets/status"`)
	k.fails("get --raw "+widgetsInDefault+"/none", `NotFound`)
	k.shows("get widget a --subresource=status -o name", `^widget\.example\.dev/a$`)
	k.shows("get widget a -o yaml --show-managed-fields=false", `!managedFields`)
}

// running is a kubectl that keeps running.
type running struct {
	k     *kubectl
	out   buffer
	ended chan int
}

// begin starts kubectl and returns once it watches a path.
func (k *kubectl) begin(path string, args ...string) *running {
	k.t.Helper()
	r := &running{k: k, ended: make(chan int, 1)}
	before := k.granted()
	go func() { r.ended <- k.start(&r.out, args...) }()
	require.Eventually(k.t, func() bool {
		for _, asked := range k.grants(before) {
			if asked.path == path && asked.watches() {
				return true
			}
		}
		return false
	}, waitLimit, often, "kubectl %s:\n%s", strings.Join(args, " "), &r.out)
	return r
}

// prints waits until its output matches a regular expression.
func (r *running) prints(what string) {
	r.k.t.Helper()
	match := regexp.MustCompile(what)
	require.Eventually(r.k.t, func() bool { return match.MatchString(r.out.String()) }, waitLimit, often, "%s in:\n%s", what, &r.out)
}

// end waits for its end and returns the exit code.
func (r *running) end() int {
	r.k.t.Helper()
	return <-r.ended
}

// watchForms follows widgets in every form of get -w.
func watchForms(k *kubectl) {
	k.two()
	const gone = `(?s)gamma.*beta` // the last lines of output
	for _, c := range []struct {
		args, last string
		lines      []string
	}{
		{"get widgets -w", gone, []string{`^NAME +SIZE`, `^alpha +3 `, `^beta +7 `, `^beta +8 `, `^gamma +1 `}},
		{"get widgets -w --output-watch-events", gone, []string{`^EVENT +NAME`, `^ADDED +alpha +3 `, `^MODIFIED +beta +8 `, `^ADDED +gamma +1 `, `^DELETED +gamma +1 `}},
		{"get widgets --watch-only", gone, []string{`^NAME +SIZE`, `!^alpha`, `^beta +8 `, `^gamma +1 `}},
		{"get widget beta -w", `beta +9`, []string{`^beta +7 `, `^beta +8 `, `!gamma`, `!alpha`}},
		{"get widgets -w -l tier=back", `beta +9`, []string{`^beta +7 `, `^beta +8 `, `!gamma`, `!alpha`}},
		{"get widgets -w --server-print=false", gone, []string{`^NAME +AGE$`, `^beta +\d`, `^gamma +\d`}},
		{"get widgets -w -o name", gone, []string{`^widget\.example\.dev/alpha$`, `^widget\.example\.dev/gamma$`}},
		{"get widgets -w -o jsonpath={.metadata.name}={.spec.size};", gone, []string{`alpha=3;beta=7;beta=8;gamma=1;`}},
		{"get widgets -w -o yaml --output-watch-events", gone, []string{`^type: ADDED$`, `^type: DELETED$`, `^    name: gamma$`}},
		{"get widgets -w -o custom-columns=N:.metadata.name,S:.spec.size", gone, []string{`^N +S$`, `^beta +8$`, `^gamma +1$`}},
	} {
		k.run("patch", "widget", "beta", "--type=merge", "-p", `{"spec":{"size":7}}`)
		r := k.begin(widgetsInDefault, strings.Fields(c.args)...)
		k.run("patch", "widget", "beta", "--type=merge", "-p", `{"spec":{"size":8}}`)
		k.shows("create -f "+k.file("gamma.yaml", "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: gamma}\nspec: {size: 1}\n"), `created`)
		k.run("delete", "widget", "gamma")
		k.run("patch", "widget", "beta", "--type=merge", "-p", `{"spec":{"size":9}}`)
		r.prints(c.last)
		k.shut(widgetsInDefault)()
		r.end()
		k.prints(r.out.String(), c.lines...)
	}
}
