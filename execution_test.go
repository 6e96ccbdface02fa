package kindwright

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
)

func TestCheckExecution_NothingButWhatWasAuthorized(t *testing.T) {
	does := func(verb, group, resource, sub, namespace, name string) engine.Action {
		return engine.Action{Verb: verb, Resource: meta.GroupResource{Group: group, Resource: resource}, Subresource: sub, Namespace: namespace, Name: name}
	}
	may := func(verb, group, resource, sub, namespace, name string) *authz.Attributes {
		return &authz.Attributes{Verb: verb, ResourceRequest: true, Group: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name}
	}
	read := may("get", "g", "things", "", "a", "x")
	require.True(t, covers(read, does("get", "g", "things", "", "a", "x")))
	for _, other := range []engine.Action{
		does("list", "g", "things", "", "a", "x"), does("get", "h", "things", "", "a", "x"), does("get", "g", "others", "", "a", "x"),
		does("get", "g", "things", "status", "a", "x"), does("get", "g", "things", "", "b", "x"), does("get", "g", "things", "", "a", "y"),
	} {
		require.False(t, covers(read, other), "%+v", other)
	}
	require.False(t, covers(&authz.Attributes{Verb: "get", Path: "/x"}, does("get", "", "", "", "", "")))

	require.True(t, covers(may("create", "g", "things", "", "a", ""), does("create", "g", "things", "", "a", "made")))
	require.False(t, covers(may("create", "g", "things", "", "a", ""), does("create", "g", "things", "", "b", "made")))
	require.False(t, covers(may("create", "g", "things", "act", "a", "x"), does("create", "g", "things", "act", "a", "y")))
	require.True(t, covers(may("deletecollection", "g", "things", "", "a", ""), does("deletecollection", "g", "things", "", "a", "one")))
	require.False(t, covers(may("deletecollection", "g", "things", "", "a", ""), does("deletecollection", "g", "things", "", "b", "one")))

	require.True(t, covers(may("list", "g", "things", "", "a", ""), does("list", "g", "things", "", "a", "x")))
	require.True(t, covers(may("watch", "g", "things", "", "a", "x"), does("watch", "g", "things", "", "a", "x")))
	require.False(t, covers(may("watch", "g", "things", "", "a", "x"), does("watch", "g", "things", "", "a", "")))
	require.False(t, covers(may("list", "g", "things", "", "a", ""), does("list", "g", "things", "", "", "")))

	require.True(t, covers(may("get", "", "namespaces", "", "a", "a"), does("get", "", "namespaces", "", "", "a")))
	require.False(t, covers(may("get", "", "namespaces", "", "a", "b"), does("get", "", "namespaces", "", "", "b")))
}
