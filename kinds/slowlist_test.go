package kinds_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// unread is a client that takes nothing until ctx ends. begun is called at the first byte.
type unread struct {
	*httptest.ResponseRecorder
	ctx   context.Context
	begun func()
}

func (u *unread) Write([]byte) (int, error) {
	u.begun()
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

// TestLIM_15_W8_ProtobufListsOfLongObjectsThatNobodyReads asks for the same list many times at
// once, and reads none. Each answer used to keep the room in which an object is encoded, as JSON
// and as protobuf.
func TestLIM_15_W8_ProtobufListsOfLongObjectsThatNobodyReads(t *testing.T) {
	h := serve(t, memory.New(), nil, kindwright.Serve(kinds.ConfigMaps()))
	const objects, clients, length = 8, 64, 900_000
	for i := range objects {
		data := fmt.Sprintf(`"a":%q`, strings.Repeat("x", length))
		h.must(201, "POST", configMapsPath, configMap(fmt.Sprintf("c%d", i), data))
	}
	before := heap()
	start := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var begun, ended sync.WaitGroup
	begun.Add(clients)
	for range clients {
		ended.Go(func() {
			r := newRequest(ctx, "GET", configMapsPath, "")
			r.Header = r.Header.Clone()
			r.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
			<-start
			defer func() { _ = recover() }() // net/http ends a broken answer so
			h.ServeHTTP(&unread{httptest.NewRecorder(), ctx, sync.OnceFunc(begun.Done)}, r)
		})
	}
	close(start)
	begun.Wait()
	each := (heap() - before) / clients
	cancel()
	ended.Wait()
	t.Logf("%d KiB each", each>>10)
	// Those who encode at first do so before a result is kept.
	first := int64(runtime.GOMAXPROCS(0)*length) / clients
	require.Less(t, each, 250<<10+first, "the room of one encoding is some megabytes")
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far below
}
