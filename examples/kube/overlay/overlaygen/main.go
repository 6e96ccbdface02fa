// Command overlaygen writes the overlay of package overlay from the OpenAPI documents that Kubernetes publishes:
//
//	go run ./overlay/overlaygen -openapi DIR > overlay/overlay.json
//
// DIR holds documents of OpenAPI v3 as files, such as api/openapi-spec/v3 of the Kubernetes repository, or what a server
// answers below /openapi/v3. They should be of the version of k8s.io/api that this module requires.
//
// The overlay says what the documents say and the tags of the Go types do not: how lists and maps merge, defaults, the
// values that a string may have, and what is optional. What would be lost is an error.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	dir := flag.String("openapi", "", "folder with documents of OpenAPI v3")
	extract := flag.String("published", "", "file to write what the documents say of these types to, for tests")
	flag.Parse()
	if err := run(*dir, *extract, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "overlaygen:", err)
		os.Exit(1)
	}
}

func run(dir, extract string, out io.Writer) error {
	published, err := load(dir)
	if err != nil {
		return err
	}
	g := generator{
		published: published, keys: map[string]bool{}, names: map[string]bool{},
		overlay: map[string]map[string]tags{}, enums: map[reflect.Type][]use{},
	}
	for _, look := range []func(reflect.Type, *schema){g.findKeys, g.compare} {
		seen := map[reflect.Type]bool{}
		for _, t := range kinds() {
			g.visit(t, true, seen, look)
		}
	}
	g.enumTypes()
	if err := errors.Join(g.problems...); err != nil {
		return err
	}
	if extract != "" {
		if err := writeExtract(extract, dir, g.names); err != nil {
			return err
		}
	}
	return g.write(out)
}

// load reads the schemas of all documents in a folder.
func load(dir string) (map[string]*schema, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no documents in %q", dir)
	}
	all := map[string]*schema{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var document struct {
			Components struct{ Schemas map[string]*schema }
		}
		if err := json.Unmarshal(text, &document); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		maps.Copy(all, document.Components.Schemas)
	}
	return all, nil
}

// kinds are the Go types of all objects of k8s.io/api, as client-go knows them.
func kinds() (out []reflect.Type) {
	for _, t := range scheme.Scheme.AllKnownTypes() {
		if _, isObject := reflect.New(t).Interface().(metav1.Object); isObject {
			out = append(out, t)
		}
	}
	return out
}
