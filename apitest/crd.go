package apitest

import (
	"context"
	"io/fs"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/registry"
)

// CRDs installs the custom resource definitions in YAML or JSON files, such as those that
// controller-gen writes to config/crd/bases, before the server is ready:
//
//	srv := apitest.New(t, apitest.CRDs(t, os.DirFS("../config/crd/bases")))
//
// Patterns are those of fs.Glob; without patterns CRDs reads all .yaml, .yml and .json files below
// the root. It skips documents of other kinds. The test fails if there is no definition, or if one
// cannot be served; see crd.Install.
//
// The server has the kind CustomResourceDefinition then, so a test can read the definitions and change
// them. Give crd.Kinds with options to New as well if they convert by webhooks or by functions in Go.
// To install definitions into a running server, use crd.Install.
func CRDs(t testing.TB, fsys fs.FS, patterns ...string) registry.Definition {
	t.Helper()
	return crds{{fsys: fsys, patterns: patterns}}
}

// crds are definitions in files.
type crds []folder

type folder struct {
	fsys     fs.FS
	patterns []string
}

// establishTimeout is how long a server waits until definitions are served. It is that long because a
// test machine can be slow, and not longer because the definitions of a test can wait for a webhook that
// does not exist.
const establishTimeout = time.Minute

// Define implements registry.Definition.
func (all crds) Define(registry.Env) (registry.Bundle, error) {
	install := func(ctx context.Context, o registry.Objects) error {
		ctx, cancel := context.WithTimeout(ctx, establishTimeout)
		defer cancel()
		for _, f := range all {
			if err := crd.Install(ctx, engineOf{o}, f.fsys, f.patterns...); err != nil {
				return err
			}
		}
		return nil
	}
	return registry.Bundle{Hooks: []registry.Hook{{Name: "crds", Start: install}}}, nil
}

// engineOf is a server to crd.Install.
type engineOf struct{ objects registry.Objects }

// Engine implements crd.Server.
func (e engineOf) Engine() registry.Objects { return e.objects }

// withCRDs puts what CRDs has returned behind the kind that it needs, and both before the rest.
func withCRDs(definitions []registry.Definition) []registry.Definition {
	var all crds
	var kinds, others []registry.Definition
	for _, d := range definitions {
		if of, ok := d.(crds); ok {
			all = append(all, of...)
		} else if reflect.TypeOf(d) == reflect.TypeOf(crd.Kinds()) {
			kinds = append(kinds, d)
		} else {
			others = append(others, d)
		}
	}
	if len(all) == 0 {
		return definitions
	}
	if len(kinds) == 0 {
		kinds = append(kinds, crd.Kinds(crd.AgeColumn()))
	}
	return slices.Concat(kinds, []registry.Definition{all}, others)
}
