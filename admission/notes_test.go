package admission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
)

func TestNotesBelongToPlugins(t *testing.T) {
	var n admission.Notes
	require.Nil(t, n.Get("a"))
	n.Set("a", 1)
	n.Set("b", 2)
	n.Set("a", 3)
	require.Equal(t, []any{3, 2}, []any{n.Get("a"), n.Get("b")})
	var none *admission.Notes
	none.Set("a", 1)
	require.Nil(t, none.Get("a"))
}
