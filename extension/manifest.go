package extension

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/meta"
)

// volumeSize is how sizes are written in Kubernetes.
var volumeSize = regexp.MustCompile(`^[1-9][0-9]*(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?$`)

// Deployment says what the manifests of a server in a cluster hold beside what its Config says.
type Deployment struct {
	Image string // of the container; required

	// Replicas is how many there are. Default 1. More than one need a store that they share.
	Replicas int32

	// Volume is the size of the volume with the data directory, which is mounted at /data. Default 1Gi
	// for one replica, and no volume for several.
	Volume string

	Args []string // of the program
}

// dataDirectory is where the volume is in the container.
const dataDirectory = "/data"

// tree is a document.
type tree = map[string]any

// WriteManifests writes the objects that a cluster needs to run the server, in YAML: its account and
// rights, Deployment, Service, PodDisruptionBudget and APIServices. It takes Name, Namespace, Kinds, the
// port of Listen and the priorities of a Config. It does not ask the host.
func WriteManifests(to io.Writer, cfg Config, d Deployment) error {
	cfg.Host.URL = "https://host.invalid"
	if err := cfg.complete(nil); err != nil {
		return fmt.Errorf("extension: %w", err)
	}
	versions, retired, err := versionsOf(cfg.Kinds)
	switch {
	case err != nil:
		return fmt.Errorf("extension: Kinds: %w", err)
	case cfg.Advertise != "":
		return errors.New("extension: Config.Advertise: is for a server outside of the cluster; leave it out for manifests")
	case d.Image == "":
		return errors.New("extension: Deployment.Image: is required")
	case d.Replicas < 0:
		return fmt.Errorf("extension: Deployment.Replicas: %d must not be negative", d.Replicas)
	case d.Replicas > 1 && d.Volume != "":
		return errors.New("extension: Deployment.Volume: several replicas cannot share a file; leave it out, and give them a store that they share")
	}
	if d.Volume != "" && !volumeSize.MatchString(d.Volume) {
		return fmt.Errorf("extension: Deployment.Volume: %q must be a size such as 10Gi", d.Volume)
	}
	if d.Replicas == 0 {
		d.Replicas = 1
	}
	if d.Replicas == 1 && d.Volume == "" {
		d.Volume = "1Gi"
	}
	listen, err := listenPort(cfg.Listen)
	if err != nil {
		return fmt.Errorf("extension: %w", err)
	}
	w := &manifests{cfg: &cfg, Deployment: d, versions: versions, retired: retired, port: listen}
	var out bytes.Buffer
	for _, object := range w.objects() {
		document, err := json.Marshal(object)
		if err != nil {
			return err
		}
		text, err := yaml.FromJSON(document)
		if err != nil {
			return err
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	_, err = to.Write(out.Bytes())
	return err
}

// manifests are the objects of one server.
type manifests struct {
	cfg *Config
	Deployment
	versions []meta.GroupVersion
	retired  []meta.GroupVersion
	port     int // of the container
}

// listenPort is the port of an address to listen on, by which the Service and the probes reach a pod.
func listenPort(address string) (int, error) {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("Config.Listen: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("Config.Listen: manifests need a port from 1 to 65535, and not %q", text)
	}
	return int(port), nil
}

func (m *manifests) objects() []any {
	out := []any{
		m.object("v1", "ServiceAccount", true, nil),
		m.binding("ClusterRoleBinding", m.cfg.Name+":auth-delegator", "", "ClusterRole", "system:auth-delegator"),
		m.binding("RoleBinding", m.cfg.Name+":auth-reader", "kube-system", "Role", "extension-apiserver-authentication-reader"),
		m.clusterRole(),
		m.binding("ClusterRoleBinding", m.cfg.Name, "", "ClusterRole", m.cfg.Name),
		m.role(),
		m.binding("RoleBinding", m.cfg.Name, m.cfg.Namespace, "Role", m.cfg.Name),
	}
	if m.Volume != "" {
		out = append(out, m.object("v1", "PersistentVolumeClaim", true, tree{"spec": tree{
			"accessModes": []string{"ReadWriteOnce"}, "resources": tree{"requests": tree{"storage": m.Volume}},
		}}))
	}
	out = append(out, m.deployment(), m.service(), m.budget())
	k := &keeper{cfg: m.cfg}
	for i, gv := range m.versions {
		out = append(out, k.apiService(gv, i, nil)) // the server writes the bundle
	}
	return out
}

// object is an object with the server's name.
func (m *manifests) object(version, kind string, namespaced bool, rest tree) tree {
	metadata := tree{"name": m.cfg.Name}
	if namespaced {
		metadata["namespace"] = m.cfg.Namespace
	}
	out := tree{"apiVersion": version, "kind": kind, "metadata": metadata}
	for name, part := range rest {
		out[name] = part
	}
	return out
}

const rbacGroup = "rbac.authorization.k8s.io"

func (m *manifests) binding(kind, name, namespace, roleKind, role string) tree {
	metadata := tree{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	return tree{
		"apiVersion": rbacGroup + "/v1", "kind": kind, "metadata": metadata,
		"roleRef":  tree{"apiGroup": rbacGroup, "kind": roleKind, "name": role},
		"subjects": []tree{{"kind": "ServiceAccount", "name": m.cfg.Name, "namespace": m.cfg.Namespace}},
	}
}

// clusterRole holds what the server needs of the host: its namespaces, and its own APIServices.
func (m *manifests) clusterRole() tree {
	var names []string
	for _, gv := range slices.Concat(m.versions, m.retired) {
		names = append(names, gv.Version+"."+gv.Group)
	}
	return m.object(rbacGroup+"/v1", "ClusterRole", false, tree{"rules": []tree{
		{"apiGroups": []string{""}, "resources": []string{"namespaces"}, "verbs": []string{"get", "list", "watch"}},
		{"apiGroups": []string{"apiregistration.k8s.io"}, "resources": []string{"apiservices"}, "verbs": []string{"create"}},
		{"apiGroups": []string{"apiregistration.k8s.io"}, "resources": []string{"apiservices"}, "resourceNames": names, "verbs": []string{"get", "update", "delete"}},
	}})
}

// role is for the secret with the serving certificate.
func (m *manifests) role() tree {
	return m.object(rbacGroup+"/v1", "Role", true, tree{"rules": []tree{
		{"apiGroups": []string{""}, "resources": []string{"secrets"}, "verbs": []string{"create"}},
		{"apiGroups": []string{""}, "resources": []string{"secrets"}, "resourceNames": []string{m.cfg.Name + "-serving"}, "verbs": []string{"get", "list", "watch", "update"}},
	}})
}

func (m *manifests) labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": m.cfg.Name}
}

func (m *manifests) deployment() tree {
	probe := func(path string) tree {
		return tree{"httpGet": tree{"path": path, "port": "https", "scheme": "HTTPS"}, "periodSeconds": 5}
	}
	// A server listens once it has a certificate, for which it needs the host. Without this probe, a host
	// that is slow to answer would have the pod restarted over and over.
	start := probe("/livez")
	start["failureThreshold"] = 60
	container := tree{
		"name": m.cfg.Name, "image": m.Image, "ports": []tree{{"name": "https", "containerPort": m.port}},
		"startupProbe": start, "livenessProbe": probe("/livez"), "readinessProbe": probe("/readyz"),
		"securityContext": tree{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true, "runAsUser": 65532,
			"capabilities": tree{"drop": []string{"ALL"}}, "seccompProfile": tree{"type": "RuntimeDefault"},
		},
	}
	if len(m.Args) > 0 {
		container["args"] = m.Args
	}
	pod := tree{"serviceAccountName": m.cfg.Name, "containers": []tree{container}, "securityContext": tree{"fsGroup": 65532}}
	strategy := tree{"type": "RollingUpdate"}
	if m.Volume != "" {
		strategy["type"] = "Recreate" // two processes cannot open the file
		container["volumeMounts"] = []tree{{"name": "data", "mountPath": dataDirectory}}
		pod["volumes"] = []tree{{"name": "data", "persistentVolumeClaim": tree{"claimName": m.cfg.Name}}}
	}
	return m.object("apps/v1", "Deployment", true, tree{"spec": tree{
		"replicas": m.Replicas, "strategy": strategy, "selector": tree{"matchLabels": m.labels()},
		"template": tree{"metadata": tree{"labels": m.labels()}, "spec": pod},
	}})
}

// service leads to the server. A replica that is alone is reached before it is ready: it answers
// discovery then, for which clients and the end of namespaces would wait otherwise.
func (m *manifests) service() *service {
	return &service{
		TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta.Named(m.cfg.Namespace, m.cfg.Name),
		Spec: serviceSpec{Selector: m.labels(), Ports: []portSpec{{Name: "https", Port: servicePort, TargetPort: "https"}}, PublishNotReadyAddresses: m.Replicas == 1},
	}
}

// budget lets nodes be drained one after the other.
func (m *manifests) budget() tree {
	return m.object("policy/v1", "PodDisruptionBudget", true, tree{"spec": tree{"maxUnavailable": 1, "selector": tree{"matchLabels": m.labels()}}})
}
