package apitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// RoundTrip tests that the conversions between the versions of a kind lose nothing. It converts
// random objects, made by the kind's schemas, from the stored version to every other one and back,
// and from the others to the stored one and back. A failure names the version, the path and the
// seed that reproduces it. Default seeds are 1 to 200; a fuzz target passes its own:
//
//	func FuzzWidgets(f *testing.F) {
//		f.Add(uint64(1))
//		f.Fuzz(func(t *testing.T, seed uint64) { apitest.RoundTrip(t, widgets(), seed) })
//	}
//
// Empty values (0, "", false, empty lists and maps) count as absent. Objects that a conversion
// rejects with a status error are skipped, unless it rejects all of them. Source: VER-15.
func RoundTrip(t testing.TB, d registry.Definition, seeds ...uint64) {
	t.Helper()
	RoundTrips{Seeds: seeds}.Check(t, d)
}

// RoundTrips is RoundTrip with options, for kinds with a version that has fewer fields than
// another.
type RoundTrips struct {
	Seeds []uint64 // seeds of the random objects; default 1 to 200

	// Lost lists, by apiVersion, the paths of the stored form that a version does not have, such as
	// "spec.parts.tag". Writing the object in that version must keep the values there.
	Lost map[string][]string

	// Make adjusts a random object of a version before its conversion, if the kind has rules beyond
	// its schema. Optional.
	Make func(apiVersion string, object map[string]any)
}

// defaultSeeds is the number of random objects for each direction of each version.
const defaultSeeds = 200

// Check runs the test.
func (c RoundTrips) Check(t testing.TB, d registry.Definition) {
	t.Helper()
	if guard.IsNil(d) {
		t.Fatalf("apitest: RoundTrip: the definition is nil")
		return
	}
	bundle, err := d.Define(registry.Env{GroupDomain: "k8s.io"})
	if err != nil {
		t.Fatalf("apitest: %v", err)
		return
	}
	seeds := c.Seeds
	if len(seeds) == 0 {
		for seed := range uint64(defaultSeeds) {
			seeds = append(seeds, seed+1)
		}
	}
	tried := false
	for _, form := range bundle.Resources {
		if form.Stored == nil {
			continue
		}
		tried = true
		stored := form.Stored.Resource
		c.oneWay(t, seeds, stored, form, c.Lost[form.APIVersion()])
		c.oneWay(t, seeds, form, stored, nil)
	}
	if !tried {
		t.Fatalf("apitest: the kind has one version, so that there is nothing to convert")
	}
}

// oneWay checks that objects of one form survive the conversion to another and back.
func (c RoundTrips) oneWay(t testing.TB, seeds []uint64, from, by *registry.Resource, lost []string) {
	t.Helper()
	refused := 0
	for _, seed := range seeds {
		g := &generator{rand: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // random objects, again for the same seed
		object := g.object(from)
		if c.Make != nil {
			c.Make(from.APIVersion(), object)
			object = settled(from, object)
		}
		back, err := there(from, by, object)
		var e *status.Error
		switch {
		case errors.As(err, &e) && e.Unwrap() == nil:
			refused++
			if refused == len(seeds) && refused > 1 {
				t.Errorf("%s: every random object was rejected; last error: %v", from.APIVersion(), err)
			}
			continue
		case err != nil:
			t.Errorf("%s to %s and back, seed %d: %v\n%s", from.APIVersion(), by.APIVersion(), seed, cause(err), text(object))
			return
		}
		if what := difference(object, back, "", lost); what != "" {
			t.Errorf("%s to %s and back, seed %d: %s\nobject: %s\nback:   %s", from.APIVersion(), by.APIVersion(),
				seed, what, text(object), text(back))
			return
		}
	}
}

func there(from, by *registry.Resource, object map[string]any) (map[string]any, error) {
	ctx := context.Background()
	convert := func(object map[string]any, from, to *registry.Resource) (map[string]any, error) {
		if from.Stored == nil {
			return engine.FromStored(ctx, to, object)
		}
		object, err := engine.ToStored(ctx, from, object)
		if err != nil {
			return nil, err
		}
		return to.Schema.Default(object), nil
	}
	other, err := convert(object, from, by)
	if err != nil {
		return nil, err
	}
	back, err := convert(other, by, from)
	if err != nil {
		return nil, err
	}
	return from.Schema.Default(back), nil
}

// cause returns what a server would log.
func cause(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

func text(object map[string]any) string {
	out, err := json.AppendTree(nil, object)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// settled returns an object as it would be stored.
func settled(r *registry.Resource, object map[string]any) map[string]any {
	object, _ = r.Schema.Prune(object)
	object = r.Schema.Default(object)
	canonical, _ := r.Schema.Canonical(object)
	return canonical
}

// difference describes the first value that has changed, or returns "".
func difference(sent, back any, path string, lost []string) string {
	if slices.Contains(lost, path) {
		return ""
	}
	switch {
	case json.IsZero(sent) && json.IsZero(back):
		return ""
	case json.IsZero(back):
		return fmt.Sprintf("%s is lost", path)
	case json.IsZero(sent):
		return fmt.Sprintf("%s appears", path)
	}
	switch s := sent.(type) {
	case map[string]any:
		if b, ok := back.(map[string]any); ok {
			names := slices.Collect(maps.Keys(s))
			names = slices.AppendSeq(names, maps.Keys(b))
			slices.Sort(names)
			for _, name := range slices.Compact(names) {
				if what := difference(s[name], b[name], strings.TrimPrefix(path+"."+name, "."), lost); what != "" {
					return what
				}
			}
			return ""
		}
	case []any:
		b, ok := back.([]any)
		if ok && len(s) == len(b) {
			for i := range s {
				if what := difference(s[i], b[i], path, lost); what != "" {
					return fmt.Sprintf("%s (in item %d)", what, i)
				}
			}
			return ""
		}
		if ok {
			return fmt.Sprintf("%s has %d items instead of %d", path, len(b), len(s))
		}
	}
	if json.Equal(sent, back) {
		return ""
	}
	return fmt.Sprintf("%s is %v instead of %v", path, back, sent)
}
