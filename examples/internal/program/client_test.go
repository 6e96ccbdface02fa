package program

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/meta"
)

// Paths of the example's kinds, as the tests use them.
const (
	widgetsPath = "/apis/example.dev/v1/namespaces/default/widgets"
	gadgetsPath = "/apis/example.dev/v1/namespaces/default/gadgets"
	zonesPath   = "/apis/example.dev/v1/zones"
)

// kubeconfig is the part of a kubeconfig that the tests read.
type kubeconfig struct {
	Kind           string
	CurrentContext string `json:"current-context"`
	Clusters       []struct {
		Name    string
		Cluster struct {
			Server string
			CA     []byte `json:"certificate-authority-data"`
		}
	}
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Users []struct {
		Name string
		User struct {
			Cert []byte `json:"client-certificate-data"`
			Key  []byte `json:"client-key-data"`
		}
	}
}

func readKubeconfig(t testing.TB, path string) *kubeconfig {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data, err = yaml.ToJSON(data, 1<<20)
	require.NoError(t, err)
	c := &kubeconfig{}
	require.NoError(t, json.Unmarshal(data, c))
	require.Len(t, c.Clusters, 1)
	require.Len(t, c.Users, 1)
	return c
}

// client sends requests to one server with one credential.
type client struct {
	url   string
	token string
	http  *http.Client
}

// admin is a client with the credential in the kubeconfig.
func admin(t testing.TB, path string) *client {
	t.Helper()
	c := readKubeconfig(t, path)
	pair, err := tls.X509KeyPair(c.Users[0].User.Cert, c.Users[0].User.Key)
	require.NoError(t, err)
	return newClient(t, c, &pair)
}

// anonymous is a client without a credential.
func anonymous(t testing.TB, path string) *client {
	t.Helper()
	return newClient(t, readKubeconfig(t, path), nil)
}

func newClient(t testing.TB, c *kubeconfig, pair *tls.Certificate) *client {
	t.Helper()
	conf := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	require.True(t, conf.RootCAs.AppendCertsFromPEM(c.Clusters[0].Cluster.CA))
	if pair != nil {
		conf.Certificates = []tls.Certificate{*pair}
	}
	transport := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{url: c.Clusters[0].Cluster.Server, http: &http.Client{Transport: transport}}
}

// with returns the same client with a bearer token.
func (c *client) with(token string) *client {
	return &client{url: c.url, token: token, http: c.http}
}

// answer is the response of a server.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// send makes one request; headers are pairs of name and value. After an error the outcome is
// unknown.
func (c *client) send(ctx context.Context, method, path string, body []byte, headers ...string) (*answer, error) {
	res, err := c.open(ctx, method, path, body, headers...)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return &answer{res.StatusCode, res.Header, data}, err
}

// ask makes one request to a server that may end meanwhile. After a nil answer the outcome is
// unknown.
func (c *client) ask(method, path string, body []byte, headers ...string) *answer {
	a, err := c.send(context.Background(), method, path, body, headers...)
	if err != nil {
		return nil
	}
	return a
}

// open makes one request whose answer is read by the caller.
func (c *client) open(ctx context.Context, method, path string, body []byte, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.http.Do(req)
}

// waitLimit is how long a test waits for anything. It is far longer than anything takes. When it is
// over, nothing will happen any more.
const waitLimit = time.Minute

// do makes one request that is expected to be answered.
func (c *client) do(t testing.TB, method, path, body string, headers ...string) *answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	a, err := c.send(ctx, method, path, []byte(body), headers...)
	require.NoError(t, err)
	return a
}

// get reads one document that is expected to be there.
func (c *client) get(t testing.TB, path string, into any) {
	t.Helper()
	a := c.do(t, http.MethodGet, path, "")
	require.Equal(t, http.StatusOK, a.code, "%s", a.body)
	require.NoError(t, json.Unmarshal(a.body, into))
}

// create POSTs one object that is expected to be accepted.
func (c *client) create(t testing.TB, path, body string) {
	t.Helper()
	a := c.do(t, http.MethodPost, path, body)
	require.Equal(t, http.StatusCreated, a.code, "%s", a.body)
}

// status decodes an answer that must be a Status.
func (a *answer) status(t testing.TB) meta.Status {
	t.Helper()
	var s meta.Status
	require.NoError(t, json.Unmarshal(a.body, &s), "%s", a.body)
	require.Equal(t, "Status", s.Kind, "%s", a.body)
	require.Equal(t, "v1", s.APIVersion)
	return s
}

// widget returns a minimal Widget as JSON.
func widget(name string) string {
	return `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":{"size":7}}`
}

// object is the part of any object that most tests read.
type object struct {
	Metadata meta.ObjectMeta `json:"metadata"`
}

// objectList is a list of such parts.
type objectList struct {
	Metadata meta.ListMeta `json:"metadata"`
	Items    []object      `json:"items"`
}

// names returns the names of the objects at a path, joined by blanks.
func (c *client) names(t testing.TB, path string) string {
	t.Helper()
	var l objectList
	c.get(t, path, &l)
	var out []string
	for _, o := range l.Items {
		out = append(out, o.Metadata.Name)
	}
	return strings.Join(out, " ")
}
