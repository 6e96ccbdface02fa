package connection

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
)

// credentialGroup is the group of the documents that a credential plugin reads and prints.
const credentialGroup = "client.authentication.k8s.io"

// infoVariable is the environment variable that tells a plugin what is asked.
const infoVariable = "KUBERNETES_EXEC_INFO"

// How long a plugin may run, how long its children may keep its output open after it, and how many
// bytes it may print.
const (
	pluginTimeout  = time.Minute
	pluginGrace    = time.Second
	maxPluginBytes = 1 << 20
)

// execConfig says how to run a credential plugin.
type execConfig struct {
	APIVersion  string   `json:"apiVersion"`
	Command     string   `json:"command"`
	Args        []string `json:"args" config:"secret"`
	Env         []envVar `json:"env"`
	InstallHint string   `json:"installHint"`
	ClusterInfo bool     `json:"provideClusterInfo"`
	Interactive string   `json:"interactiveMode"`
}

type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value" config:"secret"`
}

// execCredential is the document that a plugin prints. A plugin may be newer than this server, so
// fields that are not here have no effect.
type execCredential struct {
	Status *credentialStatus `json:"status" config:"secret"`
}

type credentialStatus struct {
	Expires     *time.Time `json:"expirationTimestamp"`
	Token       string     `json:"token"`
	Certificate string     `json:"clientCertificateData"`
	Key         string     `json:"clientKeyData"`
}

// check rejects what is missing or contradicts itself.
func (e *execConfig) check(at status.Field) {
	versions := []string{credentialGroup + "/v1", credentialGroup + "/v1beta1"}
	switch {
	case e.APIVersion == "":
		at.Child("apiVersion").Required("must be one of " + strings.Join(versions, ", "))
	case !slices.Contains(versions, e.APIVersion):
		at.Child("apiVersion").Invalid(e.APIVersion, "must be one of "+strings.Join(versions, ", "))
	}
	if e.Command == "" {
		at.Child("command").Required("")
	}
	for i, v := range e.Env {
		if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") {
			at.Child("env").Index(i).Child("name").Invalid(v.Name, "must be the name of a variable")
		}
	}
	switch e.Interactive {
	case "Never", "IfAvailable":
	case "Always":
		at.Child("interactiveMode").Invalid(e.Interactive, "a server has no terminal")
	case "":
		if e.APIVersion == versions[0] {
			at.Child("interactiveMode").Required("must be Never or IfAvailable")
		}
	default:
		at.Child("interactiveMode").Invalid(e.Interactive, "must be Never or IfAvailable")
	}
}

// plugin runs a credential plugin and keeps what it printed. It never writes it anywhere.
type plugin struct {
	config  execConfig
	command string
	info    string

	turn    chan struct{} // held by the one that runs the plugin
	current atomic.Pointer[credential]
	renewed func() error // makes connections anew, after the certificate has changed
}

// credential is what a plugin printed.
type credential struct {
	token       string
	certificate *tls.Certificate // nil if there is none
	expires     time.Time        // zero: never
	refused     atomic.Bool      // the server answered 401
}

func (c *credential) good() bool {
	return c != nil && !c.refused.Load() && (c.expires.IsZero() || time.Now().Before(c.expires))
}

// newPlugin makes the plugin of a connection file. A command with a slash is relative to dir. The
// plugin is told about the cluster if it wants to be.
func newPlugin(e execConfig, dir string, cluster map[string]any) (*plugin, error) {
	p := &plugin{config: e, command: e.Command, turn: make(chan struct{}, 1)}
	if strings.ContainsRune(e.Command, filepath.Separator) && !filepath.IsAbs(e.Command) {
		p.command = filepath.Join(dir, e.Command)
	}
	spec := map[string]any{"interactive": false}
	if e.ClusterInfo {
		spec["cluster"] = cluster
	}
	info, err := json.AppendTree(nil, map[string]any{"apiVersion": e.APIVersion, "kind": "ExecCredential", "spec": spec})
	p.info = string(info)
	return p, err
}

// get returns a credential, and runs the plugin if there is none that is good. One caller runs it at
// a time, for as long as the caller wants to wait.
func (p *plugin) get(ctx context.Context) (*credential, error) {
	if c := p.current.Load(); c.good() {
		return c, nil
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.turn }()
	old := p.current.Load()
	if old.good() {
		return old, nil
	}
	c, err := p.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("credential plugin %s: %w", p.config.Command, err)
	}
	p.current.Store(c)
	if old != nil && !sameCertificate(old.certificate, c.certificate) {
		return c, p.renewed()
	}
	return c, nil
}

func sameCertificate(a, b *tls.Certificate) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.Certificate, b.Certificate, bytes.Equal)
}

// run runs the plugin once. Its standard error is not kept: it may contain secrets.
func (p *plugin) run(ctx context.Context) (*credential, error) {
	ctx, cancel := context.WithTimeout(ctx, pluginTimeout)
	defer cancel()
	out := &boundedBuffer{}
	cmd := exec.CommandContext(ctx, p.command, p.config.Args...) //nolint:gosec // as the operator's file says
	cmd.Env = os.Environ()
	for _, v := range p.config.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Env = append(cmd.Env, infoVariable+"="+p.info)
	cmd.Stdout, cmd.WaitDelay = out, pluginGrace
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		if p.config.InstallHint != "" {
			return nil, fmt.Errorf("it is not installed: %s", p.config.InstallHint)
		}
		return nil, errors.New("it is not installed")
	case out.full:
		return nil, errTooMuch
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it did not end in time: %w", ctx.Err())
	case err != nil:
		return nil, err
	}
	return p.parse(out.data.Bytes())
}

// parse reads what the plugin printed. The errors do not repeat any of it.
func (p *plugin) parse(printed []byte) (*credential, error) {
	d, err := config.Read(printed, config.Kind{
		Name: "ExecCredential", Group: credentialGroup, Versions: []string{strings.TrimPrefix(p.config.APIVersion, credentialGroup+"/")},
	})
	var document execCredential
	if err == nil {
		err = d.DecodeKnown(&document)
	}
	if err != nil {
		return nil, fmt.Errorf("it must print an ExecCredential of %s", p.config.APIVersion)
	}
	s := document.Status
	switch {
	case s == nil:
		return nil, errors.New("it printed no status")
	case (s.Certificate == "") != (s.Key == ""):
		return nil, errors.New("clientCertificateData and clientKeyData belong together")
	case s.Token == "" && s.Key == "":
		return nil, errors.New("it printed neither a token nor a certificate")
	}
	c := &credential{token: s.Token}
	if s.Expires != nil {
		c.expires = *s.Expires
	}
	if s.Key != "" {
		pair, err := tls.X509KeyPair([]byte(s.Certificate), []byte(s.Key))
		if err != nil {
			return nil, errors.New("clientCertificateData does not fit clientKeyData")
		}
		c.certificate = &pair
	}
	return c, nil
}

// boundedBuffer keeps what a plugin prints, and fails when it is too much.
type boundedBuffer struct {
	data bytes.Buffer
	full bool
}

var errTooMuch = fmt.Errorf("it printed more than %d bytes", maxPluginBytes)

// Write implements io.Writer.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.data.Len()+len(p) > maxPluginBytes {
		b.full = true
		return 0, errTooMuch
	}
	return b.data.Write(p)
}

// clientCertificate is for tls.Config.
func (p *plugin) clientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if c := p.current.Load(); c != nil && c.certificate != nil {
		return c.certificate, nil
	}
	return &tls.Certificate{}, nil
}

// credentialed adds the credential of a plugin to requests.
type credentialed struct {
	plugin *plugin
	*transport
}

// RoundTrip implements http.RoundTripper. After an answer of 401 the next request runs the plugin
// again.
func (t *credentialed) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := t.plugin.get(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	if c.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := t.transport.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusUnauthorized {
		c.refused.Store(true)
	}
	return res, err
}
