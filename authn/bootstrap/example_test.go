package bootstrap_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/kindwright/kindwright/authn/bootstrap"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func Example() {
	secrets := map[string]bootstrap.Secret{"bootstrap-token-abcdef": {Type: bootstrap.Type, Data: map[string][]byte{
		"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"),
		"usage-bootstrap-authentication": []byte("true"), "auth-extra-groups": []byte("system:bootstrappers:nodes"),
	}}}
	tokens := bootstrap.Tokens{Read: func(_ context.Context, name string) (bootstrap.Secret, error) {
		if s, ok := secrets[name]; ok {
			return s, nil
		}
		return bootstrap.Secret{}, status.NotFound(meta.GroupResource{Resource: "secrets"}, name)
	}}
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer abcdef.0123456789abcdef"}}}
	user, ok, err := tokens.Authenticate(r)
	fmt.Println(user.Name, user.Groups, ok, err)
	// Output: system:bootstrap:abcdef [system:bootstrappers system:bootstrappers:nodes] true <nil>
}
