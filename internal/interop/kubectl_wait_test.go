package interop

import (
	"strings"

	"github.com/stretchr/testify/require"
)

const ready = `{"status":{"phase":"Ready","conditions":[{"type":"Ready","status":"True"}]}}`

// waitFor waits for conditions that become true later, and for some that are true already.
func waitFor(k *kubectl) {
	for _, c := range []struct{ condition, change string }{
		{"condition=Ready", `patch widget alpha --subresource=status --type=merge -p ` + ready},
		{"condition=Ready=false", `patch widget alpha --subresource=status --type=merge -p {"status":{"conditions":[{"type":"Ready","status":"False"}]}}`},
		{"jsonpath={.status.phase}=Ready", `patch widget alpha --subresource=status --type=merge -p ` + ready},
		{"jsonpath={.spec.notes.done}", `patch widget alpha --type=merge -p {"spec":{"notes":{"done":"yes"}}}`},
		{"delete", `delete widget alpha`},
	} {
		k.shows("create -f "+k.file("alpha.yaml", alpha), `created$`)
		r := k.begin(widgetsInDefault, "wait", "widget/alpha", "--for="+c.condition, "--timeout=60s")
		k.run("label", "widget", "alpha", "meanwhile=something-else")
		k.run(strings.Fields(c.change)...)
		require.Zero(k.t, r.end(), "%s: %s", c.condition, &r.out)
		k.prints(r.out.String(), `^widget\.example\.dev/alpha condition met$`)
		k.shows("wait widget/alpha --for="+c.condition+" --timeout=10s", `!rror`) // at once
		k.run("delete", "widget", "alpha", "--ignore-not-found")
	}
	watches := k.seen(func(r *request) bool { return r.path == widgetsInDefault && r.watches() })
	require.NotEmpty(k.t, watches)
	for _, r := range watches {
		require.Equal(k.t, "metadata.name=alpha", r.query.Get("fieldSelector"))
	}

	var out buffer
	created := make(chan int)
	before := k.granted()
	go func() { created <- k.start(&out, "wait", "widget/alpha", "--for=create", "--timeout=60s") }()
	require.Eventually(k.t, func() bool { return k.asked() > before }, waitLimit, often)
	k.two()
	require.Zero(k.t, <-created, &out)
	k.prints(out.String(), `^widget\.example\.dev/alpha condition met$`)
	k.run(strings.Fields("patch widget alpha --subresource=status --type=merge -p " + ready)...)
	k.run(strings.Fields("patch widget beta --subresource=status --type=merge -p " + ready)...)
	k.shows("wait widgets --all --for=condition=Ready --timeout=10s", `alpha condition met`, `beta condition met`)
	k.shows("wait widgets -l tier=back --for=condition=Ready --timeout=10s", `!alpha`, `beta condition met`)
}

// waitInVain waits for a condition that never becomes true: kubectl reports it and exits with code
// 1.
func waitInVain(k *kubectl) {
	k.two()
	in := func(want string, args string) {
		k.t.Helper()
		var out buffer
		require.Equal(k.t, 1, k.start(&out, strings.Fields(args)...), &out)
		k.prints(out.String(), want)
	}
	for _, condition := range []string{"condition=Ready", "jsonpath={.spec.size}=4", "jsonpath={.status.phase}", "delete"} {
		in(`^error: timed out waiting for the condition on widgets/alpha$`, "wait widget/alpha --timeout=1s --for="+condition)
	}
	in(`alpha`, "wait widgets --all --for=condition=Ready --timeout=1s")
	in(`condition not met`, "wait widget/alpha --for=condition=Ready --timeout=0")
	in(`widgets\.example\.dev "none" not found`, "wait widget/none --for=condition=Ready --timeout=1s")
	k.shows("wait widget/none --for=delete --timeout=1s", `!rror`)
	k.shows("get widgets", `^alpha +3 `, `^beta +7 `)
}

// terminating deletes a namespace in which a finalizer holds an object.
func terminating(k *kubectl) {
	k.shows("create ns hall", `namespace/hall created`)
	held := strings.Replace(alpha, "name: alpha", "name: alpha\n  finalizers: [example.dev/hold]", 1)
	k.shows("create -n hall -f "+k.file("held.yaml", held), `created$`)
	k.shows("create -n hall -f "+k.file("beta.json", beta), `created$`)
	k.shows("delete ns hall --wait=false", `namespace "hall" deleted`)
	k.shows("get ns", `^hall +Terminating +\d+s$`, `^default +Active `)
	k.shows("get ns hall -o jsonpath={.status.phase},{.metadata.deletionTimestamp}", `^Terminating,\d{4}-`)
	k.shows("describe ns hall", `^Status: +Terminating$`)
	k.fails("create -n hall -f "+k.file("late.yaml", strings.Replace(alpha, "alpha", "late", 1)), `Forbidden.*because it is being terminated`)
	require.Eventually(k.t, func() bool { return !strings.Contains(k.run("get", "widgets", "-n", "hall", "-o", "name"), "beta") }, waitLimit, often)
	k.shows("get widgets -n hall -o jsonpath={.items[*].metadata.finalizers}", `^\["example\.dev/hold"\]$`)
	var out buffer
	require.Equal(k.t, 1, k.start(&out, "delete", "ns", "hall", "--timeout=1s"))
	k.prints(out.String(), `timed out waiting for the condition on namespaces/hall`)

	r := k.begin("/api/v1/namespaces", "wait", "ns/hall", "--for=delete", "--timeout=60s")
	k.shows(`patch widget alpha -n hall --type=json -p [{"op":"remove","path":"/metadata/finalizers"}]`, `patched$`)
	require.Zero(k.t, r.end(), &r.out)
	k.prints(r.out.String(), `^namespace/hall condition met$`)
	k.fails("get ns hall", `namespaces "hall" not found`)
	k.shows("get widgets -A", `No resources found`)
	k.shows("create ns hall", `created`)
	k.shows("get widgets -n hall", `No resources found in hall namespace`)
}
