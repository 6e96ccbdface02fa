package memo_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/memo"
)

func TestValuesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memo.New[int, string](10)
		c.Put(1, "a", time.Second)
		c.Put(2, "b", 2*time.Second)
		c.Put(3, "c", 0)
		c.Put(2, "d", 3*time.Second)
		_, ok := c.Get(3)
		require.False(t, ok)
		time.Sleep(time.Second)
		_, ok = c.Get(1)
		require.False(t, ok)
		time.Sleep(time.Second)
		v, ok := c.Get(2)
		require.True(t, ok)
		require.Equal(t, "d", v)
	})
}
