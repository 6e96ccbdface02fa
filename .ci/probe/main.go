// Command probe checks that a server answers the holder of a kubeconfig: it waits
// until the server is ready, then makes, reads and deletes a Widget of the example
// server and asks for something that does not exist.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/yaml"
)

// readyWithin is how long a server may take to write its kubeconfig and become ready.
const readyWithin = 15 * time.Second

const widgets = "/apis/example.dev/v1/namespaces/default/widgets"

const body = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"probe"},"spec":{"size":7}}`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: probe <kubeconfig>")
		os.Exit(2)
	}
	if err := probe(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
	fmt.Println("probe: the server is ready; made, read and deleted a widget")
}

func probe(ctx context.Context, kubeconfig string) error {
	s, err := ready(ctx, kubeconfig)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		method, path, body string
		code               int
		contains           string
	}{
		{http.MethodPost, widgets, body, http.StatusCreated, `"uid":`},
		{http.MethodGet, widgets + "/probe", "", http.StatusOK, `"size":7`},
		{http.MethodGet, widgets, "", http.StatusOK, `"WidgetList"`},
		{http.MethodDelete, widgets + "/probe", "", http.StatusOK, ""},
		{http.MethodGet, widgets + "/probe", "", http.StatusNotFound, `"reason":"NotFound"`},
	} {
		code, answer, err := s.do(ctx, step.method, step.path, step.body)
		if err != nil {
			return err
		}
		if code != step.code || !strings.Contains(answer, step.contains) {
			return fmt.Errorf("%s %s: got %d, want %d and a body with %s: %s", step.method, step.path, code, step.code, step.contains, answer)
		}
	}
	return nil
}

// ready waits for the file, then for the server.
func ready(ctx context.Context, kubeconfig string) (*server, error) {
	until := time.Now().Add(readyWithin)
	for {
		s, err := open(kubeconfig)
		if err == nil {
			var code int
			var answer string
			code, answer, err = s.do(ctx, http.MethodGet, "/readyz", "")
			if err == nil && code == http.StatusOK {
				return s, nil
			}
			err = cmp.Or(err, fmt.Errorf("/readyz: %d %s", code, answer))
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("not ready after %s: %w", readyWithin, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

type server struct {
	url    string
	token  string
	client *http.Client
}

// open reads the first cluster and the first user of a kubeconfig.
func open(name string) (*server, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	data, err = yaml.ToJSON(data, 1<<20)
	if err != nil {
		return nil, err
	}
	var c struct {
		Clusters []struct {
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Token string
				Cert  []byte `json:"client-certificate-data"`
				Key   []byte `json:"client-key-data"`
			}
		}
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if len(c.Clusters) == 0 || len(c.Users) == 0 {
		return nil, errors.New("the kubeconfig names no cluster or no user")
	}
	cluster, user := c.Clusters[0].Cluster, c.Users[0].User
	conf := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !conf.RootCAs.AppendCertsFromPEM(cluster.CA) {
		return nil, errors.New("the kubeconfig has no certificate-authority-data")
	}
	if len(user.Cert) > 0 {
		pair, err := tls.X509KeyPair(user.Cert, user.Key)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return &server{
		url:    cluster.Server,
		token:  user.Token,
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}},
	}, nil
}

func (s *server) do(ctx context.Context, method, path, body string) (code int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}
