package crd

import (
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/request"
)

// S22: each update of an object compared its finalizers in pairs, however small the change was.
func TestS22_FinalizersAreComparedOnce(t *testing.T) {
	var before []any
	for i := range effort.Of(400_000) {
		before = append(before, strconv.Itoa(i)) // each would be warned of, were it new
	}
	now := slices.Clone(before)
	slices.Reverse(now)
	x := new(request.Exchange).Begin(httptest.NewRequestWithContext(t.Context(), "PUT", "/", nil), "id", time.Now())
	warnOfFinalizers(x, now, before)
	require.Empty(t, x.Warnings.Texts())
	warnOfFinalizers(x, append(now, "new"), before)
	require.Len(t, x.Warnings.Texts(), 1)
}
