package accessflags_test

import (
	"flag"
	"fmt"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/accessflags"
)

func Example() {
	set := flag.NewFlagSet("server", flag.ContinueOnError)
	var f accessflags.Authorization
	f.Add(set, "AlwaysAllow", "AlwaysDeny")
	if err := set.Parse([]string{"--authorization-mode=AlwaysDeny"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Check("AlwaysAllow", "AlwaysDeny"))
	z, err := f.Open(accessflags.Options{Types: map[string]func() (authz.Authorizer, error){
		"AlwaysDeny": func() (authz.Authorizer, error) { return authz.AlwaysDeny(), nil },
	}})
	fmt.Println(z.Types(), err)
	// Output:
	// []
	// [AlwaysDeny] <nil>
}
