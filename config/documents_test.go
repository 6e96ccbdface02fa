package config_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/config"
	"github.com/kindwright/kindwright/config/controllermanager"
	"github.com/kindwright/kindwright/config/proxy"
	"github.com/kindwright/kindwright/config/scheduler"
	"github.com/kindwright/kindwright/egress"
	documents "github.com/kindwright/kindwright/internal/config"
)

// judged is a document and what Kubernetes says is wrong with it. internal/celoracle and scripts/documents
// record them.
type judged struct {
	Document  json.RawMessage `json:"document"`
	Undecoded bool            `json:"undecoded"`
	Problems  []string        `json:"problems"`
}

// problems returns what is wrong with a document, one sentence for each field.
func problems(t *testing.T, err error) (out []string) {
	t.Helper()
	var invalid *documents.InvalidError
	if err != nil && !errors.As(err, &invalid) {
		return []string{err.Error()}
	}
	if invalid != nil {
		for _, f := range invalid.Fields {
			out = append(out, f.String())
		}
	}
	slices.Sort(out)
	return out
}

// AUTHNCFG-45, AUTHZCFG-20, AUD-31, SCHED, PROXY, LEADERMIG: Kubernetes' own validation finds the same errors at the same fields,
// in the same words.
func TestDocumentsAreJudgedAsByKubernetes(t *testing.T) {
	through, err := egress.New(egress.Configuration{Selections: []egress.Selection{
		{Name: "controlplane", Connection: &egress.Connection{ProxyProtocol: egress.ProtocolDirect}},
		{Name: "cluster", Connection: &egress.Connection{ProxyProtocol: egress.ProtocolDirect}},
	}}, egress.Options{})
	require.NoError(t, err)
	rules := config.AuthorizationRules{Types: []string{"AlwaysAllow", "AlwaysDeny", "ABAC", "Node", "RBAC"}, TypeNames: true}
	for name, judge := range map[string]func(document []byte) error{
		"authentication": func(document []byte) error {
			_, err := jwt.Options{TakenIssuers: []string{"https://taken.example.com"}, Egress: through}.Parse(document)
			return err
		},
		"authorization": func(document []byte) error {
			c, err := config.ParseAuthorization(document)
			if err != nil {
				return err
			}
			return c.Validate(rules)
		},
		"policy": func(document []byte) error {
			_, err := audit.ParsePolicy(document)
			return err
		},
		"scheduler": func(document []byte) error {
			_, err := scheduler.Parse(document)
			return err
		},
		"proxy": func(document []byte) error {
			_, err := proxy.Parse(document, "linux")
			return err
		},
		"leadermigration": func(document []byte) error {
			_, err := controllermanager.ParseLeaderMigration(document)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := os.Open(filepath.Join("testdata", name+".jsonl"))
			require.NoError(t, err)
			defer func() { require.NoError(t, file.Close()) }()
			lines := bufio.NewScanner(file)
			lines.Buffer(nil, 1<<20)
			good, bad := 0, 0
			for lines.Scan() {
				var one judged
				require.NoError(t, json.Unmarshal(lines.Bytes(), &one))
				err := judge(one.Document)
				switch {
				case one.Undecoded:
					require.Error(t, err, "%s", one.Document)
				case len(one.Problems) == 0:
					good++
				default:
					bad++
				}
				if !one.Undecoded {
					compare(t, one, problems(t, err))
				}
			}
			require.NoError(t, lines.Err())
			require.Positive(t, good)
			require.Positive(t, bad)
		})
	}
}

// stricter reports a problem that Kubernetes does not have here: it judges the names of authorizers and
// the number of an audit policy's rules elsewhere, rejects each token for an expression of a wrong type,
// and lets the waits of a scheduler be equal (READ-13).
func stricter(problem string) bool {
	return problem == "podMaxBackoffSeconds: Invalid value: 12: must be greater than podInitialBackoffSeconds" ||
		strings.Contains(problem, ": expected name ") || strings.Contains(problem, `username.expression: Invalid value: "claims": must evaluate to string`) ||
		problem == "rules: Required value: a policy without a rule records nothing"
}

// What is meant by different sentences, on purpose.
var (
	subdomain = regexp.MustCompile(`a lowercase RFC 1123 (subdomain|label) must consist of.*|must consist of lower-case letters, digits, .*`)
	gotType   = regexp.MustCompile(`(must evaluate to [a-z]+( or list\(string\))?) but got .*`)
	position  = regexp.MustCompile(`\.resources\[\d+\]\.(group|resourceNames)`)
	labelKey  = regexp.MustCompile(`(managedResources\[\d+\]\.name: Invalid value: "[^"]*": ).*`)
	periods   = regexp.MustCompile(`(iptables|ipvs|nftables|KubeProxyConfiguration)\.(minSyncPeriod|syncPeriod)`)
	internals = regexp.MustCompile(`(schedulerName: Duplicate value: |queueSort: Invalid value: )(\{.*\}|"[^"]*")`)
	goStruct  = regexp.MustCompile(`Unsupported value: \{"Type":("[A-Za-z]*"),.*\}:`)
)

// meant is a problem without what Kubernetes and we say differently: the rules for names, the type that
// an expression has, the position of resources in an audit rule, the names of fields in values, the
// field webhook in paths, values of internal types, and the names of fields of a proxy, which are those of
// Go there and do not say to which mode a period belongs.
func meant(problem string) string {
	problem = subdomain.ReplaceAllString(problem, "must be a subdomain")
	problem = gotType.ReplaceAllString(problem, "$1")
	problem = position.ReplaceAllString(problem, ".resources.$1")
	problem = goStruct.ReplaceAllString(problem, "Unsupported value: $1:")
	problem = labelKey.ReplaceAllString(problem, "$1")
	problem = strings.NewReplacer(".webhook.", ".", `"Path":`, `"path":`, "must be greater than or equal to PodInitialBackoffSeconds", "must be greater than podInitialBackoffSeconds",
		"leaseDuration: Invalid value: \"15s\": must be greater than `RenewDeadline`", `renewDeadline: Invalid value: "15s": must be at most leaseDuration`,
		`in version "v1" (`, `in version "kubescheduler.config.k8s.io/v1" (`,
		"values: Invalid value: null:", "values: Invalid value: []:").Replace(problem)
	problem = internals.ReplaceAllString(problem, "$1")
	return periods.ReplaceAllString(ofProxy(problem), "$2")
}

// ofProxy puts the names of a document in the place of those of Go structs.
func ofProxy(problem string) string {
	problem, ok := strings.CutPrefix(problem, "KubeProxyConfiguration.")
	if !ok {
		return problem
	}
	problem = strings.NewReplacer(
		"KubeProxyIPTablesConfiguration.", "iptables.",
		"KubeProxyIPVSConfiguration.", "ipvs.",
		"KubeProxyNFTablesConfiguration.", "nftables.",
		"KubeProxyLinuxConfiguration.", "",
		"KubeProxyConntrackConfiguration.", "conntrack.",
		"DetectLocalConfiguration.ClusterCIDRs[0]:", "clusterCIDR:",
		"DetectLocalConfiguration.ClusterCIDRs:", "clusterCIDR:",
		`["10.0.0.0/8","10.1.0.0/16"]`, `"10.0.0.0/8,10.1.0.0/16"`,
		"DetectLocalConfiguration.InterfaceName:", "detectLocal.bridgeInterface:",
		"DetectLocalConfiguration.InterfacePrefix:", "detectLocal.interfaceNamePrefix:",
		"Mode.ProxyMode:", "mode:",
		"ExcludeCidrs[", "excludeCIDRs[",
		"ClientConnection.Burst: Invalid value: -1: must be greater than or equal to 0", "clientConnection.burst: Invalid value: -1: must be non-negative",
		"MinSyncPeriod", "minSyncPeriod",
	).Replace(problem)
	field, rest, _ := strings.Cut(problem, ":")
	block, name, nested := strings.Cut(field, ".")
	if !nested {
		block, name = "", field
	}
	for _, known := range []string{
		"masqueradeBit", "tcpTimeout", "tcpFinTimeout", "udpTimeout", "udpStreamTimeout", "maxPerCore", "min",
		"tcpEstablishedTimeout", "tcpCloseWaitTimeout", "bindAddress", "configSyncPeriod", "healthzBindAddress", "metricsBindAddress",
		"nodePortAddresses[0]", "oomScoreAdj", "syncPeriod", "detectLocalMode",
	} {
		if strings.EqualFold(name, known) {
			name = known
		}
	}
	return strings.TrimPrefix(block+"."+name, ".") + ":" + rest
}

// compare fails if the problems of a document differ.
func compare(t *testing.T, want judged, got []string) {
	t.Helper()
	if slices.ContainsFunc(got, func(p string) bool { return strings.HasSuffix(p, "Invalid value: null: must be an object") }) {
		return // Kubernetes takes it for an empty object, and says what that lacks
	}
	got = slices.DeleteFunc(got, stricter)
	for _, list := range [][]string{want.Problems, got} {
		for i, p := range list {
			list[i] = meant(p)
		}
		slices.Sort(list)
	}
	require.Equal(t, strings.Join(want.Problems, "\n"), strings.Join(got, "\n"), "%s", want.Document)
}

// manager is what the configuration of a controller manager must say.
const manager = "Generic: {Port: 1, Address: 0.0.0.0, MinResyncPeriod: 1s, ClientConnection: {}, ControllerStartInterval: 0s, " +
	"LeaderElection: {leaderElect: false}, Controllers: [], Debugging: {}, LeaderMigrationEnabled: false}"

// Each kind of document has the versions of its own group. READ-11: the group of Kubernetes and that of the
// specification are the same, on servers of any domain. The documents of plugins are those of
// examples/kube/kube-apiserver; what plugins of credentials print is tested in internal/connection.
func TestCFG_01_02_VER_11_EachKindHasItsVersions(t *testing.T) {
	for _, kind := range []struct {
		name, body       string
		groups, versions []string
		read             func([]byte) error
	}{
		{
			"AuthenticationConfiguration", "jwt: []",
			[]string{"apiserver.config.k8s.io", "apiserver.k8s.io", "apiserver.example.dev"},
			[]string{"v1alpha1", "v1beta1", "v1"},
			func(text []byte) error { _, err := jwt.Parse(text); return err },
		},
		{
			"AuthorizationConfiguration", "authorizers: []",
			[]string{"apiserver.config.k8s.io", "apiserver.k8s.io", "apiserver.example.dev"},
			[]string{"v1alpha1", "v1beta1", "v1"},
			func(text []byte) error { _, err := config.ParseAuthorization(text); return err },
		},
		{
			"EncryptionConfiguration", "resources: [{resources: [secrets], providers: [{identity: {}}]}]",
			[]string{"apiserver.config.k8s.io", "apiserver.config.example.dev"},
			[]string{"v1"},
			func(text []byte) error { _, err := config.ParseEncryption(text); return err },
		},
		{
			"TracingConfiguration", "endpoint: collector:4317",
			[]string{"apiserver.config.k8s.io", "apiserver.k8s.io", "apiserver.example.dev"},
			[]string{"v1alpha1", "v1beta1", "v1"},
			func(text []byte) error { _, err := config.ParseTracing(text); return err },
		},
		{
			"Policy", "rules: [{level: None}]",
			[]string{"audit.k8s.io", "audit.example.dev"},
			[]string{"v1"},
			func(text []byte) error { _, err := audit.ParsePolicy(text); return err },
		},
		{
			"LeaderMigrationConfiguration", "leaderName: a\nresourceLock: leases\ncontrollerLeaders: []",
			[]string{"controllermanager.config.k8s.io", "controllermanager.config.example.dev"},
			[]string{"v1alpha1", "v1beta1", "v1"},
			func(text []byte) error { _, err := controllermanager.ParseLeaderMigration(text); return err },
		},
		{
			"KubeControllerManagerConfiguration", manager,
			[]string{"controllermanager.config.k8s.io", "kubecontrollermanager.config.k8s.io", "kubecontrollermanager.config.example.dev"},
			[]string{"v1alpha1"},
			func(text []byte) error { _, err := controllermanager.Parse(text); return err },
		},
		{
			"KubeSchedulerConfiguration", "parallelism: 1",
			[]string{"kubescheduler.config.k8s.io", "kubescheduler.config.example.dev"},
			[]string{"v1"},
			func(text []byte) error { _, err := scheduler.Parse(text); return err },
		},
		{
			"KubeProxyConfiguration", "mode: iptables",
			[]string{"kubeproxy.config.k8s.io", "kubeproxy.config.example.dev"},
			[]string{"v1alpha1"},
			func(text []byte) error { _, err := proxy.Parse(text, "linux"); return err },
		},
	} {
		read := func(group, version, name string) error {
			return kind.read([]byte("apiVersion: " + group + "/" + version + "\nkind: " + name + "\n" + kind.body))
		}
		for _, group := range kind.groups {
			for _, version := range kind.versions {
				require.NoError(t, read(group, version, kind.name), "%s of %s/%s", kind.name, group, version)
			}
			for _, version := range []string{"v2", "v1beta9", "V1"} {
				require.ErrorContains(t, read(group, version, kind.name), `for the kind "`+kind.name+`"`)
			}
			other := read(group, "v1", "Other")
			require.ErrorContains(t, other, `kind: Invalid value: "Other": must be `+kind.name)
			require.ErrorContains(t, other, `, in apiVersion "`+group+`/v1"`)
		}
		for _, group := range []string{"client.authentication.k8s.io", "k8s.io", "xapiserver.config.k8s.io", "apps"} {
			require.ErrorContains(t, read(group, "v1", kind.name), `apiVersion: Invalid value: "`+group+`/v1"`)
		}
	}
}
