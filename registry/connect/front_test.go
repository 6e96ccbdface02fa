package connect_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/storage/memory"
)

// The handler of a connection reads and writes objects as the client that connected, or as the server.
func TestAConnectionUsesObjects(t *testing.T) {
	kind := phones()
	kind.Subresources = []registry.Endpoint{connect.Endpoint[Phone, struct{}]{
		Name: "copy", Methods: []string{http.MethodPost},
		Serve: func(w http.ResponseWriter, r *http.Request, call *registry.Call[Phone], _ *struct{}) error {
			front := registry.For[Phone](r.Context())
			original, err := front.Get(r.Context(), "", call.Object.Name)
			if err != nil {
				return err
			}
			if _, err := front.Create(r.Context(), &Phone{ObjectMeta: meta.ObjectMeta{Name: original.Name + "-mine"}}); err != nil {
				return err
			}
			_, err = front.AsSystem().Create(r.Context(), &Phone{ObjectMeta: meta.ObjectMeta{Name: original.Name + "-theirs"}})
			return err
		},
	}}
	makers := map[string]string{}
	record := admission.Plugin{
		Name: "record", Rules: []admission.Rule{{Operations: []admission.Operation{admission.Create}, Resources: []string{"phones"}}},
		Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			makers[r.Name] = r.User.Name
			return nil
		}),
	}
	ann := authn.Func(func(*http.Request) (authn.User, bool, error) { return authn.User{Name: "ann"}, true, nil })
	db := memory.New()
	srv, err := kindwright.New(db, kindwright.Serve(kind), kindwright.Authenticate(ann), kindwright.Authorize(authz.AlwaysAllow()), kindwright.Admit(record))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	t.Cleanup(func() { stop(); srv.Wait(); require.NoError(t, db.Close()) })
	const path = "/apis/home.example.com/v1/phones"
	post := func(path, body string) int {
		r, w := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		srv.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, http.StatusCreated, post(path, `{"metadata":{"name":"hall"}}`))
	require.Equal(t, http.StatusOK, post(path+"/hall/copy", ""))
	require.Equal(t, "ann", makers["hall-mine"])
	require.NotContains(t, []string{"", "ann"}, makers["hall-theirs"])
	require.Equal(t, http.StatusNotFound, post(path+"/none/copy", ""))
	require.Len(t, makers, 3)
}
