package auditflags_test

import (
	"flag"
	"fmt"

	"github.com/kindwright/kindwright/internal/auditflags"
)

func Example() {
	var f auditflags.Flags
	set := flag.NewFlagSet("server", flag.ContinueOnError)
	f.Add(set)
	fmt.Println(set.Parse([]string{"--audit-log-path=-", "--audit-log-mode=quick"}))
	fmt.Println(f.Check())
	// Output:
	// <nil>
	// [invalid audit log mode quick, allowed modes are "batch,blocking,blocking-strict"]
}
