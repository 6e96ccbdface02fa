package interop

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
)

// kubectl runs kubectl's own code in this process, with its own kubeconfig file and directory.
type kubectl struct {
	t *testing.T
	*server
	dir string
}

func newKubectl(t *testing.T, s *server) *kubectl {
	return &kubectl{t: t, server: s, dir: t.TempDir()}
}

// file writes a file and returns its path.
func (k *kubectl) file(name, content string) string {
	k.t.Helper()
	return writeFile(k.t, k.dir, name, content)
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// exit is kubectl's exit after an error.
type exit struct {
	message string
	code    int
}

// start runs kubectl and writes its output to out. It returns the exit code.
func (k *kubectl) start(out io.Writer, args ...string) (code int) {
	args = append([]string{"--kubeconfig", k.kubeconfig, "--cache-dir", filepath.Join(k.dir, "cache"), "--request-timeout=60s"}, args...)
	if *realKubectl != "" {
		command := exec.Command(*realKubectl, args...)
		command.Stdout, command.Stderr = out, out
		if err := command.Run(); command.ProcessState == nil {
			_, _ = fmt.Fprintln(out, err)
			return 1
		}
		return command.ProcessState.ExitCode()
	}
	defer func() {
		if e, ok := recover().(exit); ok {
			_, _ = fmt.Fprintln(out, e.message)
			code = e.code
		}
	}()
	command := kubectlcmd.NewKubectlCommand(kubectlcmd.KubectlOptions{
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50).WithWrapConfigFn(k.reach),
		IOStreams:   genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out},
	})
	command.SetArgs(args)
	command.SetOut(out)
	command.SetErr(out)
	if err := command.Execute(); err != nil {
		_, _ = fmt.Fprintln(out, err)
		return 1
	}
	return 0
}

// run runs kubectl, which must succeed.
func (k *kubectl) run(args ...string) string {
	k.t.Helper()
	var out buffer
	require.Zero(k.t, k.start(&out, args...), "kubectl %s:\n%s", strings.Join(args, " "), out.String())
	return out.String()
}

// shows runs kubectl, which must succeed and print lines that match regular expressions.
func (k *kubectl) shows(command string, lines ...string) {
	k.t.Helper()
	k.prints(k.run(strings.Fields(command)...), lines...)
}

func (k *kubectl) prints(out string, lines ...string) {
	k.t.Helper()
	for _, line := range lines {
		if line, not := strings.CutPrefix(line, "!"); not {
			require.NotRegexp(k.t, "(?m)"+line, out)
		} else {
			require.Regexp(k.t, "(?m)"+line, out)
		}
	}
}

// fails runs kubectl, which must fail with a matching error.
func (k *kubectl) fails(command string, lines ...string) {
	k.t.Helper()
	var out buffer
	require.NotZero(k.t, k.start(&out, strings.Fields(command)...), out.String())
	k.prints(out.String(), lines...)
}

const alpha = `apiVersion: example.dev/v1
kind: Widget
metadata:
  name: alpha
  labels: {app: shop, tier: front}
spec:
  size: 3
  owner: ann
  notes: {made: here}
`

const beta = `{"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "beta", "labels": {"app": "shop", "tier": "back"}}, "spec": {"size": 7, "color": "red"}}`

// kubectl's own code, in process, runs everyday commands.
func TestDISC_11_Kubectl(t *testing.T) {
	for target, serve := range targets() {
		for name, test := range map[string]func(*kubectl){
			"DISC_Discovery": discover, "GET": get, "CREATE_UPDATE_PATCH": change, "DEL": remove, "DEL_Cascade": cascades, "DEL_Hurry": hurries, "UPDATE_12_Scale": scaling, "NS": spaces,
			"REVIEW_Access": access, "REVIEW_Create": reviews, "EVT": listEvents, "EVT_Watch": followEvents, "LEASE_Raw": rawLeases,
			"PAGE_Chunks": chunks, "TABLE": tables, "LIST_Selectors": selections, "GET_Forms": forms, "WATCH_Forms": watchForms,
			"WATCH_Wait": waitFor, "WATCH_WaitInVain": waitInVain, "NS_Terminating": terminating,
		} {
			t.Run(target+"/"+name, func(t *testing.T) { test(newKubectl(t, serve(t))) })
		}
	}
}

func discover(k *kubectl) {
	k.shows("api-resources", `^widgets +wd +example\.dev/v1 +true +Widget$`, `^zones +example\.dev/v1 +false +Zone$`, `^namespaces +ns +v1 +false +Namespace$`, `^leases +coordination`)
	k.shows("api-resources --verbs=list,watch,deletecollection", `^gadgets`, `!subjectreviews`)
	k.shows("api-resources --categories=all", `^widgets `, `!gadgets`)
	k.shows("api-versions", `^example\.dev/v1$`, `^v1$`, `^events\.k8s\.io/v1$`)
	if *realKubectl != "" {
		k.shows("version", `^Server Version: v1\.\d+\.`)
	} else {
		k.fails("version", `^Server Version: v1\.\d+\.`, `client version error`) // only kubectl's releases know their version
	}
	k.shows("explain widget", `^KIND: +Widget$`, `^ +spec.*<Object> -required-$`)
	k.shows("explain widget.spec --recursive", `^ +size.<integer> -required-$`, `^ +enum: `, `^ +notes.<map\[string\]string>$`)
	k.shows("explain wd.spec.color", `^FIELD: color <string>$`, `The paint\.`)
	k.shows("explain lease.spec", `holderIdentity.<string>`)
	k.fails("explain widget.nonsense", `field "nonsense" does not exist`)
	k.shows("get --raw /readyz?verbose", `^\[\+\]ping ok$`, `^readyz check passed`)
}

func (k *kubectl) two() {
	k.t.Helper()
	k.shows("create -f "+k.file("alpha.yaml", alpha), `^widget\.example\.dev/alpha created$`)
	k.shows("create -f "+k.file("beta.json", beta), `^widget\.example\.dev/beta created$`)
}

func get(k *kubectl) {
	k.two()
	k.shows("create -f "+k.file("north.yaml", "apiVersion: example.dev/v1\nkind: Zone\nmetadata: {name: north}\nspec: {region: far}\n"), `^zone\.example\.dev/north created$`)
	k.shows("get widgets", `^NAME +SIZE +COLOR +PHASE +AGE$`, `^alpha +3 +blue +\d+s$`, `^beta +7 +red +\d+s$`)
	k.shows("get wd alpha -o yaml", `^  color: blue$`, `^  generation: 1$`, `^  resourceVersion: "\d+"$`, `^  uid: [0-9a-f-]{36}$`)
	k.shows("get widgets -o wide", `^alpha +3 +blue`)
	k.shows("get widgets -o json", `"kind": "List"`, `"name": "beta"`)
	k.shows("get widgets -A", `^NAMESPACE +NAME +SIZE`, `^default +alpha `)
	k.shows("get widgets -l app=shop,tier!=front", `^beta `, `!alpha`)
	k.shows("get widgets --field-selector metadata.name=beta", `^beta `, `!alpha`)
	k.shows("get widgets --field-selector spec.owner=ann", `^alpha `, `!beta`)
	k.fails("get widgets --field-selector spec.size=3", `BadRequest`)
	k.shows("get widgets --chunk-size=1", `^alpha `, `^beta `)
	k.shows("get widgets -o jsonpath={.items[*].spec.size}", `^3 7$`)
	k.shows("get all", `^alpha `, `^beta `)
	k.shows("get widgets,zones", `widget\.example\.dev/alpha`, `zone\.example\.dev/north`)
	k.shows("get widgets -n kube-public", `No resources found`)
	k.fails("get widget none", `NotFound.*widgets\.example\.dev "none" not found`)
	k.fails("get wodgets", `doesn't have a resource type`)
	k.shows("describe widget alpha", `^Name: +alpha$`, `^  Owner: +ann$`, `^Events: +<none>$`)
}

func change(k *kubectl) {
	k.two()
	k.fails("create -f "+k.file("wrong.yaml", strings.NewReplacer("size: 3", "size: 5000\n  color: pink", "alpha", "wrong").Replace(alpha)),
		`The Widget "wrong" is invalid`, `spec\.size: Invalid value: 5000`, `spec\.color: Unsupported value: "pink"`)
	k.fails("create -f "+k.file("typo.yaml", strings.Replace(alpha, "owner", "ownr", 1)), `unknown field "spec\.ownr"`)
	k.shows("label widget alpha colour=none", `widget\.example\.dev/alpha labeled`)
	k.fails("label widget alpha colour=some", `already has a value`)
	k.shows("label widgets -l app=shop colour=some --overwrite", `alpha labeled`, `beta labeled`)
	k.shows("label widget alpha colour-", `unlabeled`)
	k.shows("annotate widget alpha example.dev/why=because", `annotated`)
	k.shows("edit widget alpha", `widget\.example\.dev/alpha edited`)
	k.shows(`patch widget alpha --type=json -p [{"op":"test","path":"/spec/size","value":55},{"op":"replace","path":"/spec/size","value":66}]`, `patched$`)
	k.shows(`patch widget alpha --type=merge -p {"spec":{"notes":{"made":null,"sold":"there"}}}`, `patched$`)
	k.shows(`patch widget alpha --type=merge -p {"spec":{"size":66}}`, `patched \(no change\)$`)
	k.fails(`patch widget alpha --type=merge -p {"spec":{"size":0}}`, `spec\.size: Invalid value: 0`)
	k.shows(`patch widget alpha --type=strategic -p {"spec":{"notes":{"strategic":"yes"}}}`, `patched$`)
	k.shows(`patch widget alpha --subresource=status --type=merge -p {"status":{"phase":"Ready","conditions":[{"type":"Ready","status":"True"}]},"spec":{"size":1}}`, `patched$`)
	k.shows("get widget alpha", `^alpha +66 +blue +Ready `)
	k.shows("get widget alpha --subresource=status -o yaml", `^    type: Ready$`)
	old := k.file("beta-old.json", k.run("get", "widget", "beta", "-o", "json"))
	k.shows("replace -f "+k.file("beta-new.json", strings.Replace(k.run("get", "widget", "beta", "-o", "json"), `"size": 7`, `"size": 8`, 1)), `replaced$`)
	k.fails("replace -f "+old, `Conflict.*the object has been modified`)
	k.shows("replace --force -f "+k.file("beta.json", beta), `replaced$`)
	k.shows("wait widget/alpha --for=jsonpath={.spec.size}=66 --timeout=10s", `condition met`)
	k.shows("wait widget/alpha --for=condition=Ready --timeout=10s", `condition met`)
	applied := strings.Replace(alpha, "alpha", "applied", 1)
	k.shows("apply -f "+k.file("applied.yaml", applied), `created$`)
	k.shows("apply -f "+k.file("applied.yaml", applied), `unchanged$`)
	k.shows("apply -f "+k.file("applied.yaml", strings.Replace(applied, "size: 3", "size: 4", 1)), `configured$`)
}

func remove(k *kubectl) {
	k.two()
	k.shows("delete widget beta", `widget\.example\.dev "beta" deleted`)
	k.fails("delete widget beta", `NotFound`)
	k.shows("delete widget beta --ignore-not-found", `!rror`)
	k.shows(`patch widget alpha --type=merge -p {"metadata":{"finalizers":["example.dev/hold"]}}`, `patched$`)
	k.shows("delete widget alpha --wait=false", `"alpha" deleted`)
	k.fails(`patch widget alpha --type=merge -p {"metadata":{"finalizers":["example.dev/hold","example.dev/more"]}}`, `no new finalizers can be added`)
	k.shows("get widget alpha -o jsonpath={.metadata.deletionTimestamp}", `^\d{4}-`)
	r := k.begin(widgetsInDefault, "wait", "widget/alpha", "--for=delete", "--timeout=60s")
	k.run("patch", "widget", "alpha", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	require.Zero(k.t, r.end(), r.out.String())
	k.prints(r.out.String(), `condition met`)
	k.two()
	k.shows("delete widgets --all", `"alpha" deleted`, `"beta" deleted`)
	k.shows("get widgets", `No resources found`)
}

func spaces(k *kubectl) {
	k.shows("create ns hall", `namespace/hall created`)
	k.fails("create ns hall", `AlreadyExists`)
	k.shows("get ns", `^default +Active `, `^hall +Active `)
	k.shows("create -n hall -f "+k.file("alpha.yaml", alpha), `created$`)
	k.shows("label ns hall purpose=test", `labeled`)
	k.shows("get ns -l purpose=test", `^hall `, `!default`)
	k.shows("describe ns hall", `^Name: +hall$`, `^Status: +Active$`)
	k.shows("delete ns hall --timeout=60s", `namespace "hall" deleted`)
	k.fails("get ns hall", `NotFound`)
	k.shows("get widgets -A", `No resources found`)
	k.fails("create -n hall -f "+k.file("alpha.yaml", alpha), `namespaces "hall" not found`)
	k.fails("delete ns kube-system", `Forbidden`)
}

func access(k *kubectl) {
	k.shows("auth can-i create widgets", `^yes$`)
	k.shows("auth can-i update widgets --subresource=status -n kube-public", `^yes$`)
	k.shows("auth can-i --list", `^Resources +Non-Resource URLs`, `\*\.\*`)
	k.shows("auth whoami", `^Username +admin$`, `system:masters`)
	k.run("config", "set-credentials", "ann", "--token=ann-token")
	k.run("config", "set-context", "ann", "--user=ann", "--cluster="+k.run("config", "view", "-o", "jsonpath={.clusters[0].name}"))
	k.fails("get widgets --context=ann", `Forbidden.*User "ann" cannot list`)
	k.shows("auth whoami --as=bob --as-group=dev --as-group=system:masters --as-uid=7", `^Username +bob$`, `^UID +7$`, `^Groups +\[dev system:masters system:authenticated\]$`)
	k.fails("get widgets --as=bob", `Forbidden.*User "bob" cannot list`)
	k.shows("auth can-i create widgets --as=bob --as-group=system:masters", `^yes$`)
	k.fails("get widgets --context=ann --as=bob", `Forbidden.*User "ann" cannot impersonate`)
}

func listEvents(k *kubectl) {
	k.two()
	uid := k.run("get", "widget", "alpha", "-o", "jsonpath={.metadata.uid}")
	event := func(name, form string) string {
		return k.file(name+".yaml", fmt.Sprintf(form, name, uid))
	}
	k.shows("create -f "+event("old", `apiVersion: v1
kind: Event
metadata: {name: %s}
involvedObject: {apiVersion: example.dev/v1, kind: Widget, namespace: default, name: alpha, uid: %s}
reason: Broke
message: It broke.
type: Warning
count: 3
firstTimestamp: "2020-01-01T00:00:00Z"
lastTimestamp: "2020-01-01T00:00:00Z"
source: {component: tests}
`), `^event/old created$`)
	k.shows("create -f "+event("new", `apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: %s}
regarding: {apiVersion: example.dev/v1, kind: Widget, namespace: default, name: alpha, uid: %s}
reason: Made
action: Making
note: It was made.
type: Normal
eventTime: "2020-01-01T00:00:00.000001Z"
reportingController: example.dev/tests
reportingInstance: tests-1
`), `^event\.events\.k8s\.io/new created$`)
	k.shows("get events", `^LAST SEEN +TYPE +REASON +OBJECT +MESSAGE`, `Warning +Broke +widget/alpha +It broke\.`, `Normal +Made +widget/alpha +It was made\.`)
	k.shows("get events --field-selector type=Warning", `Broke`, `!Made`)
	k.shows("get events.events.k8s.io -o name", `^event\.events\.k8s\.io/old$`, `^event\.events\.k8s\.io/new$`)
	k.shows("events", `^LAST SEEN +TYPE +REASON +OBJECT +MESSAGE`, `Warning +Broke +Widget/alpha +It broke\.`, `Normal +Made +Widget/alpha +It was made\.`)
	k.shows("events --for widget/alpha --types=Warning", `Broke`, `!Made`)
	k.shows("describe widget alpha", `^Events:$`, `Warning +Broke .*tests +It broke\.`)
}

// rawLeases uses leases, for which kubectl has no command.
func rawLeases(k *kubectl) {
	const path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	body := k.file("lease.json", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15}}`)
	k.shows("create --raw "+path+" -f "+body, `"holderIdentity":"me"`, `"resourceVersion":"\d+"`)
	k.shows("get leases", `^NAME +HOLDER +AGE$`, `^l +me +\d+s$`)
	k.shows("get --raw "+path+"/l", `"leaseDurationSeconds":15`)
	k.shows("replace --raw "+path+"/l -f "+k.file("lease.json", strings.Replace(k.run("get", "--raw", path+"/l"), `"me"`, `"you"`, 1)), `"holderIdentity":"you"`)
	k.shows("delete --raw "+path+"/l", `"status":"Success"`)
	k.shows("get leases", `No resources found`)
}

// reviews sends reviews from a file.
func reviews(k *kubectl) {
	k.shows("create -o yaml -f "+k.file("who.yaml", "apiVersion: authentication.k8s.io/v1\nkind: SelfSubjectReview\n"), `^    username: admin$`, `^    - system:masters$`)
	k.shows("create -o jsonpath={.status.allowed} -f "+k.file("may.yaml", `apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: ann, resourceAttributes: {group: example.dev, resource: widgets, verb: create, namespace: default}}
`), `^false$`)
}

// followEvents watches events arrive.
func followEvents(k *kubectl) {
	k.two()
	event := func(name, reason, kind string) {
		k.shows("create -f "+k.file(name+".yaml", fmt.Sprintf(`apiVersion: v1
kind: Event
metadata: {name: %s}
involvedObject: {apiVersion: example.dev/v1, kind: Widget, namespace: default, name: alpha}
reason: %s
message: It was %s.
type: %s
count: 3
firstTimestamp: "2020-01-01T00:00:00Z"
lastTimestamp: "2020-01-01T00:00:00Z"
source: {component: tests, host: here}
`, name, reason, strings.ToLower(reason), kind)), `created$`)
	}
	event("one", "Made", "Normal")
	const path = "/api/v1/namespaces/default/events"
	table, list := k.begin(path, "get", "events", "-w"), k.begin(path, "events", "--watch", "--types=Warning")
	event("two", "Sold", "Normal")
	event("three", "Broken", "Warning")
	table.prints(`(?m)^.*Warning +Broken +widget/alpha +It was broken\.`)
	list.prints(`(?m)^.*Warning +Broken +Widget/alpha +It was broken\.`)
	k.shut(path)()
	table.end()
	list.end()
	k.prints(table.out.String(), `Normal +Made +widget/alpha`, `Normal +Sold +widget/alpha`)
	k.prints(list.out.String(), `!Made`, `!Sold`)
	k.shows("get events -o wide", `^LAST SEEN +TYPE +REASON +OBJECT +SUBOBJECT +SOURCE +MESSAGE +FIRST SEEN +COUNT +NAME`, `tests, here`, ` 3 +three$`)
	k.shows("get events -A --sort-by=.reason -o custom-columns=R:.reason", `(?s)Broken.*Made.*Sold`)
	k.shows("events -A -o yaml", `^  kind: Event$`, `^    name: one$`, `^    name: three$`)
	k.shows("events -n kube-public", `No events found in kube-public namespace`)
	k.shows("delete events --all", `"one" deleted`)
	k.shows("get events", `No resources found`)
}
