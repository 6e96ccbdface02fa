package external_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/authn/serviceaccount/external"
)

// A program opens the signer and gives it as both the signer and the source of the keys. Here nobody
// listens at the socket.
func Example() {
	signer, err := external.Open(context.Background(), "/nowhere/signer.sock", func(err error) { fmt.Println(err) })
	if err != nil {
		fmt.Println(strings.HasPrefix(err.Error(), "external signer: Metadata: "))
		return
	}
	defer signer.Close()
	tokens, err := serviceaccount.New(serviceaccount.Options{
		Issuers: []string{"https://issuer.example.dev"}, Signer: signer, Keys: signer, MaxLifetime: signer.MaxLifetime(),
	})
	fmt.Println(tokens, err)
	// Output: true
}
