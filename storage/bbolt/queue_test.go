package bbolt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// Requests and bytes limit a group, and no request overtakes another.
func TestQueueGroups(t *testing.T) {
	var q queue
	q.init()
	var all []*request
	push := func(bytes int) {
		r := &request{ops: []storage.Op{{Value: make([]byte, bytes)}}, done: make(chan struct{})}
		require.NoError(t, q.push(r))
		all = append(all, r)
	}
	for range groupRequests + 10 {
		push(1)
	}
	push(groupBytes)
	push(1)
	push(1)
	require.True(t, q.withdraw(all[3]))
	group := q.take(nil)
	require.Len(t, group, groupRequests)
	require.Same(t, all[2], group[2])
	require.Same(t, all[4], group[3], "what is withdrawn is passed over")
	require.False(t, q.withdraw(all[4]), "what is taken cannot be withdrawn")
	rest := q.take(group)
	require.Len(t, rest, 10, "the large one ends the group")
	require.Same(t, all[groupRequests+10], rest[9])
	require.Len(t, q.take(rest), 2)
	require.Empty(t, q.take(nil))
}

func TestQueueRefuses(t *testing.T) {
	var q queue
	q.init()
	waiting, gone := &request{done: make(chan struct{})}, &request{done: make(chan struct{})}
	require.NoError(t, q.push(waiting))
	require.NoError(t, q.push(gone))
	require.True(t, q.withdraw(gone))
	q.refuse(errDisk)
	<-waiting.done
	require.ErrorIs(t, waiting.err, errDisk)
	q.refuse(storage.ErrTooLarge)
	require.ErrorIs(t, q.push(&request{}), errDisk, "the first reason stays")
	q.stop()
	require.ErrorIs(t, q.push(&request{}), storage.ErrClosed, "closing is the last word")
	require.True(t, q.isStopped())
}
