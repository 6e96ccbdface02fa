package json_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kindwright/kindwright/internal/json"
)

// object returns the canonical JSON of an object of approximately the given size. Its proportions
// are those of a Pod: many short names, some strings and some numbers.
func object(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"creationTimestamp":"2026-01-02T03:04:05Z","generation":3,` +
		`"labels":{"app":"web","tier":"front","version":"v42"},"name":"widget-000123","namespace":"team-a",` +
		`"uid":"5d3c2b1a-0000-4000-8000-123456789abc"},"spec":{"color":"blue","parts":[`)
	for i := 0; b.Len() < size-120; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"count":%d,"image":"registry.example.com/parts/%d:v1.2.3","name":"part-%d","ratio":0.%d5,"tags":["a","b"]}`, i*7, i, i, i)
	}
	b.WriteString(`],"size":7},"status":{"phase":"Ready","replicas":3}}`)
	return []byte(b.String())
}

type benchObject struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		CreationTimestamp, Name, Namespace, UID string            `json:",omitempty"`
		Labels                                  map[string]string `json:"labels,omitempty"`
		Generation                              int64             `json:"generation,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Color string `json:"color"`
		Size  int32  `json:"size"`
		Parts []struct {
			Name  string   `json:"name"`
			Image string   `json:"image"`
			Count int64    `json:"count"`
			Ratio float64  `json:"ratio"`
			Tags  []string `json:"tags"`
		} `json:"parts"`
	} `json:"spec"`
	Status struct {
		Phase    string `json:"phase"`
		Replicas int32  `json:"replicas"`
	} `json:"status"`
}

func sizes(b *testing.B, run func(b *testing.B, data []byte)) {
	for _, kib := range []int{1, 4} {
		data := object(kib << 10)
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			run(b, data)
		})
	}
}

func BenchmarkDecodeTree(b *testing.B) {
	sizes(b, func(b *testing.B, data []byte) {
		for b.Loop() {
			if _, err := json.DecodeTree(data, json.TreeOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAppendTree(b *testing.B) {
	sizes(b, func(b *testing.B, data []byte) {
		tree, err := json.DecodeTree(data, json.TreeOptions{})
		if err != nil {
			b.Fatal(err)
		}
		var buf []byte
		for b.Loop() {
			if buf, err = json.AppendTree(buf[:0], tree); err != nil {
				b.Fatal(err)
			}
		}
		if string(buf) != string(data) {
			b.Fatal("the object is not canonical")
		}
	})
}

func BenchmarkUnmarshal(b *testing.B) {
	sizes(b, func(b *testing.B, data []byte) {
		for b.Loop() {
			if err := json.Unmarshal(data, new(benchObject)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	sizes(b, func(b *testing.B, data []byte) {
		var v benchObject
		if err := json.Unmarshal(data, &v); err != nil {
			b.Fatal(err)
		}
		var buf []byte
		for b.Loop() {
			var err error
			if buf, err = json.Append(buf[:0], &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkFromTree(b *testing.B) {
	sizes(b, func(b *testing.B, data []byte) {
		tree, err := json.DecodeTree(data, json.TreeOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := json.FromTree(tree, new(benchObject)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkTreeOf(b *testing.B) {
	sizes(b, func(b *testing.B, data []byte) {
		var v benchObject
		if err := json.Unmarshal(data, &v); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := json.TreeOf(&v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkScanMetadata(b *testing.B) {
	sizes(b, func(b *testing.B, data []byte) {
		for b.Loop() {
			if _, err := json.ScanMetadata(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkValid(b *testing.B) {
	sizes(b, func(b *testing.B, data []byte) {
		for b.Loop() {
			if err := json.Valid(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkHostile decodes 3 MiB that are designed to be expensive. Each case must stay well below
// a second.
func BenchmarkHostile(b *testing.B) {
	const size = 3 << 20
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, text := range map[string]string{
		"brackets": fill("["), "objects": fill(`{"a":`), "blanks": fill(" "), "digits": fill("9"), "fraction": "0." + fill("9"),
		"key": `{"` + fill("k") + `":1}`, "escapes": `"` + fill(`\u0041`) + `"`, "numbers": "[" + fill("1,") + "1]",
		"empty objects": "[" + fill("{},") + "1]", "duplicates": "{" + fill(`"a":1,`) + `"a":1}`, "quotes": "[" + fill(`"",`) + "1]",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = json.DecodeTree([]byte(text), json.TreeOptions{Duplicates: func(string) {}})
			}
		})
	}
}
