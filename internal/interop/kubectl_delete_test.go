package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// owned creates two gadgets that a widget owns. Their names are x and y, prefixed with the
// widget's.
func (k *kubectl) owned(widget string) {
	k.t.Helper()
	uid := k.run("get", "widget", widget, "-o", "jsonpath={.metadata.uid}")
	for _, name := range []string{"x", "y"} {
		k.shows("create -f "+k.file(name+".yaml", fmt.Sprintf(`apiVersion: example.dev/v1
kind: Gadget
metadata:
  name: %s-%s
  labels: {of: %s}
  ownerReferences: [{apiVersion: example.dev/v1, kind: Widget, name: %s, uid: %s, controller: true, blockOwnerDeletion: true}]
`, widget, name, widget, widget, uid)), `created$`)
	}
}

// gadgets returns the gadgets of a widget.
func (k *kubectl) gadgets(widget string) string {
	k.t.Helper()
	return k.run("get", "gadgets", "-l", "of="+widget, "-o", "jsonpath={.items[*].metadata.name}")
}

// cascades deletes widgets by each policy.
func cascades(k *kubectl) {
	k.two()
	k.owned("alpha")
	k.owned("beta")
	k.shows("delete widget alpha --cascade=background", `"alpha" deleted`)
	require.Eventually(k.t, func() bool { return k.gadgets("alpha") == "" }, waitLimit, often)
	require.Equal(k.t, "beta-x beta-y", k.gadgets("beta"))
	k.shows("delete widget beta --cascade=orphan", `"beta" deleted`)
	require.Equal(k.t, "beta-x beta-y", k.gadgets("beta"))
	require.Empty(k.t, k.run("get", "gadgets", "-l", "of=beta", "-o", "jsonpath={.items[*].metadata.ownerReferences}"), "kubectl waits for the widget, which waits for this")

	k.two()
	k.owned("alpha")
	k.shows("delete widget alpha --cascade=foreground", `"alpha" deleted`)
	require.Empty(k.t, k.gadgets("alpha"), "kubectl waits for the widget, which waits for this")
	k.shows("create -f "+k.file("alpha.yaml", alpha), `created$`)
	k.owned("alpha")
	k.shows(`patch gadget alpha-x --type=merge -p {"metadata":{"finalizers":["example.dev/hold"]}}`, `patched$`)
	k.shows("delete widget alpha --cascade=foreground --wait=false", `"alpha" deleted`)
	k.shows("get widget alpha -o jsonpath={.metadata.finalizers}", `^\["foregroundDeletion"\]$`)
	require.Eventually(k.t, func() bool { return k.gadgets("alpha") == "alpha-x" }, waitLimit, often)
	var out buffer
	require.Equal(k.t, 1, k.start(&out, "wait", "widget/alpha", "--for=delete", "--timeout=1s"), &out)
	k.prints(out.String(), `timed out waiting for the condition on widgets/alpha`)
	r := k.begin(widgetsInDefault, "wait", "widget/alpha", "--for=delete", "--timeout=60s")
	k.shows(`patch gadget alpha-x --type=merge -p {"metadata":{"finalizers":null}}`, `patched$`)
	require.Zero(k.t, r.end(), &r.out)
	k.shows("delete gadgets --all --cascade=background", `"beta-x" deleted`)
	k.fails("delete widget beta --cascade=sideways", `invalid cascade value`)
}

// hurries deletes objects without a grace period, with every flag that shortens one.
func hurries(k *kubectl) {
	for flags, says := range map[string]string{
		"--grace-period=30":         `"alpha" deleted`,
		"--grace-period=1":          `"alpha" deleted`,
		"--now":                     `"alpha" deleted`,
		"--force":                   `"alpha" force deleted`,
		"--force --grace-period=0":  `"alpha" force deleted`,
		"--grace-period=0 --wait":   `"alpha" deleted`,
		"--now --dry-run=server":    `"alpha" deleted.*\(server dry run\)`,
		"--all-namespaces --all":    `"alpha" deleted`,
		"-l app=shop --now -o name": `^widget\.example\.dev/alpha$`,
	} {
		k.two()
		what := "alpha "
		if strings.Contains(flags, "all") || strings.Contains(flags, "-l") {
			what = ""
		}
		k.shows("delete widgets "+what+flags, says)
		if strings.Contains(flags, "dry-run") {
			k.shows("get widget alpha", `^alpha `)
		} else {
			k.fails("get widget alpha", `NotFound`)
		}
		k.run("delete", "widgets", "--all", "-A")
	}
	k.two()
	k.fails("delete widget alpha --now --force --grace-period=7", `--now and --grace-period cannot be specified together|--force and --grace-period greater than 0 cannot be specified together`)
	k.fails("delete widget alpha --force --grace-period=7", `--force and --grace-period greater than 0 cannot be specified together`)
}

// ship is a kind with a grace period.
type ship struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
}

func ships() registry.Definition {
	return registry.Kind[ship]{Group: "example.dev", Version: "v1", Plural: "ships", Names: registry.Names{Kind: "Ship"}, Rules: registry.Rules[ship]{Grace: registry.GraceSeconds[*ship](30)}, Deletion: registry.Deletion{Expire: true}}
}

// Objects with graceful deletion get the grace period that kubectl requests, and less if it asks
// again.
func TestDEL_08_KubectlAsksForGrace(t *testing.T) {
	k := newKubectl(t, serveKinds(t, ships()))
	k.shows("create -f "+k.file("s.yaml", "apiVersion: example.dev/v1\nkind: Ship\nmetadata: {name: s}\n"), `ship\.example\.dev/s created$`)
	left := func(seconds string) {
		t.Helper()
		k.shows("get ship s -o jsonpath={.metadata.deletionGracePeriodSeconds}:{.metadata.deletionTimestamp}", "^"+seconds+`:\d{4}-`)
	}
	k.shows("delete ship s --wait=false", `"s" deleted`)
	left("30")
	k.shows("delete ship s --grace-period=600 --wait=false", `"s" deleted`)
	left("30") // the grace period cannot be extended
	k.shows("delete ship s --grace-period=20 --wait=false", `"s" deleted`)
	left("20")
	k.shows("delete ship s --now", `"s" deleted`) // waits for the object to go
	k.fails("get ship s", `NotFound`)
	k.shows("create -f "+k.file("s.yaml", "apiVersion: example.dev/v1\nkind: Ship\nmetadata: {name: s}\n"), `created$`)
	k.shows("delete ship s --force", `Immediate deletion does not wait`, `"s" force deleted`)
	k.fails("get ship s", `NotFound`)
}
