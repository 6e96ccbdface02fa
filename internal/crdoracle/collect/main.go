// Command collect gathers the custom resource definitions of operators, for the tests of this module:
//
//	go run ./collect -to directory [-modules file] [repository...]
//
// The file names Go modules, one module@version a line, with # before comments. They are downloaded as
// the go command downloads them, so GOPROXY and the module cache count. Of a repository, which may be
// bare, it reads the newest commit, and downloads nothing.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	to := flag.String("to", "", "directory for the definitions")
	list := flag.String("modules", "", "file of Go modules, one module@version a line")
	flag.Parse()
	if *to == "" || flag.NArg() == 0 && *list == "" {
		fmt.Fprintln(os.Stderr, "usage: collect -to directory [-modules file] [repository...]")
		os.Exit(2)
	}
	if err := run(os.Stdout, *to, *list, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "collect:", err)
		os.Exit(1)
	}
}

// run collects from the modules of a list and from repositories, and writes a line for each.
func run(out io.Writer, to, list string, repositories []string) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	var modules []string
	if list != "" {
		var err error
		if modules, err = modulesOf(list); err != nil {
			return err
		}
	}
	total := 0
	for _, from := range []struct {
		names   []string
		collect func(name, to string) (int, error)
	}{{modules, ofModule}, {repositories, ofRepository}} {
		for _, name := range from.names {
			n, err := from.collect(name, to)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			total += n
			_, _ = fmt.Fprintf(out, "%5d %s\n", n, name)
		}
	}
	_, _ = fmt.Fprintf(out, "%5d in all\n", total)
	return nil
}

// ofRepository writes the definitions of a repository into a directory and returns their number.
func ofRepository(repository, to string) (n int, err error) {
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
		more, err := write(to, data)
		if n += more; err != nil {
			return n, err
		}
	}
	return n, nil
}

// write writes the definitions in a file's text, and returns how many are new. The content of a
// definition is part of its file name: sources hold variants of definitions, and repeat those of others.
func write(to string, text []byte) (n int, err error) {
	for _, d := range definitions(text) {
		file := filepath.Join(to, fmt.Sprintf("%s.%x.yaml", d.name, d.sum()))
		if _, err := os.Stat(file); err == nil {
			continue
		}
		if err := os.WriteFile(file, d.text, 0o600); err != nil {
			return n, err
		}
		n++
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
