package registry

// Tree is an object in its decoded form: map[string]any, []any, string, bool, nil, int64 and float64, nothing else.
// A tree that was handed on is never changed: whoever wants another one makes a copy of what differs.
type Tree = map[string]any
