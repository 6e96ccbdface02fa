package patch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/random"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// model applies operations as RFC 6902 specifies, to a deep copy and without regard to cost.
func model(document any, operations []operation) (any, error) {
	root := json.Clone(document)
	for _, op := range operations {
		var err error
		value := op.value
		if op.op == "move" || op.op == "copy" {
			if value, err = modelGet(root, op.from); err != nil {
				return nil, err
			}
		}
		switch op.op {
		case "test":
			var found any
			if found, err = modelGet(root, op.path); err == nil && !json.Equal(found, op.value) {
				err = fmt.Errorf("differs")
			}
		case "remove":
			root, err = modelEdit(root, op.path, removed)
		case "replace":
			root, err = modelEdit(root, op.path, replaced(json.Clone(value)))
		case "move":
			if root, err = modelEdit(root, op.from, removed); err == nil {
				root, err = modelEdit(root, op.path, added(value))
			}
		default:
			root, err = modelEdit(root, op.path, added(json.Clone(value)))
		}
		if err != nil {
			return nil, err
		}
	}
	return root, nil
}

func tokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	parts := strings.Split(pointer[1:], "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return parts
}

func index(token string, length int) (int, error) {
	i, err := strconv.Atoi(token)
	if err != nil || i < 0 || i >= length || strconv.Itoa(i) != token {
		return 0, fmt.Errorf("no index")
	}
	return i, nil
}

func modelGet(root any, pointer string) (any, error) {
	for _, token := range tokens(pointer) {
		switch c := root.(type) {
		case map[string]any:
			next, ok := c[token]
			if !ok {
				return nil, fmt.Errorf("missing")
			}
			root = next
		case []any:
			i, err := index(token, len(c))
			if err != nil {
				return nil, err
			}
			root = c[i]
		default:
			return nil, fmt.Errorf("no container")
		}
	}
	return root, nil
}

// An edit changes one member of a container and returns the container.
type edit func(container any, token string) (any, error)

func modelEdit(root any, pointer string, e edit) (any, error) {
	path := tokens(pointer)
	if len(path) == 0 {
		return e(nil, "")
	}
	return modelEditAt(root, path, e)
}

func modelEditAt(node any, path []string, e edit) (any, error) {
	if len(path) == 1 {
		return e(node, path[0])
	}
	child, err := modelGet(node, "/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(path[0]))
	if err != nil {
		return nil, err
	}
	if child, err = modelEditAt(child, path[1:], e); err != nil {
		return nil, err
	}
	return replaced(child)(node, path[0])
}

func removed(container any, token string) (any, error) {
	switch c := container.(type) {
	case map[string]any:
		if _, ok := c[token]; !ok {
			return nil, fmt.Errorf("missing")
		}
		delete(c, token)
		return c, nil
	case []any:
		i, err := index(token, len(c))
		if err != nil {
			return nil, err
		}
		return slices.Delete(slices.Clone(c), i, i+1), nil
	}
	return nil, fmt.Errorf("no container")
}

func replaced(value any) edit {
	return func(container any, token string) (any, error) {
		switch c := container.(type) {
		case map[string]any:
			if _, ok := c[token]; !ok {
				return nil, fmt.Errorf("missing")
			}
			c[token] = value
			return c, nil
		case []any:
			i, err := index(token, len(c))
			if err != nil {
				return nil, err
			}
			c[i] = value
			return c, nil
		case nil:
			if token == "" {
				return value, nil
			}
		}
		return nil, fmt.Errorf("no container")
	}
}

func added(value any) edit {
	return func(container any, token string) (any, error) {
		switch c := container.(type) {
		case map[string]any:
			c[token] = value
			return c, nil
		case []any:
			if token == "-" {
				return append(slices.Clone(c), value), nil
			}
			i, err := index(token, len(c)+1)
			if err != nil {
				return nil, err
			}
			return slices.Insert(slices.Clone(c), i, value), nil
		case nil:
			if token == "" {
				return value, nil
			}
		}
		return nil, fmt.Errorf("no container")
	}
}

// The names of members and tokens of pointers. The values below do not contain null. In a test
// operation, the library treats an absent member as null, as Kubernetes does, and cannot compare
// lists that contain null. The scripts cover these cases.
var names = []string{"a", "b", "0", "1", "2", "-", "a/b", "~", "é"}

func drawTree(t *random.T, depth int) any {
	kind := random.Range(0, 5).Draw(t, "kind")
	if depth == 0 && kind < 3 {
		kind = 3
	}
	switch kind {
	case 0, 1:
		return drawObject(t, depth)
	case 2:
		out := []any{}
		for range random.Range(0, 3).Draw(t, "items") {
			out = append(out, drawTree(t, depth-1))
		}
		return out
	case 3:
		return random.Range[int64](0, 3).Draw(t, "number")
	case 4:
		return random.SampledFrom([]string{"", "x", "\"<\u2028é"}).Draw(t, "text")
	}
	return random.Bool().Draw(t, "bool")
}

func drawObject(t *random.T, depth int) map[string]any {
	out := map[string]any{}
	for range random.Range(0, 3).Draw(t, "members") {
		out[random.SampledFrom(names).Draw(t, "name")] = drawTree(t, depth-1)
	}
	return out
}

// drawPointer prefers places that exist or nearly exist.
func drawPointer(t *random.T, root any) string {
	pointer := ""
	for range random.Range(1, 4).Draw(t, "tokens") {
		candidates := names
		switch c := root.(type) {
		case map[string]any:
			if len(c) > 0 && random.Range(0, 3).Draw(t, "existing") > 0 {
				candidates = slices.Sorted(maps.Keys(c))
			}
			token := random.SampledFrom(candidates).Draw(t, "token")
			root = c[token]
			pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
		case []any:
			i := random.Range(0, len(c)).Draw(t, "index")
			if i < len(c) {
				root = c[i]
			} else {
				root = nil
			}
			pointer += "/" + strconv.Itoa(i)
		default:
			if pointer != "" {
				return pointer
			}
			return "/a"
		}
	}
	return pointer
}

// Random patches of random objects have the result that the RFC specifies, or fail if it requires
// that.
func TestPATCH_06_MatchesTheModel(t *testing.T) {
	applied := 0
	random.Check(t, func(t *random.T) {
		original := drawObject(t, 3)
		var operations []operation
		var root any = original
		for range random.Range(1, 4).Draw(t, "operations") {
			op := operation{op: random.SampledFrom([]string{"add", "remove", "replace", "move", "copy", "test"}).Draw(t, "op"), path: drawPointer(t, root)}
			switch op.op {
			case "move", "copy":
				op.from = drawPointer(t, root)
			case "test":
				found, _ := modelGet(root, op.path)
				op.value = json.Clone(found)
				if random.Range(0, 3).Draw(t, "differs") == 0 {
					op.value = drawTree(t, 2)
				}
			case "add", "replace":
				op.value = drawTree(t, 2)
			}
			if op.problem() != "" || op.op == "test" && op.value == nil {
				continue
			}
			operations = append(operations, op)
			if next, err := model(original, operations); err == nil {
				root = next
			}
		}
		body, err := json.AppendTree(nil, written(operations))
		require.NoError(t, err)
		before, err := json.AppendTree(nil, original)
		require.NoError(t, err)

		got, gotErr := JSON(original, body, Options{})
		want, wantErr := model(original, operations)
		if wantErr != nil {
			require.Error(t, gotErr, "%s", body)
			require.True(t, status.IsInvalid(gotErr), "%s: %v", body, gotErr)
		} else {
			require.NoError(t, gotErr, "%s on %s", body, before)
			require.True(t, json.Equal(want, got), "%s on %s", body, before)
			applied++
		}
		after, err := json.AppendTree(nil, original)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "the original was changed")
	})
	require.Positive(t, applied)
}

// written returns the operations as a tree.
func written(operations []operation) []any {
	out := make([]any, len(operations))
	for i, op := range operations {
		fields := map[string]any{"op": op.op, "path": op.path}
		switch op.op {
		case "move", "copy":
			fields["from"] = op.from
		case "add", "replace", "test":
			fields["value"] = op.value
		}
		out[i] = fields
	}
	return out
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"a":{"b":[1,2]}}`, `[{"op":"add","path":"/a/b/-","value":{"c":null}},{"op":"move","from":"/a/b/0","path":"/d"},{"op":"copy","from":"/a","path":"/e"}]`)
	f.Add(`{"foo":["bar","baz"],"a~b":1}`, `[{"op":"test","path":"/a~0b","value":1},{"op":"remove","path":"/foo/1"},{"op":"replace","path":"","value":{"x":1}}]`)
	f.Add(`{"l":[null]}`, `[{"op":"test","path":"/l","value":[null]}]`)
	f.Fuzz(func(t *testing.T, original, body string) { patchAnything(t, JSON, original, body) })
}

func FuzzMerge(f *testing.F) {
	f.Add(`{"a":{"b":[1,2]}}`, `{"a":{"b":null,"c":{"d":null}}}`)
	f.Add(`{"":1}`, `{"":{"":null}}`)
	f.Fuzz(func(t *testing.T, original, body string) { patchAnything(t, Merge, original, body) })
}

// patchAnything checks what holds for every patch: the result is a tree or one of a few errors, and
// the original is unchanged.
func patchAnything(t *testing.T, patch func(map[string]any, []byte, Options) (map[string]any, error), original, body string) {
	decoded, err := json.DecodeTree([]byte(original), json.TreeOptions{})
	root, ok := decoded.(map[string]any)
	if err != nil || !ok {
		return
	}
	before := text(t, root)
	got, err := patch(root, []byte(body), Options{})
	require.Equal(t, before, text(t, root))
	if err != nil {
		switch status.ReasonOf(err) {
		case meta.ReasonBadRequest, meta.ReasonInvalid, meta.ReasonRequestEntityTooLarge:
		default:
			t.Fatalf("%v", err)
		}
		_, err := json.Marshal(status.From(err).Status())
		require.NoError(t, err)
		return
	}
	again, err := json.DecodeTree([]byte(text(t, got)), json.TreeOptions{})
	require.NoError(t, err)
	require.True(t, json.Equal(got, again))
}
