package log_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kindwright/kindwright/audit/log"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "audit")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir) //nolint:errcheck // an example
	path := filepath.Join(dir, "audit.json")
	sink, err := log.Open(path, log.Options{MaxSize: 100, MaxBackups: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sink.Write(context.Background(), []byte(`{"kind":"Event"}`)), sink.Close())
	text, err := os.ReadFile(path)
	fmt.Printf("%s%v\n", text, err)
	// Output:
	// <nil> <nil>
	// {"kind":"Event"}
	// <nil>
}
