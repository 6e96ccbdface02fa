package authnflags_test

import (
	"flag"
	"fmt"

	"github.com/kindwright/kindwright/internal/authnflags"
)

func Example() {
	var f authnflags.Flags
	set := flag.NewFlagSet("server", flag.ContinueOnError)
	f.Add(set)
	fmt.Println(set.Parse([]string{"--oidc-issuer-url=https://login.example.com"}))
	fmt.Println(f.Check())
	// Output:
	// <nil>
	// [oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set]
}
