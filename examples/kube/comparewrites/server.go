package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	netutil "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/storage/memory"

	"github.com/kindwright/kindwright/examples/kube"
)

// administrator is who writes.
type administrator struct{}

// Authenticate implements authn.Authenticator.
func (administrator) Authenticate(*http.Request) (authn.User, bool, error) {
	return authn.User{Name: "admin", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}, true, nil
}

// A server serves the kinds of package kube in this process, without admission plugins.
type server struct {
	http http.Client
	stop func()
}

func startServer(ctx context.Context) (*server, error) {
	db := memory.New()
	srv, err := kindwright.New(db,
		kindwright.Serve(kube.Kinds(kube.Options{Without: kube.Plugins(), TrustBundles: true, StorageMigrations: true})),
		kindwright.Kubernetes{RuntimeConfig: "api/all=true"},
		kindwright.Authorize(authz.AlwaysAllow()), kindwright.Authenticate(administrator{}))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	if err := srv.Start(ctx); err != nil {
		cancel()
		return nil, err
	}
	return &server{http: http.Client{Transport: client.InProcess(srv)}, stop: func() {
		cancel()
		srv.Wait()
		_ = db.Close() // in memory
	}}, nil
}

// do makes a request and reads the answer, an object or a Status, into out.
func (s *server) do(ctx context.Context, method, path string, body map[string]any, out any) (int, http.Header, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, client.InProcessURL+path, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	if data, err = io.ReadAll(response.Body); err != nil {
		return 0, nil, err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return response.StatusCode, response.Header, nil
}

// send makes a request about one object.
func (s *server) send(ctx context.Context, method, path string, object map[string]any) (answer, error) {
	var data json.RawMessage
	code, header, err := s.do(ctx, method, path, object, &data)
	if err != nil {
		return answer{}, err
	}
	a := answer{Code: code}
	warnings, _ := netutil.ParseWarningHeaders(header.Values("Warning"))
	for _, w := range warnings {
		a.Warnings = append(a.Warnings, w.Text)
	}
	if a.Code < http.StatusMultipleChoices {
		a.Code = http.StatusOK
		return a, json.Unmarshal(data, &a.Object)
	}
	var failure metav1.Status
	if err := json.Unmarshal(data, &failure); err != nil {
		return a, err
	}
	a.Message = failure.Message
	if failure.Details != nil {
		a.Causes = failure.Details.Causes
	}
	return a, nil
}

// try makes a write in a dry run.
func (s *server) try(ctx context.Context, w write) (answer, error) {
	const dry = "?dryRun=All"
	switch w.op {
	case opCreate:
		return s.send(ctx, http.MethodPost, w.path+dry, w.object)
	case opStatus:
		return s.send(ctx, http.MethodPut, w.path+"/"+w.name()+"/status"+dry, w.object)
	default:
		return s.send(ctx, http.MethodPut, w.path+"/"+w.name()+dry, w.object)
	}
}

// store creates the objects of some kinds, with their statuses.
func (s *server) store(ctx context.Context, documents []byte, kinds *regexp.Regexp) ([]*subject, error) {
	var out []*subject
	var problems []error
	for _, document := range bytes.Split(documents, []byte("\n---\n")) {
		var object map[string]any
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, err
		}
		if kind, _ := object["kind"].(string); !kinds.MatchString(kind) {
			continue
		}
		one, err := s.subject(ctx, object)
		if err != nil {
			problems = append(problems, fmt.Errorf("%v %v: %w", object["kind"], metadata(object)["name"], err))
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		problems = append(problems, fmt.Errorf("no object of a kind like %q", kinds))
	}
	return out, errors.Join(problems...)
}

// subject creates one object.
func (s *server) subject(ctx context.Context, object map[string]any) (*subject, error) {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	group, err := schema.ParseGroupVersion(version)
	if err != nil {
		return nil, err
	}
	typed, err := scheme.Scheme.New(group.WithKind(kind))
	if err != nil {
		return nil, err
	}
	out := &subject{kind: kind, typ: reflect.TypeOf(typed).Elem(), sent: object}
	if err := s.locate(ctx, group, out); err != nil {
		return nil, err
	}
	if err := succeeded(s.send(ctx, http.MethodPost, out.path, object)); err != nil {
		return nil, err
	}
	return out, s.complete(ctx, out)
}

// complete writes the status of a new object, and again while the server itself writes another one.
func (s *server) complete(ctx context.Context, of *subject) error {
	status, has := of.sent["status"]
	if !has || !of.status {
		return nil
	}
	for {
		object, err := s.read(ctx, of)
		if err != nil {
			return err
		}
		object["status"] = status
		a, err := s.send(ctx, http.MethodPut, of.path+"/"+of.name()+"/status", object)
		if a.Code != http.StatusConflict {
			return succeeded(a, err)
		}
	}
}

// read returns an object as it is stored.
func (s *server) read(ctx context.Context, of *subject) (map[string]any, error) {
	a, err := s.send(ctx, http.MethodGet, of.path+"/"+of.name(), nil)
	return a.Object, succeeded(a, err)
}

// succeeded makes an error of a failure.
func succeeded(a answer, err error) error {
	if err == nil && !a.succeeded() {
		err = fmt.Errorf("%d %s", a.Code, a.Message)
	}
	return err
}

// locate finds the paths of a kind in discovery.
func (s *server) locate(ctx context.Context, group schema.GroupVersion, of *subject) error {
	root := "/apis/" + group.String()
	if group.Group == "" {
		root = "/api/" + group.Version
	}
	var served metav1.APIResourceList
	if _, _, err := s.do(ctx, http.MethodGet, root, nil, &served); err != nil {
		return err
	}
	i := slices.IndexFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == of.kind && r.SingularName != "" })
	if i < 0 {
		return fmt.Errorf("%s does not serve it", root)
	}
	r := served.APIResources[i]
	if namespace, ok := metadata(of.sent)["namespace"].(string); ok {
		root += "/namespaces/" + namespace
	}
	of.path = root + "/" + r.Name
	of.status = slices.ContainsFunc(served.APIResources, func(s metav1.APIResource) bool { return s.Name == r.Name+"/status" })
	return nil
}
