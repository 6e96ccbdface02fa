package main

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// The tests of other packages read what this program has written.
func TestTheRecordsAreOfToday(t *testing.T) {
	for name, c := range map[string]struct {
		record  func(io.Writer) error
		command string
	}{
		"cel/testdata/kubernetes.jsonl":        {record, "go run ."},
		"cel/testdata/writes.jsonl":            {recordWrites(0, writesCount, 1), "go run . writes"},
		"config/testdata/authentication.jsonl": {recordDocuments("authentication"), "go run . authentication"},
		"config/testdata/authorization.jsonl":  {recordDocuments("authorization"), "go run . authorization"},
		"config/testdata/policy.jsonl":         {recordDocuments("policy"), "go run . policy"},
		"cel/testdata/admission.jsonl":         {recordAdmission, "go run . admission"},
	} {
		var now bytes.Buffer
		if err := c.record(&now); err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(written, now.Bytes()) {
			t.Errorf("run: %s > ../../%s", c.command, name)
		}
	}
}
