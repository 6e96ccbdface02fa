package etcd_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage/etcd"
)

// EGRESS-13: members are reached by the dialer of the program, and in no other way.
func TestEGRESS_13_MembersAreReachedByTheDialer(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]bool{}
	_, err := etcd.Open(t.Context(), etcd.Config{
		Endpoints: []string{"http://etcd-1.internal:2379"}, Timeout: time.Second,
		Dial: func(_ context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[network+" "+address] = true
			return nil, errors.New("the tunnel is dead")
		},
	})
	require.Error(t, err)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[string]bool{"tcp etcd-1.internal:2379": true}, asked)
}
