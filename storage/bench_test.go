package storage_test

import (
	"testing"

	"github.com/kindwright/kindwright/storage"
)

func BenchmarkObjectKey(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		storage.ObjectKey("example.dev/widgets", "default", "a-name-of-usual-length")
	}
}

func BenchmarkSplitObjectKey(b *testing.B) {
	key := storage.ObjectKey("example.dev/widgets", "default", "a-name-of-usual-length")
	b.ReportAllocs()
	for b.Loop() {
		storage.SplitObjectKey(key)
	}
}

func BenchmarkParseRevision(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := storage.ParseRevision("1795255619858857"); err != nil {
			b.Fatal(err)
		}
	}
}
