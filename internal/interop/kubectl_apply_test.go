package interop

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kubectl's apply and related commands.
func TestKubectlApply(t *testing.T) {
	for target, serve := range targets() {
		for name, test := range map[string]func(*kubectl){
			"PATCH_ClientSide": applyFromClient, "SSA_ServerSide": applyAtServer, "SSA_Migration": migrate, "PATCH_LastApplied": lastApplied,
			"DEL_Prune": prune, "DRY_Diff": diff, "QUERY_FieldValidation": validate, "PATCH_Edit": edit, "PATCH_Types": patchTypes,
			"DRY_Run": dryRun, "SSA_FieldManagers": fieldManagersOfCommands, "OAPI_Explain": explain,
		} {
			t.Run(target+"/"+name, func(t *testing.T) { test(newKubectl(t, serve(t))) })
		}
	}
}

// exits runs kubectl, which must end with an exit code and print lines that match regular
// expressions.
func (k *kubectl) exits(code int, command string, lines ...string) {
	k.t.Helper()
	var out buffer
	require.Equal(k.t, code, k.start(&out, strings.Fields(command)...), out.String())
	k.prints(out.String(), lines...)
}

// changed returns a file of the widget alpha with some lines replaced.
func (k *kubectl) changed(name string, replace ...string) string {
	k.t.Helper()
	return k.file(name, strings.NewReplacer(replace...).Replace(alpha))
}

// version returns the resourceVersion of an object.
func (k *kubectl) version(object string) string {
	k.t.Helper()
	return k.run("get", object, "-o", "jsonpath={.metadata.resourceVersion}")
}

// owners returns the entries of managedFields as sorted lines "manager operation subresource": the
// server orders them by the second of their latest write.
func (k *kubectl) owners(object string) string {
	k.t.Helper()
	lines := k.run("get", object, "-o", `jsonpath={range .metadata.managedFields[*]}{.manager} {.operation} {.subresource}{"\n"}{end}`)
	return strings.Join(slices.Sorted(strings.Lines(lines)), "")
}

func applyFromClient(k *kubectl) {
	first := k.changed("first.yaml")
	k.shows("apply --dry-run=client -f "+first, `^widget\.example\.dev/alpha created \(dry run\)$`)
	k.shows("apply --dry-run=server -f "+first, `^widget\.example\.dev/alpha created \(server dry run\)$`)
	k.fails("get widget alpha", `NotFound`)
	k.shows("apply -f "+first, `^widget\.example\.dev/alpha created$`)
	version := k.version("widget/alpha")
	k.shows("apply -f "+first, `alpha unchanged$`)
	require.Equal(k.t, version, k.version("widget/alpha"))
	require.Equal(k.t, "kubectl-client-side-apply Update \n", k.owners("widget/alpha"))
	k.shows(`patch widget alpha --type=merge -p {"spec":{"color":"red","notes":{"sold":"there"}}}`, `patched$`)
	second := k.changed("second.yaml", "size: 3", "size: 4", "  owner: ann\n", "", "{made: here}", "{seen: twice}")
	version = k.version("widget/alpha")
	k.shows("apply --dry-run=server -f "+second, `alpha configured \(server dry run\)$`)
	k.shows("apply --dry-run=server -o yaml -f "+second, `^  size: 4$`, `^  color: red$`, `^    seen: twice$`)
	k.shows("apply --dry-run=client -f "+second, `alpha configured \(dry run\)$`)
	require.Equal(k.t, version, k.version("widget/alpha"))
	k.shows("apply -f "+second, `alpha configured$`)
	k.shows("get widget alpha -o jsonpath={.spec}", `^\{"color":"red","notes":\{"seen":"twice","sold":"there"\},"replicas":1,"size":4\}$`)
	k.fails("apply -f "+k.changed("bad.yaml", "size: 3", "size: 0"), `The Widget "alpha" is invalid: spec\.size: Invalid value: 0`)

	// Lists with keys are atomic for a client that does not know the keys: it sends them whole.
	parts := "  parts: [{name: p, count: 2}, {name: q}]\n"
	k.shows("apply -f "+k.changed("parts.yaml", "  owner: ann\n", parts), `configured$`)
	k.shows("apply -f "+k.changed("parts.yaml", "  owner: ann\n", parts), `unchanged$|configured$`)
	k.shows("get widget alpha -o jsonpath={.spec.parts}", `^\[\{"count":2,"name":"p"\},\{"count":1,"name":"q"\}\]$`)

	k.two2()
	many := k.file("many.yaml", alpha+"---\n"+strings.Replace(alpha, "alpha", "gamma", 1)+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: hall, labels: {a: b}}\n")
	k.shows("apply -f "+many, `alpha configured$`, `gamma created$`, `namespace/hall created$`)
	k.shows("apply -f "+many, `alpha unchanged$`, `gamma unchanged$`, `namespace/hall unchanged$`)
	k.shows("apply -f "+k.file("hall.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: hall}\n"), `namespace/hall configured$`)
	k.shows("get ns hall -o jsonpath={.metadata.labels}", `^\{"kubernetes\.io/metadata\.name":"hall"\}$`)
}

// two2 creates an object that apply then finds without its annotation.
func (k *kubectl) two2() {
	k.t.Helper()
	k.shows("create -f "+k.file("beta.json", beta), `beta created$`)
	k.shows("apply -f "+k.file("beta.json", strings.Replace(beta, "7", "8", 1)), `Warning: resource widgets/beta is missing the kubectl\.kubernetes\.io/last-applied-configuration annotation`, `beta configured$`)
	k.shows("create --save-config -f "+k.file("delta.yaml", strings.Replace(alpha, "alpha", "delta", 1)), `delta created$`)
	k.shows("apply -f "+k.file("delta.yaml", strings.Replace(alpha, "alpha", "delta", 1)), `delta unchanged$`, `!Warning`)
}

func applyAtServer(k *kubectl) {
	first := k.changed("first.yaml")
	k.shows("apply --server-side --dry-run=server -f "+first, `^widget\.example\.dev/alpha serverside-applied \(server dry run\)$`)
	k.fails("get widget alpha", `NotFound`)
	k.shows("apply --server-side -f "+first, `^widget\.example\.dev/alpha serverside-applied$`)
	require.Equal(k.t, "kubectl Apply \n", k.owners("widget/alpha"))
	k.shows("get widget alpha -o yaml", `!last-applied-configuration`, `^  color: blue$`)
	version := k.version("widget/alpha")
	k.shows("apply --server-side -f "+first, `serverside-applied$`)
	require.Equal(k.t, version, k.version("widget/alpha"), "applying again changes nothing")

	five := k.changed("five.yaml", "size: 3", "size: 5", "  owner: ann\n", "")
	k.fails("apply --server-side --field-manager=scaler -f "+five,
		`^error: Apply failed with 1 conflict: conflict with "kubectl": \.spec\.size$`,
		`^Please review the fields above--they currently have other managers\.`, `--force-conflicts`)
	require.Equal(k.t, version, k.version("widget/alpha"))
	k.shows("apply --server-side --field-manager=scaler --force-conflicts -f "+five, `serverside-applied$`)
	require.Equal(k.t, "kubectl Apply \nscaler Apply \n", k.owners("widget/alpha"))
	k.fails("apply --server-side -f "+first, `Apply failed with 1 conflict: conflict with "scaler": \.spec\.size`)
	k.shows("apply --server-side -f "+k.changed("rest.yaml", "  size: 3\n", "", "  owner: ann\n", ""), `serverside-applied$`)
	k.shows("get widget alpha -o jsonpath={.spec}", `^\{"color":"blue","notes":\{"made":"here"\},"replicas":1,"size":5\}$`)

	k.shows("edit widget alpha", `edited$`)
	k.fails("apply --server-side --field-manager=scaler -f "+five, `conflict with "kubectl-edit" using example\.dev/v1: \.spec\.size`)
	k.fails("apply --server-side --field-manager=scaler -f "+k.changed("two.yaml", "size: 3", "size: 6\n  color: red"), `Apply failed with 1 conflict`)
	k.shows("apply --server-side --field-manager=painter -f "+k.changed("red.yaml", "size: 3", "color: red", "  owner: ann\n", ""), `serverside-applied$`)
	k.run("label", "widget", "alpha", "tier=back", "--overwrite")
	k.fails("apply --server-side --field-manager=painter -f "+k.changed("two.yaml", "size: 3", "size: 6"), `(?s)Apply failed with 2 conflicts: .*conflicts with "kubectl-(edit|label)".*\.metadata\.labels\.tier`)

	parts := func(list string) string {
		return k.changed("parts.yaml", "  owner: ann\n", "  parts: "+list+"\n", "  size: 3\n", "")
	}
	k.shows("apply --server-side --field-manager=p --force-conflicts -f "+parts("[{name: p, tags: [x]}]"), `serverside-applied$`)
	k.shows("apply --server-side --field-manager=q --force-conflicts -f "+parts("[{name: q}, {name: p, tags: [why]}]"), `serverside-applied$`)
	k.shows("get widget alpha -o jsonpath={.spec.parts}", `^\[\{"count":1,"name":"q"\},\{"count":1,"name":"p","tags":\["x","why"\]\}\]$`)
	k.shows("apply --server-side --field-manager=p --force-conflicts -f "+parts("[]"), `serverside-applied$`)
	k.shows("get widget alpha -o jsonpath={.spec.parts}", `^\[\{"count":1,"name":"q"\},\{"count":1,"name":"p","tags":\["why"\]\}\]$`)

	state := k.file("state.yaml", "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: alpha}\nspec: {size: 900}\nstatus: {phase: Ready, conditions: [{type: Ready, status: \"True\"}]}\n")
	k.shows("apply --server-side --subresource=status --field-manager=controller -f "+state, `serverside-applied$`)
	k.shows("get widget alpha -o jsonpath={.status.phase}{.spec.size}", `^Ready55$`)
	require.Contains(k.t, k.owners("widget/alpha"), "controller Apply status\n")
	k.shows("apply --server-side -f "+k.file("lease.yaml", "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: l}\nspec: {holderIdentity: me, renewTime: \"2026-01-02T03:04:05.000006Z\"}\n"), `lease\.coordination\.k8s\.io/l serverside-applied$`)
	k.shows("get lease l -o yaml --show-managed-fields", `f:holderIdentity`, `f:renewTime`)
}

// migrate changes from one kind of apply to the other, and back.
func migrate(k *kubectl) {
	k.shows("apply -f "+k.changed("w.yaml"), `created$`)
	require.Equal(k.t, "kubectl-client-side-apply Update \n", k.owners("widget/alpha"))
	k.shows("apply --server-side -f "+k.changed("w.yaml"), `serverside-applied$`, `!Warning`)
	const owners = "kubectl Apply \nkubectl-last-applied Apply \n" // the latter owns only the annotation
	require.Equal(k.t, owners, k.owners("widget/alpha"), "kubectl takes the fields over")
	k.shows("apply --server-side -f "+k.changed("w.yaml", "  owner: ann\n", "", "size: 3", "size: 4"), `serverside-applied$`, `!conflict`)
	k.shows("get widget alpha -o jsonpath={.spec.owner}{.spec.size}", `^4$`)
	k.shows("apply view-last-applied widget alpha", `^  size: 4$`, `!owner`)

	k.shows("apply -f "+k.changed("w.yaml", "  owner: ann\n", "  owner: bob\n", "size: 3", "size: 5", "{made: here}", "{}"), `configured$`, `!Warning`)
	k.shows("get widget alpha -o jsonpath={.spec}", `"owner":"bob"`, `"size":5`, `!made`)
	k.shows("apply view-last-applied widget alpha", `^  size: 5$`, `^  owner: bob$`)
	k.shows("apply --server-side -f "+k.changed("w.yaml", "size: 3", "size: 6"), `serverside-applied$`, `!conflict`)
	require.Equal(k.t, owners, k.owners("widget/alpha"))
	k.shows("apply -f "+k.changed("w.yaml", "size: 3", "size: 6"), `configured$`) // the annotation, in which no annotations are {} here
	k.shows("apply -f "+k.changed("w.yaml", "size: 3", "size: 6"), `unchanged$`)

	// Objects of another client-side applier are recognized by the annotation.
	gamma := strings.Replace(alpha, "alpha", "gamma", 1)
	k.shows("apply --field-manager=before -f "+k.file("g.yaml", gamma), `created$`)
	require.Equal(k.t, "before Update \n", k.owners("widget/gamma"))
	k.shows("apply --server-side -f "+k.file("g.yaml", strings.Replace(gamma, "size: 3", "size: 4", 1)), `serverside-applied$`)
	require.Equal(k.t, owners, k.owners("widget/gamma"))
	k.shows("get widget gamma -o jsonpath={.spec.size}", `^4$`)
}

func lastApplied(k *kubectl) {
	k.shows("apply -f "+k.changed("w.yaml"), `created$`)
	k.shows("apply view-last-applied widget alpha", `^  size: 3$`, `^    made: here$`, `!color`)
	k.shows("apply view-last-applied -o json -f "+k.changed("w.yaml"), `"size": 3`)
	k.shows("apply edit-last-applied widget alpha", `widget\.example\.dev/alpha edited$`)
	k.shows("apply view-last-applied widget alpha", `^  size: 55$`)
	k.shows("get widget alpha -o jsonpath={.spec.size}", `^3$`)
	set := k.changed("set.yaml", "size: 3", "size: 77")
	k.shows("apply set-last-applied --dry-run=server -f "+set, `configured \(server dry run\)$`)
	k.shows("apply set-last-applied -f "+set, `configured$`)
	k.shows("apply view-last-applied widget alpha", `^  size: 77$`)
	k.shows("create -f "+k.file("beta.json", beta), `created$`)
	k.fails("apply set-last-applied -f "+k.file("beta.json", beta), `no last-applied-configuration annotation found`)
	k.shows("apply set-last-applied --create-annotation -f "+k.file("beta.json", beta), `configured$`)
	k.shows("apply view-last-applied widget beta", `^  size: 7$`)
}

// prune deletes applied objects that are no longer in the files.
func prune(k *kubectl) {
	zone := "apiVersion: example.dev/v1\nkind: Zone\nmetadata: {name: north, labels: {app: shop}}\nspec: {region: far}\n"
	both := k.file("both.yaml", alpha+"---\n"+zone+"---\n"+strings.Replace(alpha, "alpha", "gamma", 1))
	const allowed = "--prune --prune-allowlist=example.dev/v1/Widget --prune-allowlist=example.dev/v1/Zone "
	k.shows("apply "+allowed+"-l app=shop -f "+both, `alpha created$`, `gamma created$`, `zone\.example\.dev/north created$`, `!pruned`)
	k.shows("create -f "+k.file("beta.json", beta), `created$`)
	k.shows("apply "+allowed+"-l app=shop --dry-run=server -f "+k.changed("w.yaml"), `gamma pruned \(server dry run\)$`)
	k.shows("get widgets,zones -o name", `gamma`, `north`)
	k.shows("apply "+allowed+"-l app=shop -f "+k.changed("w.yaml"), `alpha unchanged$`, `gamma pruned$`, `zone\.example\.dev/north pruned$`)
	require.Equal(k.t, "widget.example.dev/alpha\nwidget.example.dev/beta\n", k.run("get", "widgets,zones", "-o", "name"), "objects that were not applied stay")
	k.shows("apply --prune --all --prune-allowlist=example.dev/v1/Widget -f "+k.file("only.yaml", strings.Replace(alpha, "alpha", "gamma", 1)), `gamma created$`, `alpha pruned$`)
}

func diff(k *kubectl) {
	file := k.changed("w.yaml")
	k.exits(1, "diff -f "+file, `^\+kind: Widget$`, `^\+  size: 3$`)
	k.exits(1, "diff --server-side -f "+file, `^\+  size: 3$`)
	k.fails("get widget alpha", `NotFound`)
	k.shows("apply -f "+file, `created$`)
	k.exits(0, "diff -f "+file, `^$`)
	version := k.version("widget/alpha")
	next := k.changed("next.yaml", "size: 3", "size: 4", "  owner: ann\n", "")
	k.exits(1, "diff -f "+next, `^-  size: 3$`, `^\+  size: 4$`, `^-  owner: ann$`, `!managedFields`)
	k.exits(1, "diff --show-managed-fields -f "+next, `^ +managedFields:$|manager: kubectl`)
	k.exits(2, "diff -f "+k.changed("bad.yaml", "size: 3", "size: 0"), `spec\.size: Invalid value: 0`)
	require.Equal(k.t, version, k.version("widget/alpha"))

	k.shows("apply --server-side -f "+file, `serverside-applied$`)
	k.exits(0, "diff --server-side -f "+file, `^$`)
	k.exits(1, "diff --server-side -f "+next, `^-  size: 3$`, `^\+  size: 4$`, `^-  owner: ann$`)
	k.exits(2, "diff --server-side --field-manager=other -f "+next, `Apply failed with 1 conflict: conflict with "kubectl": \.spec\.size`)
	k.exits(1, "diff --server-side --field-manager=other --force-conflicts -f "+next, `^-  size: 3$`, `^\+  size: 4$`, `!^-  owner`)
	k.exits(1, "diff --prune --prune-allowlist=example.dev/v1/Widget -l app=shop -f "+k.file("g.yaml", strings.Replace(alpha, "alpha", "gamma", 1)), `^\+  name: gamma$`, `^-  name: alpha$`)
}

// validate tests unknown and duplicate fields.
func validate(k *kubectl) {
	typos := func(name string) string {
		return k.file(name+".yaml", strings.NewReplacer("owner", "ownr", "  notes:", "  parts: [{name: p, weight: 1}]\n  notes:", "alpha", name).Replace(alpha))
	}
	const strict = `strict decoding error: unknown field "spec\.ownr", unknown field "spec\.parts\[0\]\.weight"`
	warnings := []string{`^Warning: unknown field "spec\.ownr"$`, `^Warning: unknown field "spec\.parts\[0\]\.weight"$`}
	for i, command := range []string{"create", "apply", "apply --server-side"} {
		name := func(mode string) string { return fmt.Sprint(mode, i) }
		k.fails(command+" --validate=strict -f "+typos(name("strict")), strict)
		k.fails(command+" -f "+typos(name("strict")), strict)
		k.fails(command+" --validate=true -f "+typos(name("strict")), strict)
		k.fails("get widget "+name("strict"), `NotFound`)
		k.shows(command+" --validate=warn -f "+typos(name("warn")), append(warnings, `created$|applied$`)...)
		k.shows(command+" --validate=ignore -f "+typos(name("ignore")), `!Warning`, `created$|applied$`)
		k.shows("get widget "+name("ignore")+" -o jsonpath={.spec}", `!ownr`, `!weight`, `"name":"p"`)
		k.shows("replace --validate=warn -f "+typos(name("warn")), append(warnings, `replaced$`)...)
	}
	k.shows(`patch widget warn0 --type=merge -p {"spec":{"colour":"red","size":4}}`, `^Warning: unknown field "spec\.colour"$`, `patched$`)
	twice := k.file("twice.json", strings.NewReplacer(`"size": 7`, `"size": 7, "size": 8`, "beta", "twice").Replace(beta))
	k.fails("create --raw "+widgetsInDefault+"?fieldValidation=Strict -f "+twice, `strict decoding error: duplicate field "spec\.size"`)
	k.shows("create --raw "+widgetsInDefault+"?fieldValidation=Ignore&dryRun=All -f "+twice, `"size":8`, `!Warning`)
	k.shows("create --raw "+widgetsInDefault+" -f "+twice, `^Warning: duplicate field "spec\.size"$`, `"size":8`)
	k.fails("create --raw "+widgetsInDefault+"?fieldValidation=Never -f "+twice, `fieldValidation`)
	k.fails("create -f "+k.file("kind.yaml", "apiVersion: example.dev/v1\nkind: Wodget\nmetadata: {name: a}\n"), `no matches for kind "Wodget"`)
	k.fails("create --validate=strict -f "+k.file("type.yaml", strings.Replace(alpha, "size: 3", "size: three", 1)), `size`)
}

func edit(k *kubectl) {
	k.shows("apply -f "+k.changed("w.yaml"), `created$`)
	k.shows(`patch widget alpha --subresource=status --type=merge -p {"status":{"phase":"Ready"}}`, `patched$`)
	k.shows("edit widget alpha --subresource=status", `widget\.example\.dev/alpha edited$`)
	k.shows("get widget alpha -o jsonpath={.status.phase}{.spec.size}", `^Edited3$`)
	require.Contains(k.t, k.owners("widget/alpha"), "kubectl-edit Update status\n")
	k.shows("edit widget alpha --subresource=status", `Edit cancelled, no changes made|alpha (edited|skipped)`)
	state := k.changed("state.yaml", "spec:", "status: {phase: Replaced}\nspec:", "size: 3", "size: 900")
	k.shows("replace --subresource=status -f "+state, `alpha replaced$`)
	k.shows("get widget alpha -o jsonpath={.status.phase}{.spec.size}", `^Replaced3$`)
	k.shows("edit widget alpha --subresource=status", `alpha edited$`)
	k.shows("edit widget alpha --save-config -o yaml", `^  size: 55$`, `^  phase: Edited$`)
	k.shows("edit widget alpha", `Edit cancelled, no changes made`)
	k.shows("apply view-last-applied widget alpha", `^  size: 55$`)
	k.shows("edit --field-manager=hand -f "+k.changed("w.yaml"), `alpha (edited|skipped)|Edit cancelled`)
	k.shows("create --edit -f "+k.file("g.yaml", strings.Replace(alpha, "alpha", "gamma", 1)), `gamma created`)
	k.shows("get widget gamma -o jsonpath={.spec.size}", `^55$`)
}

func patchTypes(k *kubectl) {
	k.two()
	k.shows(`patch widget alpha --type=json -p [{"op":"add","path":"/spec/notes/x~1y","value":"z"},{"op":"copy","from":"/spec/notes/made","path":"/spec/notes/copy"},{"op":"move","from":"/spec/notes/made","path":"/spec/notes/moved"},{"op":"remove","path":"/spec/owner"}]`, `patched$`)
	k.shows("get widget alpha -o jsonpath={.spec.notes}{.spec.owner}", `^\{"copy":"here","moved":"here","x/y":"z"\}$`)
	k.fails(`patch widget alpha --type=json -p [{"op":"test","path":"/spec/size","value":99}]`, `test|testing`)
	k.fails(`patch widget alpha --type=json -p [{"op":"remove","path":"/spec/nothing"}]`, `nothing|the server rejected our request|invalid`)
	k.shows(`patch widget alpha --type=merge --dry-run=server -o yaml -p {"spec":{"size":66}}`, `^  size: 66$`)
	k.shows(`patch widget alpha --type=merge --dry-run=client -o yaml -p {"spec":{"size":66}}`, `^  size: 66$`)
	k.shows("patch -o yaml --local --type=merge -p {\"spec\":{\"size\":66}} -f "+k.changed("w.yaml"), `^  size: 66$`)
	k.shows("get widget alpha -o jsonpath={.spec.size}", `^3$`)
	k.shows("patch widget alpha --type=merge --patch-file "+k.file("patch.yaml", "spec: {size: 67}\n"), `patched$`)
	version := k.version("widget/alpha")
	k.fails(`patch widget alpha --type=merge -p {"metadata":{"resourceVersion":"1"},"spec":{"size":68}}`, `Conflict.*the object has been modified`)
	k.fails(`patch widget alpha --type=merge -p {"metadata":{"uid":"wrong"},"spec":{"size":68}}`, `metadata\.uid.*immutable`)
	require.Equal(k.t, version, k.version("widget/alpha"))
	k.shows(`patch widget alpha --type=merge -p {"metadata":{"resourceVersion":"`+version+`"},"spec":{"size":68}}`, `patched$`)
	k.fails(`patch widget none --type=merge -p {}`, `NotFound`)

	// Kinds made of Go types take strategic merge patches: their lists have keys.
	k.shows(`patch widget alpha --type=merge -p {"spec":{"parts":[{"name":"p","tags":["x"]},{"name":"q"}]}}`, `patched$`)
	k.shows(`patch widget alpha --type=strategic -p {"spec":{"parts":[{"name":"q","$patch":"delete"},{"name":"r"},{"name":"p","count":4}],"$setElementOrder/parts":[{"name":"r"},{"name":"p"}]}}`, `patched$`)
	k.shows("get widget alpha -o jsonpath={.spec.parts}", `^\[\{"count":1,"name":"r"\},\{"count":4,"name":"p","tags":\["x"\]\}\]$`)
	k.shows(`patch widget alpha --type=strategic -p {"spec":{"notes":{"$patch":"replace","only":"this"},"parts":[{"$patch":"replace"},{"name":"z"}]}}`, `patched$`)
	k.shows("get widget alpha -o jsonpath={.spec.parts}{.spec.notes}", `^\[\{"count":1,"name":"z"\}\]\{"only":"this"\}$`)
	k.shows(`patch ns kube-public -p {"metadata":{"finalizers":["example.dev/a","example.dev/b"],"labels":{"a":"b"}}}`, `patched$`) // strategic by default
	k.shows(`patch ns kube-public -p {"metadata":{"finalizers":["example.dev/c"],"$deleteFromPrimitiveList/finalizers":["example.dev/a"],"labels":{"$retainKeys":["a"]}}}`, `patched$`)
	k.shows("get ns kube-public -o jsonpath={.metadata.finalizers}", `^\["example\.dev/c","example\.dev/b"\]$`)
	k.shows(`patch ns kube-public --type=json -p [{"op":"remove","path":"/metadata/finalizers"}]`, `patched$`)
}

func dryRun(k *kubectl) {
	k.two()
	version := k.run("get", "widgets", "-o", "jsonpath={.metadata.resourceVersion}{.items[*].metadata.resourceVersion}")
	gamma := k.file("g.yaml", strings.Replace(alpha, "alpha", "gamma", 1))
	k.shows("create --dry-run=server -f "+gamma, `gamma created \(server dry run\)$`)
	k.shows("create --dry-run=server -o yaml -f "+gamma, `^  color: blue$`, `^  uid: `, `!resourceVersion`)
	k.shows("create --dry-run=client -o yaml -f "+gamma, `!color`, `!uid`)
	k.fails("create --dry-run=server -f "+k.changed("alpha.yaml"), `AlreadyExists`)
	k.fails("create --dry-run=server -f "+k.changed("bad.yaml", "size: 3", "size: 0", "alpha", "bad"), `spec\.size: Invalid value: 0`)
	k.shows("replace --dry-run=server -f "+k.changed("alpha.yaml", "size: 3", "size: 4"), `alpha replaced \(server dry run\)$`)
	k.shows("label --dry-run=server widget alpha x=y", `labeled \(server dry run\)$`)
	k.shows("annotate --dry-run=server widget alpha x=y", `annotated \(server dry run\)$`)
	k.shows("delete --dry-run=server widget alpha", `"alpha" deleted.*\(server dry run\)$`)
	k.shows("delete --dry-run=server widgets --all", `"alpha" deleted`, `"beta" deleted`)
	k.shows("create ns --dry-run=server hall", `namespace/hall created \(server dry run\)$`)
	k.shows("apply --server-side --dry-run=server -f "+gamma, `serverside-applied \(server dry run\)$`)
	require.Equal(k.t, version, k.run("get", "widgets", "-o", "jsonpath={.metadata.resourceVersion}{.items[*].metadata.resourceVersion}"))
}

// fieldManagersOfCommands checks the field manager that each command reports.
func fieldManagersOfCommands(k *kubectl) {
	k.shows("create -f "+k.changed("w.yaml"), `created$`)
	require.Equal(k.t, "kubectl-create Update \n", k.owners("widget/alpha"))
	k.shows("label widget alpha one=1", `labeled$`)
	k.shows("annotate widget alpha two=2 --field-manager=me", `annotated$`)
	k.shows(`patch widget alpha --type=merge -p {"spec":{"size":4}}`, `patched$`)
	k.shows("replace -f "+k.changed("w.yaml", "size: 3", "color: red\n  size: 4"), `replaced$`)
	k.shows("edit widget alpha", `edited$`)
	owners := k.owners("widget/alpha")
	for _, manager := range []string{"kubectl-create", "kubectl-replace", "kubectl-edit"} {
		require.Contains(k.t, owners, manager+" Update \n")
	}
	require.NotContains(k.t, owners, "kubectl-patch", "its fields have been set by another manager")
	require.NotContains(k.t, owners, "kubectl-label", "replaced")
	k.shows("label widget alpha three=3 --field-manager=you", `labeled$`)
	require.Contains(k.t, k.owners("widget/alpha"), "you Update \n")
	k.shows("get widget alpha -o yaml", `!managedFields`)
	k.shows("get widget alpha -o json", `!managedFields`)
	k.shows("get widget alpha -o yaml --show-managed-fields", `^  managedFields:$`, `^      f:spec:$`, `^    manager: kubectl-edit$`, `^    fieldsType: FieldsV1$`, `^    time: "\d{4}-`)
	k.shows("get widgets -o json --show-managed-fields", `"manager": "you"`)
	k.shows(`patch widget alpha --type=json -p [{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`, `patched$`)
	require.Empty(k.t, k.owners("widget/alpha"))
	late := "apply --server-side --field-manager=late -f " + k.changed("w.yaml", "size: 3", "size: 9")
	k.fails(late, `conflict with "before-first-apply" using example\.dev/v1: \.spec\.size`)
	k.shows(late+" --force-conflicts", `serverside-applied$`)
	require.Equal(k.t, "before-first-apply Update \nlate Apply \n", k.owners("widget/alpha"))
}

// explain descends to the leaves, in both versions of the document.
func explain(k *kubectl) {
	k.shows("explain widget --api-version=example.dev/v1", `^GROUP: +example\.dev$`, `^VERSION: +v1$`, `^KIND: +Widget$`, `^ +spec.<Object> -required-$`, `^    What the widget should be\.$`)
	k.fails("explain widget --api-version=example.dev/v9", `example\.dev/v9`)
	for field, lines := range map[string][]string{
		"widget.spec.size":                                          {`^FIELD: size <integer>$`, `How large the widget is`},
		"widget.spec.color":                                         {`^FIELD: color <string>$`, `^ENUM:$`, `^    red$`, `The paint\.`},
		"widget.spec.replicas":                                      {`^FIELD: replicas <integer>$`, `How many of it there should be\.`},
		"widget.spec.notes":                                         {`^FIELD: notes <map\[string\]string>$`, `Anything worth remembering\.`},
		"widget.spec.parts":                                         {`^FIELD: parts <\[\]Object>$`, `What it is made of\.`, `name.<string> -required-`},
		"widget.spec.parts.tags":                                    {`^FIELD: tags <\[\]string>$`, `Marks of the part\.`},
		"widget.status.conditions.lastTransitionTime":               {`^FIELD: lastTransitionTime <string>$`, `When it began to be so\.`},
		"widget.metadata.ownerReferences.uid":                       {`^FIELD: uid <string>$`, `Identity of the owner`},
		"widget.metadata.managedFields.fieldsV1":                    {`^FIELD: fieldsV1 <`},
		"namespace.status.conditions.reason":                        {`^FIELD: reason <string>$`},
		"lease.spec.renewTime":                                      {`^FIELD: renewTime <string>$`},
		"events.regarding.fieldPath --api-version=events.k8s.io/v1": {`^FIELD: fieldPath <string>$`},
		"events.involvedObject.uid --api-version=v1":                {`^FIELD: uid <string>$`},
	} {
		k.shows("explain "+field, append(lines, `^DESCRIPTION:$`, `!<empty>`)...)
	}
	k.shows("explain widget --recursive", `^ +lastTransitionTime.<string>$`, `^ +tags.<\[\]string>$`)
	for _, kind := range []string{"widget", "gadget", "zone", "namespace", "lease", "events --api-version=v1", "events --api-version=events.k8s.io/v1"} {
		k.shows("explain --output=plaintext-openapiv2 "+kind, `^KIND: +`, `^DESCRIPTION:$`, `^ +metadata.*<Object>$`)
	}
	k.shows("explain --output=plaintext-openapiv2 widget.spec.parts.tags", `^FIELD: +tags <\[\]string>$`, `Marks of the part\.`)
	k.leaves("widgets", "gadgets", "zones", "namespaces", "leases", "events")
}

// leaves explains every field of some resources. Each must have a description.
func (k *kubectl) leaves(resources ...string) {
	k.t.Helper()
	line := regexp.MustCompile(`^( +)(\S+)\t<([^>]*)>`)
	for _, resource := range resources {
		path, explained := []string{resource}, 0
		for _, text := range strings.Split(k.run("explain", resource, "--recursive"), "\n") {
			match := line.FindStringSubmatch(text)
			if match == nil {
				continue
			}
			path = append(path[:len(match[1])/2], match[2])
			if explained++; strings.Contains(strings.Join(path, "."), "metadata.") && resource != "widgets" {
				continue // the same for all kinds
			}
			k.shows("explain "+strings.Join(path, "."), `^FIELD: `+match[2]+` <`+regexp.QuoteMeta(match[3])+`>`, `^DESCRIPTION:$`, `!<empty>`)
		}
		require.Greater(k.t, explained, 15, resource)
	}
}
