package connection

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// kubeconfig is a connection file. Only the entries that the current context names are looked into.
type kubeconfig struct {
	Current  string  `json:"current-context"`
	Contexts []entry `json:"contexts"`
	Clusters []entry `json:"clusters"`
	Users    []entry `json:"users"`

	APIVersion  string      `json:"apiVersion"`
	Kind        string      `json:"kind"`
	Preferences preferences `json:"preferences"` // which nothing reads
	Extensions  []extension `json:"extensions"`
}

type preferences struct {
	Colors     bool        `json:"colors"`
	Extensions []extension `json:"extensions"`
}

// extension is what another program has written, by the name of that program.
type extension struct {
	Name  string `json:"name"`
	Value any    `json:"extension"`
}

// entry is one entry of a list by name. It has one of its members.
type entry struct {
	Name    string `json:"name"`
	Context any    `json:"context"`
	Cluster any    `json:"cluster"`
	User    any    `json:"user" config:"secret"`
}

// kubeContext names a cluster and a user.
type kubeContext struct {
	Cluster    string      `json:"cluster"`
	User       string      `json:"user"`
	Namespace  string      `json:"namespace"`
	Extensions []extension `json:"extensions"`
}

// cluster is the server.
type cluster struct {
	Server        string `json:"server"`
	AuthorityData string `json:"certificate-authority-data"`
	Authority     string `json:"certificate-authority"`
	ServerName    string `json:"tls-server-name"`
	Insecure      bool   `json:"insecure-skip-tls-verify"`
	ProxyURL      string `json:"proxy-url"`           // default: as the environment says
	Compression   bool   `json:"disable-compression"` // which is never used

	Extensions []extension `json:"extensions"`
}

// user is how the client proves who it is.
type user struct {
	CertificateData string `json:"client-certificate-data"`
	Certificate     string `json:"client-certificate"`
	KeyData         string `json:"client-key-data" config:"secret"`
	Key             string `json:"client-key"`
	Token           string `json:"token" config:"secret"`
	TokenFile       string `json:"tokenFile"`
	Username        string `json:"username"`
	Password        string `json:"password" config:"secret"`

	Extensions []extension `json:"extensions"`
	Exec       *execConfig `json:"exec"`
}

// Read reads a connection file, which has the form of a kubeconfig: its current context names a
// cluster and a user. Paths in it are relative to the file. It rejects what it does not know in
// these. A credential plugin of the user (exec) runs at the first request, when its credential has
// expired, and after the server has refused it.
//
// Certificates, keys and tokens that are in files of their own are read again when they change.
// failed is told when that is not possible; the last good state stays in use.
func Read(path string, failed func(error)) (Connection, error) {
	document, err := files.ReadSecret(path)
	if err != nil {
		return Connection{}, fmt.Errorf("connection file: %w", err)
	}
	c, err := parse(document, filepath.Dir(path), failed)
	if err != nil {
		return Connection{}, fmt.Errorf("connection file %s: %w", path, err)
	}
	return c, nil
}

func parse(document []byte, dir string, failed func(error)) (Connection, error) {
	d, err := config.ReadUntyped(document)
	if err != nil {
		return Connection{}, err
	}
	var file kubeconfig
	if err := d.Decode(&file); err != nil {
		return Connection{}, err
	}
	f := &status.Fields{}
	if v := file.APIVersion; v != "" && v != "v1" {
		f.At("apiVersion").Invalid(v, "must be v1")
	}
	if v := file.Kind; v != "" && v != "Config" {
		f.At("kind").Invalid(v, "must be Config")
	}
	if file.Current == "" {
		f.At("current-context").Required("")
		return Connection{}, config.Problems(f.Errors())
	}
	var with kubeContext
	find(f, "contexts", "context", file.Current, file.Contexts, &with)
	l := loader{dir: dir}
	l.serverAt = find(f, "clusters", "cluster", with.Cluster, file.Clusters, &l.cluster)
	l.userAt = find(f, "users", "user", with.User, file.Users, &l.user)
	file.checkEntries(f)
	if f.Len() == 0 {
		l.check(f)
	}
	if err := config.Problems(f.Errors()); err != nil {
		return Connection{}, err
	}
	return l.connect(failed)
}

// checkEntries rejects names that come twice, since it is open which of them is meant, and values of a wrong
// type in entries that nothing names. These may have fields that only other programs know.
func (file *kubeconfig) checkEntries(f *status.Fields) {
	known := map[string]bool{}
	for _, e := range f.Errors() {
		known[e.Field] = true
	}
	for _, list := range []struct {
		name, member string
		entries      []entry
		into         func() any
	}{
		{"contexts", "context", file.Contexts, func() any { return &kubeContext{} }},
		{"clusters", "cluster", file.Clusters, func() any { return &cluster{} }},
		{"users", "user", file.Users, func() any { return &user{} }},
	} {
		seen := map[string]bool{}
		for i, e := range list.entries {
			at := f.At(list.name).Index(i)
			if seen[e.Name] {
				at.Child("name").Duplicate(e.Name)
			}
			seen[e.Name] = true
			inner := &status.Fields{}
			e.fill(inner, inner.In(at.Child(list.member).Path()), list.member, list.into())
			for _, wrong := range inner.Errors() {
				if wrong.Type == meta.CauseFieldValueTypeInvalid && !known[wrong.Field] {
					f.Add(wrong)
				}
			}
		}
	}
}

// fill fills what an entry has in one of its members. What a user is instead of an object may be a secret.
func (e entry) fill(f *status.Fields, at status.Field, member string, into any) {
	content := map[string]any{"context": e.Context, "cluster": e.Cluster, "user": e.User}[member]
	if _, object := content.(map[string]any); member == "user" && content != nil && !object {
		at.TypeInvalid("<secret>", "must be an object")
		return
	}
	config.Fill(f, at, content, into)
}

// find fills what an entry of a list has, and returns where it is.
func find(f *status.Fields, list, member, name string, entries []entry, into any) status.Field {
	for i, e := range entries {
		if e.Name == name {
			at := f.At(list).Index(i).Child(member)
			e.fill(f, at, member, into)
			return at
		}
	}
	if name != "" {
		f.At(list).NotFound(name)
	}
	return f.At(list)
}

// loader makes a connection from what a file says.
type loader struct {
	dir     string
	cluster cluster
	user    user

	serverAt, userAt status.Field
}

// check rejects what contradicts itself. What is in files is checked when they are read.
func (l *loader) check(f *status.Fields) {
	c, u := &l.cluster, &l.user
	server, err := url.Parse(c.Server)
	switch {
	case c.Server == "":
		l.serverAt.Child("server").Required("")
	case err != nil || server.Host == "" || server.User != nil || server.Scheme != "https" && server.Scheme != "http":
		l.serverAt.Child("server").Invalid(c.Server, "must be a URL of https or http, without a user")
	}
	if c.ProxyURL != "" {
		if _, err := c.proxy(); err != nil {
			l.serverAt.Child("proxy-url").Invalid("<url>", err.Error()) // it may have a password
		}
	}
	if c.Insecure && c.Authority+c.AuthorityData != "" {
		l.serverAt.Child("insecure-skip-tls-verify").Forbidden("contradicts certificate-authority")
	}
	if u.Token+u.TokenFile != "" && u.Username+u.Password != "" {
		l.userAt.Child("token").Forbidden("contradicts username")
	}
	if u.Username == "" && u.Password != "" {
		l.userAt.Child("username").Required("there is a password")
	}
	if u.Exec != nil {
		at := l.userAt.Child("exec")
		if u.Token+u.TokenFile+u.Username+u.Certificate+u.CertificateData+u.Key+u.KeyData != "" {
			at.Forbidden("contradicts the other credentials of the user")
		}
		u.Exec.check(at)
	}
	for _, data := range []struct {
		at         status.Field
		name       string
		text, file string
	}{
		{l.serverAt, "certificate-authority", c.AuthorityData, c.Authority},
		{l.userAt, "client-certificate", u.CertificateData, u.Certificate},
		{l.userAt, "client-key", u.KeyData, u.Key},
	} {
		if _, err := base64.StdEncoding.DecodeString(data.text); err != nil {
			data.at.Child(data.name+"-data").Invalid("<data>", "must be base64")
		}
		if data.text != "" && data.file != "" {
			data.at.Child(data.name + "-data").Forbidden("contradicts " + data.name)
		}
	}
	if f.Len() > 0 {
		return
	}
	if _, err := l.tls(); err != nil {
		f.At().Invalid("TLS", err.Error())
	}
}

// proxy returns the proxy of the file, nil for none.
func (c *cluster) proxy() (*url.URL, error) {
	if c.ProxyURL == "" {
		return nil, nil
	}
	u, err := url.Parse(c.ProxyURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
		return nil, errors.New("must be a URL of http, https or socks5")
	}
	return u, nil
}

// data returns inline data, or the content of a file.
func (l *loader) data(inline, path string, read func(string) ([]byte, error)) ([]byte, error) {
	if inline != "" {
		return base64.StdEncoding.DecodeString(inline)
	}
	if path == "" {
		return nil, nil
	}
	return read(l.path(path))
}

func (l *loader) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.dir, path)
}

// names are the files whose change changes the TLS configuration.
func (l *loader) names() (out []string) {
	for _, f := range []struct{ inline, path string }{
		{l.cluster.AuthorityData, l.cluster.Authority}, {l.user.CertificateData, l.user.Certificate}, {l.user.KeyData, l.user.Key},
	} {
		if f.inline == "" && f.path != "" {
			out = append(out, l.path(f.path))
		}
	}
	return out
}

// tls reads the certificates and the key.
func (l *loader) tls() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: l.cluster.ServerName, InsecureSkipVerify: l.cluster.Insecure} //nolint:gosec // as the file says
	authorities, err := l.data(l.cluster.AuthorityData, l.cluster.Authority, files.Read)
	if err != nil {
		return nil, fmt.Errorf("certificate-authority: %w", err)
	}
	if len(authorities) > 0 {
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("certificate-authority: has no PEM certificate")
		}
	}
	certificate, err := l.data(l.user.CertificateData, l.user.Certificate, files.Read)
	if err != nil {
		return nil, fmt.Errorf("client-certificate: %w", err)
	}
	key, err := l.data(l.user.KeyData, l.user.Key, files.ReadSecret)
	if err != nil {
		return nil, fmt.Errorf("client-key: %w", err)
	}
	if len(certificate)+len(key) > 0 {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("client-certificate: does not fit client-key")
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// connect makes the connection.
func (l *loader) connect(failed func(error)) (Connection, error) {
	var runs *plugin
	if l.user.Exec != nil {
		about, err := l.about()
		if err != nil {
			return Connection{}, err
		}
		if runs, err = newPlugin(*l.user.Exec, l.dir, about); err != nil {
			return Connection{}, err
		}
	}
	proxy, err := l.cluster.proxy()
	if err != nil {
		return Connection{}, err
	}
	transport, err := newTransport(proxy, func() (*tls.Config, error) {
		c, err := l.tls()
		if err == nil && runs != nil {
			c.GetClientCertificate = runs.clientCertificate
		}
		return c, err
	}, failed, l.names()...)
	if err != nil {
		return Connection{}, err
	}
	server, err := url.Parse(l.cluster.Server)
	if err != nil {
		return Connection{}, err
	}
	CleanPath(server)
	var by http.RoundTripper = transport
	if runs != nil {
		runs.renewed = transport.renew
		by = &credentialed{runs, transport}
	}
	return Connection{
		URL:       server.String(),
		Client:    &http.Client{Transport: by, Timeout: requestTimeout, CheckRedirect: noRedirect},
		Authorize: l.authorize(),
	}, nil
}

// about returns what a credential plugin may learn about the server.
func (l *loader) about() (map[string]any, error) {
	c := &l.cluster
	authorities, err := l.data(c.AuthorityData, c.Authority, files.Read)
	if err != nil {
		return nil, fmt.Errorf("certificate-authority: %w", err)
	}
	out := map[string]any{"server": c.Server}
	if c.ServerName != "" {
		out["tls-server-name"] = c.ServerName
	}
	if c.Insecure {
		out["insecure-skip-tls-verify"] = true
	}
	if len(authorities) > 0 {
		out["certificate-authority-data"] = base64.StdEncoding.EncodeToString(authorities)
	}
	if c.ProxyURL != "" {
		out["proxy-url"] = c.ProxyURL
	}
	if c.Compression {
		out["disable-compression"] = true
	}
	for _, e := range c.Extensions {
		if e.Name == credentialGroup+"/exec" {
			out["config"] = e.Value
		}
	}
	return out, nil
}

// authorize returns what adds the credential to a request.
func (l *loader) authorize() func(*http.Request) error {
	u := &l.user
	switch {
	case u.TokenFile != "":
		return tokenFile(l.path(u.TokenFile))
	case u.Token != "":
		return func(r *http.Request) error { r.Header.Set("Authorization", "Bearer "+u.Token); return nil }
	case u.Username != "":
		return func(r *http.Request) error { r.SetBasicAuth(u.Username, u.Password); return nil }
	}
	return nil
}

// tokenFile reads the token each time, as tokens are renewed. While the file cannot be read, the last
// token counts.
func tokenFile(path string) func(*http.Request) error {
	var last atomic.Pointer[string]
	return func(r *http.Request) error {
		data, err := files.ReadSecret(path)
		if err == nil {
			header := "Bearer " + strings.TrimSpace(string(data))
			last.Store(&header)
		}
		header := last.Load()
		if header == nil {
			return err
		}
		r.Header.Set("Authorization", *header)
		return nil
	}
}

// AccountDirectory is where a Pod has the token of its service account.
const AccountDirectory = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster returns the connection of a Pod to a path of the server of its cluster. dir is
// [AccountDirectory], except in tests.
func InCluster(dir, path string, failed func(error)) (Connection, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return Connection{}, fmt.Errorf("unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined")
	}
	l := loader{dir: dir, cluster: cluster{Server: "https://" + net.JoinHostPort(host, port) + path, Authority: "ca.crt"}, user: user{TokenFile: "token"}}
	c, err := l.connect(failed)
	if err != nil {
		return Connection{}, fmt.Errorf("in-cluster configuration: %w", err)
	}
	return c, nil
}
