package standin

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// kubectl runs kubectl's own code in this process, with its own kubeconfig file and directory.
type kubectl struct {
	t          *testing.T
	config     *rest.Config
	dir        string
	kubeconfig string
}

// newKubectl starts a server and returns a kubectl for it.
func newKubectl(t *testing.T) *kubectl {
	t.Helper()
	environment, config := start(t)
	user, err := environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	require.NoError(t, err)
	text, err := user.KubeConfig()
	require.NoError(t, err)
	k := &kubectl{t: t, config: config, dir: t.TempDir()}
	k.kubeconfig = k.file("kubeconfig", string(text))
	return k
}

// in returns the same kubectl for a part of a test.
func (k *kubectl) in(t *testing.T) *kubectl {
	out := *k
	out.t, out.dir = t, t.TempDir()
	return &out
}

// file writes a file and returns its path.
func (k *kubectl) file(name, content string) string {
	k.t.Helper()
	name = filepath.Join(k.dir, name)
	require.NoError(k.t, os.WriteFile(name, []byte(content), 0o700)) //nolint:gosec // some are programs
	return name
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
	defer func() {
		if e, ok := recover().(exit); ok {
			_, _ = fmt.Fprintln(out, e.message)
			code = e.code
		}
	}()
	cmdutil.BehaviorOnFatal(func(message string, code int) { panic(exit{message, code}) })
	command := kubectlcmd.NewKubectlCommand(kubectlcmd.KubectlOptions{
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50).WithWrapConfigFn(func(c *rest.Config) *rest.Config {
			c.QPS = -1
			return c
		}),
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out},
	})
	command.SetArgs(append([]string{"--kubeconfig", k.kubeconfig, "--cache-dir", filepath.Join(filepath.Dir(k.kubeconfig), "cache"), "--request-timeout=60s"}, args...))
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
	k.prints(command, k.run(words(command)...), lines...)
}

// fails runs kubectl, which must fail with a matching error.
func (k *kubectl) fails(command string, lines ...string) {
	k.t.Helper()
	var out buffer
	require.NotZero(k.t, k.start(&out, words(command)...), "kubectl %s:\n%s", command, out.String())
	k.prints(command, out.String(), lines...)
}

// words splits a command; ␣ stands for a space within a word.
func words(command string) []string {
	out := strings.Fields(command)
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], "␣", " ")
	}
	return out
}

func (k *kubectl) prints(command, out string, lines ...string) {
	k.t.Helper()
	for _, line := range lines {
		if line, not := strings.CutPrefix(line, "!"); not {
			require.NotRegexp(k.t, "(?m)"+line, out, command)
		} else {
			require.Regexp(k.t, "(?m)"+line, out, command)
		}
	}
}

// value returns the result of a JSONPath.
func (k *kubectl) value(object, path string) string {
	k.t.Helper()
	return k.run(append(words("get "+object), "-o", "jsonpath="+path)...)
}

// kubectl's own code runs everyday commands on Kubernetes' kinds. Its output is the same as with
// kube-apiserver: to compare, run the test with KINDWRIGHT_STANDIN_ASSETS naming a directory with
// the originals.
func TestKubectl(t *testing.T) {
	k := newKubectl(t)
	for _, part := range []struct {
		name string
		test func(*kubectl)
	}{
		{"Create", creates},
		{"Columns", columns},
		{"Workloads", workloads},
		{"Pods", pods},
		{"Nodes", nodes},
		{"Objects", objects},
		{"Files", files},
		{"Explain", explains},
		{"Describe", describes},
		{"Access", access},
		{"Delete", deletes},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(k.in(t)) })
	}
}

// creates runs every kubectl create command.
func creates(k *kubectl) {
	key, cert := selfSigned(k.t)
	files := " --cert=" + k.file("tls.crt", cert) + " --key=" + k.file("tls.key", key)
	for command, prints := range map[string]string{
		"run one --image=nginx --port=80 --labels=app=one,tier=x --env=A=b":                              `^pod/one created$`,
		"run two --image=busybox --restart=Never --command -- sleep 1000":                                `^pod/two created$`,
		"create deployment web --image=nginx:1 --replicas=3 --port=80":                                   `^deployment\.apps/web created$`,
		"create configmap cm --from-literal=a=b --from-file=" + k.file("bytes.bin", "\x00\xff"):          `^configmap/cm created$`,
		"create secret generic gen --from-literal=pw=x":                                                  `^secret/gen created$`,
		"create secret tls tls" + files:                                                                  `^secret/tls created$`,
		"create secret docker-registry reg --docker-username=u --docker-password=p --docker-email=e@x.y": `^secret/reg created$`,
		"create service clusterip sc --tcp=80:8080":                                                      `^service/sc created$`,
		"create service nodeport sn --tcp=80:8080 --node-port=30123":                                     `^service/sn created$`,
		"create service externalname se --external-name=example.com":                                     `^service/se created$`,
		"create service loadbalancer sl --tcp=80":                                                        `^service/sl created$`,
		"create role r --verb=get,list --resource=pods,deployments.apps,pods/log":                        `^role\.rbac\.authorization\.k8s\.io/r created$`,
		"create rolebinding rb --role=r --user=ann --serviceaccount=default:sa":                          `^rolebinding\.rbac\.authorization\.k8s\.io/rb created$`,
		"create clusterrole cr --verb=get --resource=nodes --resource-name=a":                            `^clusterrole\.rbac\.authorization\.k8s\.io/cr created$`,
		"create clusterrole crn --verb=get --non-resource-url=/metrics":                                  `crn created$`,
		"create clusterrolebinding crb --clusterrole=cr --group=g":                                       `crb created$`,
		"create serviceaccount sa":                                                                       `^serviceaccount/sa created$`,
		"create job j --image=busybox -- date":                                                           `^job\.batch/j created$`,
		"create cronjob cj --image=busybox --schedule=*/5␣*␣*␣*␣* -- date":                               `^cronjob\.batch/cj created$`,
		"create quota q --hard=cpu=1,memory=1G,pods=2":                                                   `^resourcequota/q created$`,
		"create priorityclass pc --value=1000 --description=x":                                           `^priorityclass\.scheduling\.k8s\.io/pc created$`,
		"create pdb some --selector=app=web --min-available=1":                                           `^poddisruptionbudget\.policy/some created$`,
		"create pdb half --selector=app=web --max-unavailable=50%":                                       `^poddisruptionbudget\.policy/half created$`,
		"create ingress ing --rule=foo.com/bar*=web:80,tls=my-cert --class=nginx --default-backend=d:80": `^ingress\.networking\.k8s\.io/ing created$`,
		"create namespace hall":                                                                          `^namespace/hall created$`,
		"run dry --image=busybox --dry-run=server -o jsonpath={.spec.dnsPolicy}{.status.qosClass}":       `^ClusterFirstBestEffort$`,
	} {
		k.shows(command, prints)
	}
	k.shows("create job again --from=cronjob/cj", `^job\.batch/again created$`)
	k.shows("create token sa --duration=10m", `^ey[\w-]+\.[\w-]+\.[\w-]+$`)
	require.Equal(k.t, "kubernetes.io/tls kubernetes.io/dockerconfigjson Opaque", k.value("secret tls reg gen", "{.items[*].type}"))
	require.Equal(k.t, "AP8=", k.value("configmap cm", `{.binaryData.bytes\.bin}`))
	require.Equal(k.t, "b", k.value("configmap cm", "{.data.a}"))
	for command, prints := range map[string]string{
		"create deployment bad --image=":                            `spec\.template\.spec\.containers: Required value`,
		"create role bad --verb=get --resource=nonsense":            `doesn't have a resource type`,
		"create quota bad --hard=cpu=abc":                           `must match the regular expression`,
		"create namespace hall":                                     `AlreadyExists.*namespaces "hall" already exists`,
		"create deployment Bad! --image=x":                          `metadata\.name: Invalid value: "Bad!"`,
		"create service nodeport bad --tcp=80 --node-port=30123":    `spec\.ports\[0\]\.nodePort: Invalid value: 30123: provided port is already allocated`,
		"create service clusterip bad --tcp=80 --clusterip=1.2.3.4": `spec\.clusterIPs: Invalid value`,
		"create token nobody":                                       `serviceaccounts "nobody" not found`,
	} {
		k.fails(command, prints)
	}
	k.shows("expose deployment web --port=80 --target-port=8080 --name=websvc", `^service/websvc exposed$`)
	k.shows("expose pod one --port=80 --name=onesvc --type=NodePort", `^service/onesvc exposed$`)
	k.fails("expose deployment web --port=70000 --name=bad", `spec\.ports\[0\]\.port: Invalid value: 70000`)
}

// columns compares the columns and their values with kube-apiserver's.
func columns(k *kubectl) {
	k.shows("get all -A", `^NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE$`, `^default +pod/one +0/1 +Pending +0 `, `^default +service/kubernetes +ClusterIP +10\.0\.0\.1 +<none> +443/TCP`, `^default +deployment\.apps/web +0/3 +0 +0 `, `^default +job\.batch/j `)
	for kind, lines := range map[string][]string{
		"pods":                   {`^NAME +READY +STATUS +RESTARTS +AGE +IP +NODE +NOMINATED NODE +READINESS GATES$`, `^one +0/1 +Pending +0 +\S+ +<none> +<none> +<none> +<none>$`},
		"deploy":                 {`^NAME +READY +UP-TO-DATE +AVAILABLE +AGE +CONTAINERS +IMAGES +SELECTOR$`, `^web +0/3 +0 +0 +\S+ +nginx +nginx:1 +app=web$`},
		"svc":                    {`^NAME +TYPE +CLUSTER-IP +EXTERNAL-IP +PORT\(S\) +AGE +SELECTOR$`, `^se +ExternalName +<none> +example\.com +<none> +\S+ +app=se$`, `^sn +NodePort +10\.0\.0\.\d+ +<none> +80:30123/TCP `, `^sl +LoadBalancer +\S+ +<pending> +80:\d+/TCP `},
		"cm":                     {`^NAME +DATA +AGE$`, `^cm +2 `},
		"secret":                 {`^NAME +TYPE +DATA +AGE$`, `^reg +kubernetes\.io/dockerconfigjson +1 `, `^tls +kubernetes\.io/tls +2 `},
		"sa":                     {`^NAME +AGE$`, `^sa `},
		"role":                   {`^NAME +CREATED AT$`, `^r +20`},
		"rolebinding":            {`^NAME +ROLE +AGE +USERS +GROUPS +SERVICEACCOUNTS$`, `^rb +Role/r +\S+ +ann +default/sa$`},
		"clusterrolebinding crb": {`^crb +ClusterRole/cr +\S+ +g`},
		"ing":                    {`^NAME +CLASS +HOSTS +ADDRESS +PORTS +AGE$`, `^ing +nginx +foo\.com +80, 443 `},
		"quota":                  {`^NAME +REQUEST +LIMIT +AGE$`, `^q +\d+s$`},
		"pdb":                    {`^NAME +MIN AVAILABLE +MAX UNAVAILABLE +ALLOWED DISRUPTIONS +AGE$`, `^half +N/A +50% +0 `, `^some +1 +N/A +0 `},
		"pc pc":                  {`^NAME +VALUE +GLOBAL-DEFAULT +AGE +PREEMPTIONPOLICY$`, `^pc +1000 +false +\S+ +PreemptLowerPriority$`},
		"cj":                     {`^NAME +SCHEDULE +TIMEZONE +SUSPEND +ACTIVE +LAST SCHEDULE +AGE +CONTAINERS +IMAGES +SELECTOR$`, `^cj +\*/5 \* \* \* \* +<none> +False +0 +<none> +\S+ +cj +busybox +<none>$`},
		"job":                    {`^NAME +STATUS +COMPLETIONS +DURATION +AGE +CONTAINERS +IMAGES +SELECTOR$`, `^j +Running +0/1 +\S+ +j +busybox +batch\.kubernetes\.io/controller-uid=`},
	} {
		k.shows("get "+kind+" -o wide", lines...)
	}
	require.Equal(k.t, "pod/one\npod/two\n", k.run(words("get pods --sort-by=.metadata.creationTimestamp -o name --sort-by=.metadata.name")...))
	k.shows("get pods -o custom-columns=N:.metadata.name,I:.spec.containers[*].image", `^N +I$`, `^two +busybox$`)
	k.shows("get pods --field-selector=status.phase=Pending,spec.nodeName= -o name", `^pod/one$`)
	k.shows("get pods --field-selector=spec.nodeName=n1", `No resources found`)
	k.fails("get pods --field-selector=bogus=n1", `BadRequest`, `bogus`)
	k.shows("get pods -l app=one --show-labels", `app=one,tier=x$`, `!two`)
	k.shows("get events", `No resources found`)
}

// workloads uses the commands for a deployment that need no controller.
func workloads(k *kubectl) {
	k.shows("set image deployment/web nginx=nginx:2", `image updated$`)
	k.fails("set image deployment/web nope=nginx:2", `unable to find container named "nope"`)
	k.shows("set env deployment/web A=b", `env updated$`)
	k.shows("set env deployment/web --from=configmap/cm", `env updated$`)
	k.shows("set env deployment/web --list", `^# A from configmap cm, key a$`)
	k.shows("set resources deployment web --limits=cpu=200m,memory=512Mi --requests=cpu=100m,memory=256Mi", `resource requirements updated$`)
	k.shows("set serviceaccount deployment web sa", `serviceaccount updated$`)
	k.shows("set selector service websvc app=other", `selector updated$`)
	k.shows("set subject rolebinding rb --user=bob", `subjects updated$`)
	k.shows("create deployment roll --image=nginx:2", `created$`)
	uid := k.value("deploy roll", "{.metadata.uid}")
	k.run("apply", "-f", k.file("first.yaml", replicaSet("1", uid)), "-f", k.file("second.yaml", replicaSet("2", uid)))
	k.shows("rollout history deployment/roll", `^1 +try 1$`, `^2 +try 2$`)
	k.shows("rollout history deployment/roll --revision=1", `pod-template-hash=h1$`, `Image:\s+nginx:1$`)
	k.run("annotate", "deploy", "roll", "deployment.kubernetes.io/revision=2") // normally set by the controller
	k.shows("rollout undo deployment/roll --dry-run=server", `rolled back \(server dry run\)$|skipped rollback`)
	k.shows("rollout undo deployment/roll --to-revision=1", `rolled back$`)
	require.Equal(k.t, "nginx:1", k.value("deploy roll", "{.spec.template.spec.containers[0].image}"))
	k.fails("rollout undo deployment/roll --to-revision=9", `unable to find specified revision 9`)
	k.shows("rollout pause deployment/roll", `paused$`)
	k.fails("rollout restart deployment/roll", `can't restart paused deployment`)
	k.shows("rollout resume deployment/roll", `resumed$`)
	k.shows("rollout restart deployment/roll", `restarted$`)
	k.shows("rollout status deployment/roll --watch=false", `Waiting for deployment`)
	k.shows("scale deployment web --replicas=5", `scaled$`)
	k.shows("scale deployment web --replicas=6 --current-replicas=5", `scaled$`)
	k.fails("scale deployment web --replicas=7 --current-replicas=1", `Expected replicas to be 1, was 6`)
	k.shows("scale rs roll-1 --replicas=1", `scaled$`)
	k.fails("scale statefulset none --replicas=1", `NotFound|no objects passed`)
	k.shows("autoscale deployment web --min=2 --max=10 --cpu=80%", `autoscaled$`)
	k.shows("get hpa", `^NAME +REFERENCE +TARGETS +MINPODS +MAXPODS +REPLICAS +AGE$`, `^web +Deployment/web +cpu: <unknown>/80% +2 +10 +0 `)
	k.fails("autoscale deployment roll --min=2 --max=1", `--max=MAXPODS must be larger`)
	generation := k.value("deploy web", "{.metadata.generation}")
	k.shows("annotate deploy web note=hi", `annotated$`)
	require.NotEqual(k.t, generation, k.value("deploy web", "{.metadata.generation}"))
	k.shows("annotate deploy web note-", `annotated$`)
}

// replicaSet returns a replica set as the deployment controller creates it for a revision.
func replicaSet(revision, owner string) string {
	return strings.NewReplacer("$N", revision, "$UID", owner).Replace(`apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: roll-$N
  labels: {app: roll, pod-template-hash: h$N}
  annotations: {deployment.kubernetes.io/revision: "$N", kubernetes.io/change-cause: "try $N"}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: roll, uid: $UID, controller: true}]
spec:
  replicas: 0
  selector: {matchLabels: {app: roll, pod-template-hash: h$N}}
  template:
    metadata: {labels: {app: roll, pod-template-hash: h$N}}
    spec: {containers: [{name: nginx, image: "nginx:$N"}]}
`)
}

// pods uses the commands that need a kubelet, and waits for conditions that one would report.
func pods(k *kubectl) {
	k.shows("logs one", `^$`)
	k.fails("exec one -- ls", `pod one does not have a host assigned`)
	k.fails("attach one", `pod one does not have a host assigned`)
	k.fails("port-forward one 8080:80", `unable to forward port because pod is not running. Current status=Pending`)
	k.fails("top pods", `Metrics API not available`)
	k.shows("debug one --image=busybox --container=look", `^$`)
	require.Equal(k.t, "look", k.value("pod one", "{.spec.ephemeralContainers[*].name}"))
	k.shows("debug one --image=busybox --copy-to=copied --container=look", `^$`)
	k.shows("get pod copied -o name", `pod/copied`)
	k.shows("set image pod/one one=nginx:9", `image updated$`)
	k.fails(`patch pod one -p {"spec":{"containers":[{"name":"one","command":["y"]}]}}`, `pod updates may not change fields other than`)
	k.fails(`patch pod one --subresource=resize -p {"spec":{"containers":[{"name":"one","resources":{"requests":{"memory":"1Mi"}}}]}}`, `Pod QOS Class may not change as a result of resizing`)
	k.shows(`patch pod one --subresource=status --type=merge -p {"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, `patched$`)
	k.shows("wait pod/one --for=condition=Ready --timeout=20s", `condition met$`)
	k.shows("wait pod/one --for=jsonpath={.status.phase}=Running --timeout=20s", `condition met$`)
	k.shows("wait pod/one --for=create --timeout=20s", `condition met$`)
	k.fails("wait pod/one --for=condition=Bogus --timeout=1ms", `timed out waiting`)
	k.shows("label pods --all env=dev", `pod/one labeled`, `pod/two labeled`)
	k.fails("label pod one env=prod", `already has a value`)
	k.shows("label pod one env=prod --overwrite", `labeled$`)
	k.shows("label pod one env-", `unlabeled$`)
	k.fails("label pod one bad/label/x=y", `metadata\.labels: Invalid value: "bad/label/x"`)
}

// nodes takes a node out of service and evicts its pods.
func nodes(k *kubectl) {
	k.shows("apply -f "+k.file("node.yaml", `apiVersion: v1
kind: Node
metadata: {name: n1, labels: {node-role.kubernetes.io/control-plane: ""}}
status:
  conditions: [{type: Ready, status: "True", reason: KubeletReady}]
  addresses: [{type: InternalIP, address: 10.1.1.1}]
  nodeInfo: {kubeletVersion: v1.36.3, osImage: Linux, kernelVersion: "6.1", containerRuntimeVersion: "containerd://2", machineID: "", systemUUID: "", bootID: "", kubeProxyVersion: "", operatingSystem: linux, architecture: amd64}
`), `node/n1 created$`)
	k.shows("get nodes -o wide", `^NAME +STATUS +ROLES +AGE +VERSION +INTERNAL-IP +EXTERNAL-IP +OS-IMAGE +KERNEL-VERSION +CONTAINER-RUNTIME$`, `^n1 +Ready +control-plane +\S+ +v1\.36\.3 +10\.1\.1\.1 +<none> +Linux +6\.1 \(amd64\) +containerd://2$`)
	k.shows("taint nodes n1 dedicated=x:NoSchedule", `tainted$`)
	k.fails("taint nodes n1 dedicated=x:Bogus", `invalid taint effect: Bogus`)
	k.shows("taint nodes n1 dedicated-", `untainted$`)
	k.shows("cordon n1", `cordoned$`)
	k.shows("get nodes", `^n1 +Ready,SchedulingDisabled `)
	k.shows("uncordon n1", `uncordoned$`)
	k.fails("top nodes", `Metrics API not available`)
	k.shows("apply -f "+k.file("held.yaml", `apiVersion: v1
kind: Pod
metadata: {name: held, labels: {app: held}}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: a, image: x}, {name: b, image: x}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: held}
spec: {minAvailable: 1, selector: {matchLabels: {app: held}}}
`), `pod/held created$`, `poddisruptionbudget\.policy/held created$`)
	k.shows(`patch pod held --subresource=status --type=merge -p {"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, `patched$`)
	// The budget's controller has seen it; before, an eviction is to be repeated after ten seconds.
	k.shows(`patch pdb held --subresource=status --type=merge -p {"status":{"observedGeneration":1,"desiredHealthy":1,"currentHealthy":1}}`, `patched$`)
	k.fails("logs held -c nobody", `container nobody is not valid for pod held`)
	k.fails("exec held -c a -- ls", `Error|error`)
	k.fails("drain n1 --force --timeout=1s", `Cannot evict pod as it would violate the pod's disruption budget`)
	k.shows("delete pdb held", `deleted`)
	k.shows("drain n1 --force --dry-run=server", `pod/held evicted \(server dry run\)|evicting pod default/held \(server dry run\)`)
	k.shows("drain n1 --force --timeout=30s", `^node/n1 drained$`)
	k.fails("get pod held", `NotFound`)
	k.shows("describe node n1", `^Name: +n1$`, `^Unschedulable: +true$`)
	k.shows("delete node n1", `deleted`)
}

// objects patches, edits and replaces objects.
func objects(k *kubectl) {
	for _, p := range []string{
		`-p {"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:3"}]}}}}`, `--type=merge -p {"spec":{"replicas":1}}`,
		`--type=json -p [{"op":"replace","path":"/spec/replicas","value":2}]`, `--subresource=scale --type=merge -p {"spec":{"replicas":3}}`,
	} {
		k.shows("patch deploy web "+p, `patched$`)
	}
	require.Equal(k.t, "3 nginx:3 1", k.value("deploy web", `{.spec.replicas} {.spec.template.spec.containers[*].image} {range .spec.template.spec.containers[?(@.name=="nginx")].ports}1{end}`), "a strategic patch merges containers by name")
	k.fails(`patch deploy web -p {"spec":{"selector":{"matchLabels":{"x":"y"}}}}`, `spec\.selector: Invalid value`, `field is immutable`)
	k.t.Setenv("KUBE_EDITOR", k.file("edit.sh", "#!/bin/sh\nsed -i 's/image: nginx:3/image: nginx:4/' \"$1\"\n"))
	k.shows("edit deploy web", `deployment\.apps/web edited$`)
	require.Equal(k.t, "nginx:4", k.value("deploy web", "{.spec.template.spec.containers[0].image}"))
	whole := k.file("web.json", k.run(words("get deploy web -o json")...))
	k.shows("replace -f "+whole, `replaced$`)
	k.shows("replace --force -f "+k.file("two.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: two}\nspec: {terminationGracePeriodSeconds: 0, containers: [{name: two, image: x}]}\n"), `pod/two replaced$`)
	k.shows("events --for=pod/one", `No events found`)
}

// files applies files in both ways and shows the differences.
func files(k *kubectl) {
	form := "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent, annotations: {team: shop}}\nspec:\n  selector: {matchLabels: {app: agent}}\n  template:\n    metadata: {labels: {app: agent}}\n    spec: {hostNetwork: true, nodeSelector: {a: b}, containers: [{name: a, image: \"agent:1\", ports: [{containerPort: 9100}]}]}\n"
	first, second := k.file("first.yaml", form), k.file("second.yaml", strings.Replace(form, "agent:1", "agent:2", 1))
	k.shows("apply -f "+first+" --dry-run=server", `created \(server dry run\)$`)
	k.shows("apply -f "+first, `daemonset\.apps/agent created$`)
	k.shows("apply -f "+first, `daemonset\.apps/agent unchanged$`)
	k.shows("diff -f "+first, `^$`)
	k.fails("diff -f "+second, `^-      - image: agent:1$`, `^\+      - image: agent:2$`, `!^[-+] .*terminationMessagePath`)
	k.shows("apply -f "+second, `configured$`)
	k.shows("apply --server-side -f "+second, `serverside-applied$`)
	k.shows("apply view-last-applied ds/agent", `^    team: shop$`)
	k.fails("apply --server-side --field-manager=other -f "+first, `conflict with "kubectl": \.spec\.template\.spec\.containers\[name="a"\]\.image`)
	k.shows("apply --server-side --field-manager=other --force-conflicts -f "+first, `serverside-applied$`)
	k.shows("get ds agent -o yaml --show-managed-fields", `k:\{"containerPort":9100,"protocol":"TCP"\}`, `f:nodeSelector: \{\}`, `f:selector: \{\}`)
	k.fails("apply -f "+k.file("typo.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: typo, bogus: 1}\ndataa: {a: b}\n"), `strict decoding error: unknown field "dataa", unknown field "metadata\.bogus"`)
	k.shows("apply -f "+k.file("old.yaml", "apiVersion: v1\nkind: Endpoints\nmetadata: {name: old}\nsubsets: [{addresses: [{ip: 10.1.2.3}], ports: [{port: 80}]}]\n"), `^Warning: v1 Endpoints is deprecated in v1\.33\+; use discovery\.k8s\.io/v1 EndpointSlice$`, `endpoints/old created$`)
}

func explains(k *kubectl) {
	k.shows("explain deployment.spec.template.spec.containers", `^GROUP: +apps$`, `^KIND: +Deployment$`, `^VERSION: +v1$`, `^FIELD: containers <\[\]Container>$`, `^ {2}name\t<string> -required-$`, `^ {2}imagePullPolicy\t<string>$`, `^ {2}enum: Always, IfNotPresent, Never$`)
	k.shows("explain pod.spec.containers.livenessProbe.httpGet", `^FIELD: httpGet <HTTPGetAction>$`, `^ {2}port\t<IntOrString> -required-$`)
	k.shows("explain svc.spec.ports --recursive", `^ {2}port\t<integer> -required-$`, `^ {2}enum: SCTP, TCP, UDP$`)
	k.shows("explain hpa --api-version=autoscaling/v1", `^VERSION: +v1$`)
	k.shows("explain pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", `matchExpressions\t<\[\]NodeSelectorRequirement>`)
	k.shows("explain cronjob.spec.jobTemplate.spec.template.spec.volumes.projected.sources", `serviceAccountToken\t<ServiceAccountTokenProjection>`)
	k.fails("explain pod.bogus", `field "bogus" does not exist`)
}

func describes(k *kubectl) {
	for object, lines := range map[string][]string{
		"pod one": {`^Name: +one$`, `^QoS Class: +BestEffort$`, `^    Image: +nginx:9$`}, "deploy web": {`^Replicas: +3 desired \| 0 updated`, `^StrategyType: +RollingUpdate$`}, "rs roll-1": {`^Replicas: +0 current / 1 desired$`},
		"svc websvc": {`^Selector: +app=other$`, `^TargetPort: +8080/TCP$`}, "cm cm": {`^a:$`, `^bytes\.bin: 2 bytes$`}, "secret gen": {`^pw: +1 bytes$`}, "sa sa": {`^Image pull secrets: +<none>$`}, "role r": {`pods/log`}, "rolebinding rb": {`^  User +bob`},
		"clusterrole cr": {`nodes +\[\] +\[a\] +\[get\]`}, "ingress ing": {`^Default backend: +d:80`, `my-cert terminates foo\.com`}, "job j": {`^Completions: +1$`}, "cronjob cj": {`^Suspend: +False$`}, "quota q": {`^Name: +q$`},
		"pdb half": {`^Max unavailable: +50%$`}, "hpa web": {`^Min replicas: +2$`, `resource cpu on pods`}, "ns default": {`^Status: +Active$`}, "pc pc": {`^Value: +1000$`}, "ds agent": {`^Node-Selector: +a=b$`}, "endpoints old": {`10\.1\.2\.3`},
	} {
		k.shows("describe "+object, lines...)
	}
}

func access(k *kubectl) {
	k.shows("auth can-i --list", `^Resources +Non-Resource URLs`, `^\*\.\* +\[\] +\[\] +\[\*\]$`)
	k.shows("auth can-i create deployments.apps --subresource=scale", `^yes$`)
	k.shows("auth whoami", `^Username +admin$`, `system:masters`)
	k.shows("api-resources --categories=all", `^deployments +deploy +apps/v1 +true +Deployment$`, `^services +svc `, `!^secrets`)
	k.shows("api-resources -o wide", `^horizontalpodautoscalers +hpa +autoscaling/v2 +true `, `^bindings +v1 +true +Binding +create *$`, `^namespaces +ns +v1 +false +Namespace +create,delete,(deletecollection,)?get,list,patch,update,watch *$`)
	k.shows("api-versions", `^apps/v1$`, `^autoscaling/v1$`, `^autoscaling/v2$`, `^v1$`)
	k.shows("cluster-info", `Kubernetes control plane.* is running at`)
}

func deletes(k *kubectl) {
	k.shows("delete pod two --grace-period=0 --force", `Immediate deletion`, `pod "two" force deleted`)
	k.shows(`patch pod one -p {"spec":{"nodeName":"n"}} --dry-run=client`, `patched`)
	k.shows("delete pod one --now", `pod "one" deleted`)
	k.fails("get pod one", `NotFound`)
	k.shows("delete pod one --ignore-not-found", `^$`)
	k.shows("delete deploy roll --cascade=orphan --wait=false", `deployment\.apps "roll" deleted`)
	k.shows("get rs", `^roll-1 `, `^roll-2 `)
	k.shows("delete job j --cascade=background", `job\.batch "j" deleted`)
	k.shows("delete svc,cm,secret,sa,role,rolebinding,ing,quota,pdb,hpa,cj -l app!=nothing --wait=false", `service "websvc" deleted`, `configmap "cm" deleted`, `horizontalpodautoscaler\.autoscaling "web" deleted`)
	require.Regexp(k.t, `^service/kubernetes\n?$|^$`, k.run("get", "svc", "-o", "name"))
	k.shows("delete clusterrole cr crn", `"crn" deleted`)
	k.shows("delete pc pc", `deleted`)
}
