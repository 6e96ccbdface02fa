package extension

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	authn "github.com/kindwright/kindwright/authn/delegated"

	"github.com/kindwright/kindwright/registry"
)

// A flag or field that would have no effect is refused by its name.
func TestOPS_08_FlagsThatContradict(t *testing.T) {
	for args, want := range map[string]string{
		"--manifests --listen :8443":            "--listen: ",
		"--manifests --advertise a.example:443": "--advertise: ",
		"--manifests --data-dir x":              "--data-dir: ",
		"--manifests --kubeconfig x":            "--kubeconfig: ",
		"--manifests --remove":                  "--remove: ",
		"--image x":                             "--image: ",
		"--replicas 2 --remove":                 "--replicas: ",
		"--manifests --replicas 0":              "--replicas: 0 ",
		"--manifests --replicas 1025":           "--replicas: 1025 ",
		"--listen :0":                           "give --kubeconfig",
	} {
		var out bytes.Buffer
		p := Program{Config: Config{Name: "fleet", Kinds: []registry.Definition{ships}}}
		require.ErrorContains(t, p.Do(t.Context(), strings.Fields(args), &out), want, args)
		require.Empty(t, out.String(), args)
	}
	p := Program{Config: Config{Name: "fleet", Kinds: []registry.Definition{ships}, Host: authn.Connection{URL: "https://kube.example"}}}
	require.ErrorContains(t, p.Do(t.Context(), []string{"--data-dir", t.TempDir()}, nil), "Program.Open")
}

// What the manifests say of a pod is what the program in it does.
func TestOPS_08_ManifestsFollowTheProgram(t *testing.T) {
	print := func(cfg Config, args ...string) string {
		var out bytes.Buffer
		cfg.Name, cfg.Kinds = "fleet", []registry.Definition{ships}
		p := Program{Config: cfg}
		require.NoError(t, p.Do(t.Context(), append([]string{"--manifests"}, args...), &out))
		return out.String()
	}
	text := print(Config{})
	require.Contains(t, text, "containerPort: 6443")
	require.Contains(t, text, "startupProbe")
	require.Contains(t, text, "mountPath: /data")
	require.NotContains(t, text, "args:")
	require.Contains(t, print(Config{Listen: ":8443"}), "containerPort: 8443")

	// The file system of a container is read-only, so replicas without a volume get no directory.
	text = print(Config{}, "--replicas", "2")
	require.NotContains(t, text, "mountPath")
	require.Regexp(t, `args:\n +- --data-dir=\n`, text)

	bad := Config{Name: "fleet", Kinds: []registry.Definition{ships}, Advertise: "a.example:443"}
	require.ErrorContains(t, WriteManifests(&bytes.Buffer{}, bad, Deployment{Image: "x"}), "Config.Advertise")
	bad.Advertise, bad.Listen = "", ":0"
	require.ErrorContains(t, WriteManifests(&bytes.Buffer{}, bad, Deployment{Image: "x"}), "Config.Listen")
	bad.Listen = ""
	require.ErrorContains(t, WriteManifests(&bytes.Buffer{}, bad, Deployment{Image: "x", Volume: "lots"}), `Deployment.Volume: "lots" must be a size such as 10Gi`)
	require.NoError(t, WriteManifests(&bytes.Buffer{}, bad, Deployment{Image: "x", Volume: "1.5Ti"}))
	bad.Kinds = append(bad.Kinds, nil)
	require.ErrorContains(t, WriteManifests(&bytes.Buffer{}, bad, Deployment{Image: "x"}), "Kinds: [1] is nil")
}
