// Command collect gathers the custom resource definitions in git repositories, of operators for
// example, for the tests of this module:
//
//	go run ./collect -to directory repository...
//
// It reads the newest commit of each repository, which may be bare, and downloads nothing.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	to := flag.String("to", "", "directory for the definitions")
	flag.Parse()
	if *to == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: collect -to directory repository...")
		os.Exit(2)
	}
	for _, repository := range flag.Args() {
		n, err := collect(repository, *to)
		if err != nil {
			fmt.Fprintf(os.Stderr, "collect: %s: %v\n", repository, err)
			os.Exit(1)
		}
		_, _ = fmt.Fprintf(os.Stdout, "%5d %s\n", n, repository)
	}
}

// collect writes the definitions of a repository into a directory and returns their number. The
// content of a definition is part of its file name, since repositories hold variants of definitions,
// and repeat those of others.
func collect(repository, to string) (n int, err error) {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return 0, err
	}
	paths, err := git(repository, "grep", "-lz", "-e", "^kind: CustomResourceDefinition", "HEAD", "--", "*.yaml", "*.yml")
	if bad, ok := errors.AsType[*exec.ExitError](err); ok && bad.ExitCode() == 1 {
		return 0, nil // none found
	} else if err != nil {
		return 0, err
	}
	for object := range strings.SplitSeq(strings.TrimSuffix(string(paths), "\x00"), "\x00") {
		data, err := git(repository, "show", object)
		if err != nil {
			return n, err
		}
		for _, d := range definitions(data) {
			file := filepath.Join(to, fmt.Sprintf("%s.%x.yaml", d.name, d.sum()))
			if _, err := os.Stat(file); err == nil {
				continue
			}
			if err := os.WriteFile(file, d.text, 0o600); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

func git(repository string, args ...string) ([]byte, error) {
	command := exec.CommandContext(context.Background(), "git", append([]string{"-C", repository}, args...)...)
	command.Stderr = os.Stderr
	return command.Output()
}

// definitions returns the definitions of version v1 in a file. Templates are left out: they are not
// YAML before they are filled in.
func definitions(data []byte) (out []definition) {
	for _, text := range bytes.Split(data, []byte("\n---")) {
		var head struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
			Spec             struct{ Versions []any }
		}
		if !bytes.Contains(text, []byte("CustomResourceDefinition")) || yaml.Unmarshal(text, &head) != nil {
			continue
		}
		name := head.Metadata.Name
		if head.Kind == "CustomResourceDefinition" && head.APIVersion == "apiextensions.k8s.io/v1" && name != "" && filepath.Base(name) == name {
			out = append(out, definition{name, text})
		}
	}
	return out
}
