package unary_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/unary"
)

func Example() {
	client := unary.New("/nowhere/kms.sock", "v2.KeyManagementService", time.Second)
	defer client.Close()
	_, err := client.Call(context.Background(), "Status", nil)
	fmt.Println(err != nil)
	// Output: true
}

func TestNobodyListens(t *testing.T) {
	client := unary.New(filepath.Join(t.TempDir(), "none"), "s", time.Second)
	defer client.Close()
	_, err := client.Call(t.Context(), "M", nil)
	require.ErrorContains(t, err, "no such file")
	require.Equal(t, `code "5": gone`, (&unary.StatusError{Code: "5", Message: "gone"}).Error())
}
