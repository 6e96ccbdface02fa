// Package tree reads and changes decoded JSON objects: map[string]any, []any, string, bool, nil,
// int64 and float64, nothing else.
//
// A tree is shared by everybody who has it, so no function changes its argument. A function that
// returns a changed tree copies the maps on the way to the change and hands on everything else.
//
// It knows nothing of schemas. Package openapi defaults and prunes trees by a schema, internal/json
// makes trees of bytes and compares them, and internal/patch applies patches to them.
package tree
