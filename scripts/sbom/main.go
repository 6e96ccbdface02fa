// Command sbom prints what a Go program consists of, as a CycloneDX document. It reads what the go
// command has put into the program, so it needs neither the sources nor a network, and the same
// program always gives the same document.
//
//	go run ./scripts/sbom dist/kindwright-server_linux_amd64 > dist/kindwright-server_linux_amd64.cdx.json
package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/kindwright/kindwright/internal/json"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: sbom PROGRAM")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	text, err := json.Marshal(document(filepath.Base(args[0]), info))
	if err != nil {
		return err
	}
	if text, err = json.Indent(nil, text); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}

// bill is a CycloneDX document. It has no serial number and no date, which would differ each time.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

// component is a program or a module.
type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	URL        string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func document(name string, info *debug.BuildInfo) bill {
	program := component{Type: "application", Name: name, Version: info.Main.Version}
	for _, s := range info.Settings {
		program.Properties = append(program.Properties, property{"go:" + s.Key, s.Value})
	}
	out := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{program}}
	out.Components = append(out.Components, component{Type: "library", Name: "std", Version: info.GoVersion, URL: "pkg:golang/std@" + info.GoVersion})
	for _, m := range info.Deps {
		if m.Replace != nil && m.Replace.Version != "" {
			m = m.Replace
		}
		c := component{Type: "library", Name: m.Path, Version: m.Version, URL: "pkg:golang/" + m.Path + "@" + m.Version}
		if m.Sum != "" {
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		out.Components = append(out.Components, c)
	}
	return out
}
