package connect_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/storage/memory"
)

// Phone is a kind with a connection.
type Phone struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

// CallOptions are the parameters that the query of a call may have.
type CallOptions struct {
	Greeting string `json:"greeting,omitempty" default:"hello"`
}

func phones() registry.Kind[Phone] {
	return registry.Kind[Phone]{
		Group: "home.example.com", Version: "v1", Plural: "phones", Scope: registry.ClusterScoped,
		Subresources: []registry.Endpoint{connect.Endpoint[Phone, CallOptions]{Name: "call", Serve: serve}},
	}
}

// serve takes over the connection, greets the client and repeats what it sends in capitals.
func serve(w http.ResponseWriter, r *http.Request, call *registry.Call[Phone], o *CallOptions) error {
	conn, _, err := connect.Upgrade(w, r, "lines/1")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "%s from %s\n", o.Greeting, call.Object.Name); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if _, err := fmt.Fprintln(conn, strings.ToUpper(lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}

func Example() {
	db := memory.New()
	defer func() { _ = db.Close() }()
	srv, err := kindwright.New(db, kindwright.Serve(phones()), kindwright.Authenticate(authn.Anonymous()), kindwright.Authorize(authz.AlwaysAllow()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer srv.Wait()
	defer stop()
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	host := httptest.NewServer(srv)
	defer host.Close()
	if err := call(ctx, client.For(host.Client(), phones(), client.At(host.URL))); err != nil {
		fmt.Println(err)
	}
	// Output:
	// good evening from hall
	// ANYBODY THERE?
}

// call is the client's side.
func call(ctx context.Context, c *client.Client[Phone]) error {
	if _, err := c.Create(ctx, &Phone{ObjectMeta: meta.ObjectMeta{Name: "hall"}}); err != nil {
		return err
	}
	sub := client.SubOf[struct{}, struct{}](c, "call").With(url.Values{"greeting": {"good evening"}})
	conn, _, err := sub.Connect(ctx, meta.Key{Name: "hall"}, "lines/1")
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, "anybody there?"); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	for range 2 {
		if !lines.Scan() {
			return lines.Err()
		}
		fmt.Println(lines.Text())
	}
	return nil
}
