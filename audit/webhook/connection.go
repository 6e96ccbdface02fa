package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
)

// Connection is where records go, and how the sink proves who it is.
type Connection struct {
	URL    string
	Client *http.Client // nil: http.DefaultClient without redirects

	// Authorize adds a credential to a request. It may be nil.
	Authorize func(*http.Request) error
}

// maxConnectionBytes bounds a connection file.
const maxConnectionBytes = 1 << 20

// requestTimeout bounds one attempt to send records.
const requestTimeout = 30 * time.Second

// What is kept of connections that are not in use.
const (
	idleTimeout = 90 * time.Second
	maxIdle     = 16
)

// ReadConnection reads a connection file, which has the form of a kubeconfig: its current context
// names a cluster and a user. Paths in it are relative to the file. It rejects what it does not
// know, such as credential plugins.
func ReadConnection(path string) (Connection, error) {
	document, err := files.ReadSecret(path)
	if err != nil {
		return Connection{}, fmt.Errorf("connection file: %w", err)
	}
	c, err := parseConnection(document, filepath.Dir(path))
	if err != nil {
		return Connection{}, fmt.Errorf("connection file %s: %w", path, err)
	}
	return c, nil
}

// members reads the members of one object of a connection file.
type members struct {
	at    string
	from  map[string]any
	known []string
	errs  *[]error
}

func (m *members) fail(name, why string) {
	*m.errs = append(*m.errs, fmt.Errorf("%s: %s", strings.TrimPrefix(m.at+"."+name, "."), why))
}

func (m *members) text(name string) string {
	m.known = append(m.known, name)
	v, ok := m.from[name].(string)
	if !ok && m.from[name] != nil {
		m.fail(name, "must be a string")
	}
	return v
}

func (m *members) flag(name string) bool {
	m.known = append(m.known, name)
	v, ok := m.from[name].(bool)
	if !ok && m.from[name] != nil {
		m.fail(name, "must be true or false")
	}
	return v
}

// named returns the entry of a list of named entries.
func (m *members) named(list, name, inside string) *members {
	m.known = append(m.known, list)
	out := &members{at: fmt.Sprintf("%s[%s].%s", list, name, inside), errs: m.errs}
	items, ok := m.from[list].([]any)
	if !ok && m.from[list] != nil {
		m.fail(list, "must be a list")
	}
	for _, item := range items {
		entry, _ := item.(map[string]any)
		if entry["name"] != name {
			continue
		}
		object, ok := entry[inside].(map[string]any)
		if !ok && entry[inside] != nil {
			m.fail(list, fmt.Sprintf("%s of %q must be an object", inside, name))
		}
		out.from = object
		return out
	}
	if name != "" {
		m.fail(list, fmt.Sprintf("there is no %q", name))
	}
	return out
}

// end reports unknown members.
func (m *members) end() {
	for name := range m.from {
		if !slices.Contains(m.known, name) {
			m.fail(name, "unknown field")
		}
	}
}

func parseConnection(document []byte, dir string) (Connection, error) {
	text, err := yaml.ToJSON(document, maxConnectionBytes)
	if err != nil {
		return Connection{}, err
	}
	tree, err := json.DecodeTree(text, json.TreeOptions{})
	if err != nil {
		return Connection{}, err
	}
	var errs []error
	object, ok := tree.(map[string]any)
	if !ok {
		return Connection{}, errors.New("must be an object")
	}
	root := &members{from: object, errs: &errs, known: []string{"preferences", "extensions"}}
	if v := root.text("apiVersion"); v != "" && v != "v1" {
		root.fail("apiVersion", "must be v1")
	}
	if v := root.text("kind"); v != "" && v != "Config" {
		root.fail("kind", "must be Config")
	}
	current := root.text("current-context")
	if current == "" {
		root.fail("current-context", "is required")
	}
	context := root.named("contexts", current, "context")
	cluster := root.named("clusters", context.text("cluster"), "cluster")
	user := root.named("users", context.text("user"), "user")
	context.text("namespace")
	l := loader{dir: dir, tls: &tls.Config{MinVersion: tls.VersionTLS12}}
	c := Connection{URL: cluster.text("server")}
	l.cluster(cluster, c.URL)
	c.Authorize = l.user(user)
	for _, m := range []*members{root, context, cluster, user} {
		m.end()
	}
	if err := errors.Join(errs...); err != nil {
		return Connection{}, err
	}
	transport := &http.Transport{
		TLSClientConfig: l.tls, ForceAttemptHTTP2: true, Proxy: http.ProxyFromEnvironment,
		TLSHandshakeTimeout: requestTimeout, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: maxIdle,
	}
	c.Client = &http.Client{Transport: transport, Timeout: requestTimeout, CheckRedirect: noRedirect}
	return c, nil
}

// noRedirect makes the answer with the redirect the answer.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// loader reads the files that a connection file names.
type loader struct {
	dir string
	tls *tls.Config
}

// data returns the content of a member with data in base64, or of the file that another names.
func (l *loader) data(m *members, inline, file string, read func(string) ([]byte, error)) []byte {
	text, path := m.text(inline), m.text(file)
	switch {
	case text != "":
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			m.fail(inline, "must be base64")
		}
		return data
	case path != "":
		data, err := read(l.path(path))
		if err != nil {
			m.fail(file, err.Error())
		}
		return data
	}
	return nil
}

func (l *loader) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.dir, path)
}

func (l *loader) cluster(m *members, server string) {
	u, err := url.Parse(server)
	switch {
	case server == "":
		m.fail("server", "is required")
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http":
		m.fail("server", "must be a URL of https or http, without a user")
	}
	if authorities := l.data(m, "certificate-authority-data", "certificate-authority", files.Read); len(authorities) > 0 {
		l.tls.RootCAs = x509.NewCertPool()
		if !l.tls.RootCAs.AppendCertsFromPEM(authorities) {
			m.fail("certificate-authority", "has no PEM certificate")
		}
	}
	l.tls.ServerName = m.text("tls-server-name")
	l.tls.InsecureSkipVerify = m.flag("insecure-skip-tls-verify")
	if l.tls.InsecureSkipVerify && l.tls.RootCAs != nil {
		m.fail("insecure-skip-tls-verify", "contradicts certificate-authority")
	}
}

func (l *loader) user(m *members) func(*http.Request) error {
	certificate := l.data(m, "client-certificate-data", "client-certificate", files.Read)
	key := l.data(m, "client-key-data", "client-key", files.ReadSecret)
	if len(certificate)+len(key) > 0 {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			m.fail("client-certificate", "does not fit client-key")
		}
		l.tls.Certificates = []tls.Certificate{pair}
	}
	token, tokenFile := m.text("token"), m.text("tokenFile")
	name, password := m.text("username"), m.text("password")
	if (token != "" || tokenFile != "") && name != "" {
		m.fail("token", "contradicts username")
	}
	switch {
	case tokenFile != "":
		path := l.path(tokenFile)
		return func(r *http.Request) error { // read each time, as tokens are renewed
			data, err := files.ReadSecret(path)
			if err == nil {
				r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(data)))
			}
			return err
		}
	case token != "":
		return func(r *http.Request) error { r.Header.Set("Authorization", "Bearer "+token); return nil }
	case name != "":
		return func(r *http.Request) error { r.SetBasicAuth(name, password); return nil }
	}
	return nil
}
