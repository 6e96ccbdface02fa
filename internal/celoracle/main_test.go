package main

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// The tests of package cel read what this program has written.
func TestTheRecordsAreOfToday(t *testing.T) {
	for name, c := range map[string]struct {
		record  func(io.Writer) error
		command string
	}{
		"kubernetes.jsonl": {record, "go run ."},
		"writes.jsonl":     {recordWrites, "go run . writes"},
	} {
		var now bytes.Buffer
		if err := c.record(&now); err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile("../../cel/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(written, now.Bytes()) {
			t.Errorf("run: %s > ../../cel/testdata/%s", c.command, name)
		}
	}
}
