package webhook_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/webhook"
	"github.com/kindwright/kindwright/status"
)

// Comparing each with all before it would take the square: many minutes here, and seconds for a body of 600 KiB.
func TestS22_WHK_09_ManyVersionsAreComparedOnce(t *testing.T) {
	versions := []string{"v1"}
	for i := range effort.Of(2_000_000) {
		versions = append(versions, "v1beta"+strconv.Itoa(i+1))
	}
	versions = append(versions, "v1")
	f := &status.Fields{}
	webhook.ValidateVersions(versions, true, "", f.At("versions"))
	require.Len(t, f.Errors(), 1)
	require.Contains(t, f.Errors()[0].String(), "duplicate version")
}
