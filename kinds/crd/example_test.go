package crd_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing/fstest"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// A server that takes definitions from its clients.
func ExampleKinds() {
	db := memory.New()
	defer func() { _ = db.Close() }()
	admin := authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "admin", Groups: []string{authn.GroupMasters}}, true, nil
	})
	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), crd.Kinds()), kindwright.Authenticate(admin))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer srv.Wait()
	defer cancel()
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	request := httptest.NewRequest(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", strings.NewReader(shirts))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	srv.ServeHTTP(answer, request)
	fmt.Println(answer.Code)
	// Output: 201
}

// A program brings its definitions in files, and the conversions of one of them in Go.
func ExampleInstall() {
	db := memory.New()
	defer func() { _ = db.Close() }()
	convert := func(_ context.Context, to string, objects []registry.Tree) ([]registry.Tree, error) {
		out := make([]registry.Tree, len(objects))
		for i, object := range objects {
			out[i] = maps.Clone(object)
			out[i]["apiVersion"] = to
		}
		return out, nil
	}
	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), crd.Kinds(crd.Convert("shirts.shop.example.com", convert))))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer srv.Wait()
	defer cancel()
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	files := fstest.MapFS{"shirts.yaml": {Data: []byte(shirts)}} // usually os.DirFS("config/crd/bases")
	fmt.Println(crd.Install(ctx, srv, files))
	// Output: <nil>
}

// buoy is a Go kind.
type buoy struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Color string `json:"color,omitempty" default:"red" enum:"red,green"`
	} `json:"spec"`
}

// The definition of a Go kind, for a server that does not have its program.
func ExampleFrom() {
	definition, err := crd.From(registry.Kind[buoy]{
		Group: "harbour.example.com", Version: "v1", Plural: "buoys", Names: registry.Names{Kind: "Buoy"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, names, _ := strings.Cut(string(definition), "  names:\n")
	names, _, _ = strings.Cut(names, "  scope:")
	fmt.Print(names)
	// Output:
	// kind: Buoy
	//     listKind: BuoyList
	//     plural: buoys
	//     singular: buoy
}
