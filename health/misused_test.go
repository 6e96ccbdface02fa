package health_test

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/health"
)

func TestWhatIsNilIsADefault(t *testing.T) {
	for name, o := range map[string]health.Option{
		"an option": nil, "a function": health.WithResult(nil), "a logger": health.WithLogger(logr.Logger{}),
	} {
		r := health.New(o)
		answer := get(r, "/healthz?verbose")
		require.Equal(t, 200, answer.Code, name)
		require.Contains(t, answer.Body.String(), "[+]ping ok", name)
	}
	require.Error(t, health.New().Add(health.All, health.Check{Name: "a"}), "a check without a function")
}
