package guard_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/guard"
)

func call(f func() error) (err error) {
	defer guard.Recover(&err, "the hook")
	return f()
}

func TestAPanicIsAnErrorWithItsStack(t *testing.T) {
	err := fmt.Errorf("widgets: %w", call(func() error { panic("boom") }))
	require.EqualError(t, err, "widgets: the hook panicked: boom")
	facts := guard.WithStack(err, "name", "a")
	require.Equal(t, []any{"name", "a", "stack"}, facts[:3])
	require.Contains(t, facts[3], "TestAPanicIsAnErrorWithItsStack")

	plain := errors.New("plain")
	require.Equal(t, plain, call(func() error { return plain }))
	require.Equal(t, []any{"name", "a"}, guard.WithStack(plain, "name", "a"))
	require.Empty(t, guard.WithStack(nil))
	require.NoError(t, call(func() error { return nil }))
}

// hidden is an error whose text does not contain its cause.
type hidden struct{ error }

func (hidden) Error() string   { return "an internal error" }
func (h hidden) Unwrap() error { return h.error }

func TestAPanicCanBeHidden(t *testing.T) {
	err := func() (err error) {
		defer guard.RecoverAs(&err, "the hook", func(err error) hidden { return hidden{err} })
		panic("boom")
	}()
	require.EqualError(t, err, "an internal error")
	require.EqualError(t, errors.Unwrap(err), "the hook panicked: boom")
	require.NotEmpty(t, guard.WithStack(err))
}

func TestIsNil(t *testing.T) {
	type named []int
	for _, v := range []any{nil, (*int)(nil), (func())(nil), map[int]int(nil), (chan int)(nil), named(nil), error(nil)} {
		require.True(t, guard.IsNil(v), "%T", v)
	}
	for _, v := range []any{0, "", new(int), func() {}, map[int]int{}, named{}, struct{}{}, errors.New("")} {
		require.False(t, guard.IsNil(v), "%T", v)
	}
}
