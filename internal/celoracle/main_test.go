package main

import (
	"bytes"
	"os"
	"testing"
)

// The tests of package cel read what this program has written.
func TestTheRecordIsOfToday(t *testing.T) {
	var now bytes.Buffer
	if err := record(&now); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile("../../cel/testdata/kubernetes.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, now.Bytes()) {
		t.Error("run: go run . > ../../cel/testdata/kubernetes.jsonl")
	}
}
