package crdoracle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"

	library "github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/cel"
	ourjson "github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Definitions are refused for the same reasons: those that others wrote, and changed ones.
//
// Source: CRD-02 to CRD-07, CRD-12, CRD-15, CRD-17 to CRD-19.
func TestDefinitions(t *testing.T) {
	srv := apitest.Config{Options: []library.Option{library.Kubernetes{ExpressionPrices: true}}}.New(t, crd.Kinds())
	var differences report
	refused := 0
	judge := func(name string, text []byte) {
		theirs, err := refusalOf(text)
		code, ours := create(t, srv, text)
		switch {
		case errors.Is(err, errPanic):
			return
		case err != nil:
			if code != http.StatusBadRequest && code != http.StatusUnprocessableEntity {
				differences.add("decoded", "%d for %s: %v", code, name, err)
			}
			return
		}
		refused += first(len(theirs) > 0)
		theirs = slices.DeleteFunc(theirs, quirk)
		compareCauses(&differences, name, theirs, ours)
		if (len(theirs) > 0) != (code == http.StatusUnprocessableEntity) {
			differences.add("code", "%d for %s: %v", code, name, theirs)
		}
	}
	if *corpus != "" {
		files, err := filepath.Glob(filepath.Join(*corpus, "*.yaml"))
		require.NoError(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			text, err := yaml.YAMLToJSON(data)
			require.NoError(t, err)
			judge(filepath.Base(file), text)
		}
		t.Logf("%d definitions, %d refused", len(files), refused)
	}
	for stream := range uint64(*cases) {
		g := newGenerator(*seed, stream)
		text, err := json.Marshal(g.definition())
		require.NoError(t, err)
		judge(string(text), text)
	}
	t.Logf("%d refused", refused)
	differences.require(t)
}

// Updates of definitions are refused for the same reasons, also if what was stored would be refused.
//
// Source: CRD-03, CRD-14, CRD-23.
func TestDefinitions_Updates(t *testing.T) {
	bundle, err := crd.Kinds().Define(registry.Env{GroupDomain: "k8s.io", Expressions: cel.RuleOptions{Prices: cel.KubernetesPrices()}})
	require.NoError(t, err)
	hooks := bundle.Resources[0].Hooks
	var differences report
	refused := 0
	for stream := range uint64(*cases) {
		g := newGenerator(*seed, stream)
		old := g.definition()
		for {
			if problems, err := refusalOf(encode(old)); err == nil && len(problems) == 0 {
				break
			}
			old = g.definition()
		}
		next := copyOf(old).(map[string]any)
		for range 1 + g.IntN(2) {
			g.mutate(next)
		}
		if g.chance(20) {
			next = g.definition()
		}
		next["metadata"].(map[string]any)["name"] = old["metadata"].(map[string]any)["name"]
		old["status"] = g.status(old)
		next["status"] = copyOf(old["status"])
		before, after := encode(old), encode(next)
		theirs, err := updateRefusal(before, after)
		if err != nil {
			continue
		}
		refused += first(len(theirs) > 0)
		ours, err := update(hooks, before, after)
		require.NoError(t, err)
		compareCauses(&differences, fmt.Sprintf("%s\n       after %s", after, before), theirs, ours)
	}
	t.Logf("%d refused", refused)
	differences.require(t)
}

func first(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

func copyOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = copyOf(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = copyOf(item)
		}
		return out
	}
	return v
}

// decodeDefinition returns a definition as kube-apiserver reads it from a request.
func decodeDefinition(text []byte) (*apiextensions.CustomResourceDefinition, error) {
	var versioned v1.CustomResourceDefinition
	if err := json.Unmarshal(text, &versioned); err != nil {
		return nil, err
	}
	scheme.Default(&versioned)
	out := &apiextensions.CustomResourceDefinition{}
	return out, scheme.Convert(&versioned, out, nil)
}

// prepare does what kube-apiserver does with a definition before it validates it.
func prepare(c *apiextensions.CustomResourceDefinition) {
	for _, v := range c.Spec.Versions {
		if v.Storage {
			if !apiextensions.IsStoredVersion(c, v.Name) {
				c.Status.StoredVersions = append(c.Status.StoredVersions, v.Name)
			}
			return
		}
	}
}

var errPanic = errors.New("kube-apiserver panics")

// recovered makes an error of a panic. Kubernetes has some, such as for selectable fields beside a
// schema without a type.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", errPanic, r)
	}
}

func refusalOf(text []byte) (causes []cause, err error) {
	defer recovered(&err)
	c, err := decodeDefinition(text)
	if err != nil {
		return nil, err
	}
	c.Status = apiextensions.CustomResourceDefinitionStatus{}
	c.Namespace, c.ManagedFields = "", nil
	prepare(c)
	return kubernetesCauses(validation.ValidateCustomResourceDefinition(context.Background(), c)), nil
}

func updateRefusal(before, after []byte) (causes []cause, err error) {
	defer recovered(&err)
	old, err := decodeDefinition(before)
	if err != nil {
		return nil, err
	}
	c, err := decodeDefinition(after)
	if err != nil {
		return nil, err
	}
	c.Status = *old.Status.DeepCopy()
	prepare(c)
	c.ResourceVersion, old.ResourceVersion = "1", "1"
	return kubernetesCauses(validation.ValidateCustomResourceDefinitionUpdate(context.Background(), c, old)), nil
}

// create sends a definition and returns the causes of its refusal.
func create(t *testing.T, srv *apitest.Server, text []byte) (code int, causes []cause) {
	t.Helper()
	answer, err := srv.Client().Post(srv.URL+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", "application/json", bytes.NewReader(text))
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	var s struct {
		Message string
		Details struct {
			Causes []struct{ Reason, Message, Field string }
		}
	}
	require.NoError(t, json.Unmarshal(body, &s))
	for _, c := range s.Details.Causes {
		causes = append(causes, cause{c.Reason, c.Field, c.Message})
	}
	return answer.StatusCode, causes
}

// update walks through the steps of an update that belong to the kind.
func update(hooks registry.Hooks, before, after []byte) ([]cause, error) {
	ctx := context.Background()
	var trees [2]registry.Tree
	for i, text := range [][]byte{before, after} {
		v, err := ourjson.DecodeTree(text, ourjson.TreeOptions{})
		if err != nil {
			return nil, err
		}
		t, _ := v.(map[string]any)
		if t, err = hooks.Default(ctx, t); err != nil {
			return nil, err
		}
		trees[i] = t
	}
	t, err := hooks.Complete(ctx, trees[1], trees[0])
	if err != nil {
		return nil, err
	}
	f := new(status.Fields)
	hooks.ValidateUpdate(ctx, t, trees[0], f)
	return ourCauses(f.Errors()), nil
}

// compareCauses compares the problems of a definition.
func compareCauses(differences *report, name string, theirs, ours []cause) {
	theirs, ours = normal(theirs), normal(ours)
	for _, c := range theirs {
		if !slices.Contains(ours, c) {
			differences.add("lacks "+c.typ+" "+shape(c.field)+" "+shape(c.message), "%s, has %s\n       for %s", c, ours, name)
		}
	}
	for _, c := range ours {
		if !slices.Contains(theirs, c) {
			differences.add("adds "+c.typ+" "+shape(c.field)+" "+shape(c.message), "%s, they have %s\n       for %s", c, theirs, name)
		}
	}
}

// normal returns problems without the values of structures, which Kubernetes writes as its internal
// types have them, and without the sentences of package meta, which are our own. Of problems of a
// default only the place of the default remains, see compareDocuments.
func normal(causes []cause) []cause {
	out := make([]cause, 0, len(causes))
	for _, c := range causes {
		if value := structure.FindStringIndex(c.message); value != nil {
			c.message = c.message[value[1]:]
		}
		if quirk(c) {
			continue
		}
		if before, _, ok := strings.Cut(c.field, ".default"); ok {
			c = cause{field: before + ".default"}
		}
		if c = named(c); strings.HasPrefix(c.field, "metadata.") && strings.Contains(c.message, "name or generateName is required") {
			return []cause{c} // found before all others
		}
		// Of rules that are equally expensive, Kubernetes names any.
		if !slices.Contains(out, c) && !strings.HasPrefix(c.message, "Forbidden: contributed to ") {
			out = append(out, c)
		}
	}
	return out
}

// quirk reports whether a problem is one that only Kubernetes has. It refuses integers as defaults of
// integers or strings with a format, which it accepts in objects. It says a second time what it cannot
// read of a schema with selectable fields. It validates generateName although there is a name.
func quirk(c cause) bool {
	return strings.Contains(c.field, ".default") && strings.HasSuffix(c.message, `: "int64"`) ||
		strings.HasSuffix(c.field, "schema.openAPIV3Schema") && strings.Contains(c.message, ": OpenAPIV3Schema '") ||
		c.field == "metadata.generateName"
}

// structure matches a value that is a list or an object, which we cut off at some length.
var structure = regexp.MustCompile(`^Invalid value: [{\[](?s:.*)([}\]]|…): `)

// definition returns a definition that is acceptable but for some changes.
func (g generator) definition() map[string]any {
	var out map[string]any
	if err := yaml.Unmarshal([]byte(pick(g, definitionTexts...)), &out); err != nil {
		panic(err)
	}
	for range g.IntN(4) {
		g.mutate(out)
	}
	return out
}

// status returns a status that a definition may have.
func (g generator) status(of map[string]any) map[string]any {
	stored := []any{}
	spec, _ := of["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if name, ok := version["name"].(string); ok && (version["storage"] == true || g.chance(20)) {
			stored = append(stored, name)
		}
	}
	if g.chance(5) {
		stored = append(stored, "v7")
	}
	out := map[string]any{"storedVersions": stored}
	if g.chance(60) {
		out["conditions"] = []any{map[string]any{"type": "Established", "status": pick(g, "True", "True", "False")}}
	}
	return out
}

// mutate changes a definition somewhere.
func (g generator) mutate(definition map[string]any) {
	m := pick(g, mutations...)
	path := strings.Split(m.path, "/")
	for i, name := range path {
		if name == "#" {
			path[i] = strconv.Itoa(g.IntN(2))
		}
	}
	var value any
	if m.values != nil {
		value = copyOf(pick(g, m.values...))
	} else {
		value = g.schema(2)
	}
	place(definition, path, value)
}

// missing stands for a field that is taken away.
type missing struct{}

// place sets a value in a tree, as far as the tree has the path.
func place(tree any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	switch tree := tree.(type) {
	case []any:
		if i, err := strconv.Atoi(path[0]); err == nil && i < len(tree) {
			tree[i] = place(tree[i], path[1:], value)
		}
	case map[string]any:
		if _, gone := value.(missing); gone && len(path) == 1 {
			delete(tree, path[0])
			break
		}
		if _, ok := tree[path[0]]; !ok && len(path) > 1 {
			if tree[path[0]] = map[string]any{}; path[1] == "0" || path[1] == "1" {
				break
			}
		}
		tree[path[0]] = place(tree[path[0]], path[1:], value)
	}
	return tree
}
