package serviceaccount_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"

	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

func Example() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	signer, err := serviceaccount.NewSigner(key)
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, err := serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: key.Public()})
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens, err := serviceaccount.New(serviceaccount.Options{
		Issuers: []string{"https://issuer.example.dev"}, Signer: signer, Keys: keys,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// With a server: kindwright.Authenticate(tokens), and
	// kindwright.Serve(kinds.Secrets(), kinds.ServiceAccounts(kinds.IssueTokens(tokens))).
	exists := true
	get := func(_ context.Context, of meta.GroupVersionResource, namespace, name string) (*watch.Entry, error) {
		if !exists {
			return nil, status.NotFound(of.GroupResource(), name)
		}
		return watch.NewEntry(namespace+"/"+name, 1, watch.Body{}, watch.Facts{Namespace: namespace, Name: name, UID: "u1"}), nil
	}
	robot := serviceaccount.Account{Namespace: "default", Name: "robot", UID: "u1"}
	answer, err := tokens.Issue(context.Background(), robot, serviceaccount.TokenRequest{}, get)
	if err != nil {
		fmt.Println(err)
		return
	}
	accounts := tokens.Authenticator(get)
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + answer.Status.Token}}}
	user, ok, err := accounts.Authenticate(r)
	fmt.Println(user.Name, user.Groups, ok, err)
	exists = false
	_, ok, err = accounts.Authenticate(r)
	fmt.Println(ok, err)
	// Output:
	// system:serviceaccount:default:robot [system:serviceaccounts system:serviceaccounts:default] true <nil>
	// false token of system:serviceaccount:default:robot: serviceaccounts "robot" is gone
}
