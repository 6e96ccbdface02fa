package interop

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kindwright/kindwright/registry"
)

// serveKubernetesKinds serves kinds built from Kubernetes' own types. kubectl and other clients
// know their tags.
func serveKubernetesKinds(t *testing.T) *server {
	t.Helper()
	return serveKinds(
		t,
		registry.Kind[corev1.ConfigMap]{Version: "v1", Plural: "configmaps", Names: registry.Names{ShortNames: []string{"cm"}}},
		registry.Kind[corev1.Secret]{Version: "v1", Plural: "secrets"},
		registry.Kind[appsv1.Deployment]{Group: "apps", Version: "v1", Plural: "deployments", Names: registry.Names{ShortNames: []string{"deploy"}}},
	)
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {app: shop}}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - name: front
        image: front:1
        ports: [{containerPort: 80, protocol: TCP}]
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
        resources: {limits: {memory: 1Gi}}
      - name: side
        image: side:1
`

// kubectl applies Kubernetes' own kinds. Client and server agree on how their lists merge.
func TestPATCH_KubernetesKinds(t *testing.T) {
	k := newKubectl(t, serveKubernetesKinds(t))
	images := func() string {
		return k.run("get", "deploy", "d", "-o", `jsonpath={range .spec.template.spec.containers[*]}{.name}={.image} {end}`)
	}
	first := k.file("d.yaml", deployment)
	k.shows("apply -f "+first, `deployment\.apps/d created$`)
	k.shows("apply -f "+first, `unchanged$`)
	k.shows("set image deploy/d side=side:2 --field-manager=set", `image updated$`)
	k.shows("set env deploy/d -c front C=3 B-", `env updated$`)
	k.shows("apply -f "+k.file("next.yaml", strings.NewReplacer("front:1", "front:2", `{name: A, value: "1"}, `, "").Replace(deployment)), `configured$`)
	require.Equal(t, "front=front:2 side=side:1 ", images())
	k.shows("get deploy d -o jsonpath={.spec.template.spec.containers[0].env}", `"name":"B"`, `"name":"C"`, `!"name":"A"`)
	k.shows(`patch deploy d -p {"spec":{"template":{"spec":{"containers":[{"name":"third","image":"third:1"},{"name":"side","$patch":"delete"}]}}}}`, `patched$`)
	require.Equal(t, "third=third:1 front=front:2 ", images())
	k.shows("apply --server-side --force-conflicts -f "+first, `serverside-applied$`)
	require.Contains(t, images(), "front=front:1")
	require.Contains(t, images(), "side=side:1")
	k.exits(0, "diff --server-side -f "+first, `^$`)
	k.shows("apply --dry-run=client -f "+k.file("next.yaml", strings.Replace(deployment, "front:1", "front:3", 1)), `configured \(dry run\)$`)
	k.shows("explain deployment.spec.template.spec.containers.livenessProbe.httpGet.port", `^FIELD: port <IntOrString>$`, `Name or number of the port to access`)
	k.shows("explain deployment.spec.template.spec.containers", `^GROUP: +apps$`, `^KIND: +Deployment$`, `^FIELD: containers <\[\]Container>$`,
		`List of containers belonging to the pod\.`, `A single application container that you want to run within a pod\.`,
		`^  name.<string> -required-$`, `^  ports.<\[\]ContainerPort>$`, `^  resources.<ResourceRequirements>$`)
	k.shows("explain deployment", `^    Deployment enables declarative updates for Pods and ReplicaSets\.$`, `^  spec.<DeploymentSpec>$`, `APIVersion defines the versioned schema`)
	k.shows("explain deployment.spec --recursive", `^ +matchExpressions.<\[\]LabelSelectorRequirement>$`, `^ +containerPort.<integer> -required-$`)
	k.shows("explain --output=plaintext-openapiv2 deployment.spec.template.spec", `^RESOURCE: spec <Object>$`, `^ +containers.<\[\]Object> -required-$`)

	k.shows("create configmap c --from-literal=a=b", `configmap/c created$`)
	k.shows("get cm c -o jsonpath={.data}", `^\{"a":"b"\}$`)
	k.shows("create secret generic s --from-literal=password=hush", `secret/s created$`)
	k.shows("get secret s -o jsonpath={.data.password}", `^aHVzaA==$`)
	k.shows("apply --server-side -f "+k.file("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {more: aHVzaA==}\n"), `secret/s serverside-applied$`)
	k.shows("get secret s -o jsonpath={.data}", `^\{"more":"aHVzaA==","password":"aHVzaA=="\}$`)
}

// kubectl prunes by apply sets, whose parents are secrets or config maps.
func TestDEL_ApplySet(t *testing.T) {
	t.Setenv("KUBECTL_APPLYSET", "true")
	for _, atServer := range []string{"", " --server-side"} {
		for _, parent := range []string{"configmap/set", "secret/set"} {
			k := newKubectl(t, serveKubernetesKinds(t))
			command := "apply" + atServer + " --prune --applyset=" + parent + " -n default -f "
			zone := "apiVersion: example.dev/v1\nkind: Zone\nmetadata: {name: north}\nspec: {region: far}\n"
			both := k.file("both.yaml", alpha+"---\n"+zone+"---\n"+strings.Replace(alpha, "alpha", "gamma", 1))
			k.shows(command+both, `alpha (created|serverside-applied)$`, `gamma (created|serverside-applied)$`, `!pruned`)
			k.shows("get "+parent+" -o yaml", `applyset\.kubernetes\.io/contains-group-kinds: Widget\.example\.dev,Zone\.example\.dev$`, `applyset\.kubernetes\.io/tooling: kubectl`)
			k.shows("create -f "+k.file("beta.json", beta), `created$`)
			k.shows(command+k.changed("w.yaml"), `gamma pruned$`, `zone\.example\.dev/north pruned$`)
			require.Equal(t, "widget.example.dev/alpha\nwidget.example.dev/beta\n", k.run("get", "widgets,zones", "-o", "name"))
			k.shows("get "+parent+" -o yaml", `contains-group-kinds: Widget\.example\.dev$`)
		}
	}
}

// Typed clients apply Kubernetes' own kinds, and extract what they applied.
func TestSSA_KubernetesKinds(t *testing.T) {
	client, err := kubernetes.NewForConfig(serveKubernetesKinds(t).Config)
	require.NoError(t, err)
	one := metav1.ApplyOptions{FieldManager: "one"}
	labels := map[string]string{"app": "shop"}
	config := appsac.Deployment("d", "default").WithSpec(appsac.DeploymentSpec().WithReplicas(2).WithSelector(metaac.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(coreac.PodTemplateSpec().WithLabels(labels).WithSpec(coreac.PodSpec().WithContainers(coreac.Container().WithName("front").WithImage("front:1")))))
	deployments := client.AppsV1().Deployments("default")
	d, err := deployments.Apply(t.Context(), config, one)
	require.NoError(t, err)
	extracted, err := appsac.ExtractDeployment(d, "one")
	require.NoError(t, err)
	require.JSONEq(t, asJSON(t, config), asJSON(t, extracted))
	d, err = deployments.Apply(t.Context(), appsac.Deployment("d", "default").WithSpec(appsac.DeploymentSpec().
		WithTemplate(coreac.PodTemplateSpec().WithSpec(coreac.PodSpec().WithContainers(coreac.Container().WithName("side").WithImage("side:1"))))), metav1.ApplyOptions{FieldManager: "two", Force: true})
	require.NoError(t, err)
	names := []string{}
	for _, c := range d.Spec.Template.Spec.Containers {
		names = append(names, c.Name)
	}
	require.ElementsMatch(t, []string{"front", "side"}, names, "containers merge by their names")
}
