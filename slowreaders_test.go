package kindwright_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/effort"
)

// fill creates gadgets of 100 KB each.
func (r *runner) fill(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		body := fmt.Sprintf(`{"metadata":{"name":"g%d"},"data":{"a":%q}}`, i, strings.Repeat("0123456789", 10_000))
		req, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+r.addr+gadgetPath, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("X-User", "admin")
		req.Header.Set("Content-Type", "application/json")
		res, err := r.client.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 201, res.StatusCode)
	}
}

// heads reads frames of HTTP/2 until n answers have begun.
func heads(t *testing.T, c net.Conn, n int) {
	t.Helper()
	for n > 0 {
		var head [9]byte
		_, err := io.ReadFull(c, head[:])
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[:4])>>8))
		require.NoError(t, err)
		require.NotEqual(t, frameReset, int(head[3]))
		if head[3] == frameHeaders {
			n--
		}
	}
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// measuring is a sink that counts the records of lists, and those of long answers.
type measuring struct{ lists, long, now, most atomic.Int64 }

func (m *measuring) Write(_ context.Context, line []byte) error {
	if bytes.Contains(line, []byte(`"verb":"list"`)) {
		m.lists.Add(1)
	}
	if len(line) < 1<<20 {
		return nil
	}
	defer m.now.Add(-1)
	n := m.now.Add(1)
	for most := m.most.Load(); n > most && !m.most.CompareAndSwap(most, n); most = m.most.Load() {
	}
	m.long.Add(1)
	time.Sleep(time.Millisecond)
	return nil
}

func (m *measuring) Close() error { return nil }

// LIM-15, W7: clients that ask for lists and never open their window hold no lists, in whatever form
// they want them and whatever is recorded of them. The records are written all the same, one or two
// at a time.
func TestLIM_15_ListsThatNobodyReadsAreNotHeld(t *testing.T) {
	recorded := &measuring{}
	r := startRun(t, []kindwright.Option{
		kindwright.Authorize(authz.AlwaysAllow()),
		kindwright.Audit(audit.Policy{Rules: []audit.Rule{{Level: audit.LevelRequestResponse, OmitStages: []audit.Stage{audit.StageRequestReceived}}}}, recorded),
	}, kindwright.Listen("127.0.0.1:0"))
	r.fill(t, 40)
	streams := max(20, effort.Of(40))
	before := inUse()
	for _, c := range []struct {
		form string
		each int64 // bytes of a client
	}{
		{"application/json;as=Table;v=v1;g=meta.k8s.io", 200 << 10}, {"application/json", 600 << 10}, {"application/yaml", 7 << 19},
	} {
		form, each := c.form, c.each
		already, lists := recorded.long.Load(), recorded.lists.Load()
		c := r.speak2(t)
		_, err := c.Write(frame(frameSettings, 0, 0, []byte{0, 4, 0, 0, 0, 0}))
		require.NoError(t, err)
		for i := range streams {
			_, err := c.Write(frame(frameHeaders, endHeaders|endStream, uint32(2*i+1), get2(gadgetPath, "x-user", "admin", "accept", form)))
			require.NoError(t, err)
		}
		begun := streams
		if form == "application/yaml" {
			begun = 8 // the others wait, with nothing in their hands
		}
		heads(t, c, begun)
		// A record is made while its list is still whole: what is held is what stays.
		require.Eventually(t, func() bool {
			held := inUse() - before
			t.Logf("%s: %d KiB each", form, held/int64(streams)>>10)
			return held < each*int64(streams)
		}, 10*time.Second, 20*time.Millisecond, form)
		r.alive(t)
		require.NoError(t, c.Close())
		if form == "application/yaml" {
			continue // the YAML of those who wait is not made
		}
		records := int64(streams) + 1 // of alive, too
		require.Eventually(t, func() bool { return recorded.lists.Load() >= lists+records }, time.Minute, time.Millisecond, "records of broken answers")
		require.Equal(t, lists+records, recorded.lists.Load())
		long := int64(1) // rows are short
		if form == "application/json" {
			long = records
		}
		require.Eventually(t, func() bool { return recorded.long.Load() == already+long }, time.Minute, time.Millisecond)
	}
	require.LessOrEqual(t, recorded.most.Load(), int64(2))
	r.end(t)
}

// W7: a client that reads each piece of a list just in time does not hold its request for hours.
func TestW7_AListEndsForAClientThatReadsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := bubbled(t, &memo{t: t})
		c := secure(t, dial())
		in := bufio.NewReaderSize(c, 16)
		for i := range 20 {
			body := fmt.Sprintf(`{"metadata":{"name":"g%d"},"data":{"a":%q}}`, i, strings.Repeat("0123456789", 10_000))
			_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: h\r\nX-User: admin\r\nX-Groups: system:masters\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", gadgetPath, len(body), body)
			require.NoError(t, err)
			res, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			require.Equal(t, 201, res.StatusCode)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
		}
		_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h\r\nX-User: admin\r\nX-Groups: system:masters\r\n\r\n", gadgetPath)
		require.NoError(t, err)
		began := time.Now()
		for err == nil && time.Since(began) < time.Hour {
			time.Sleep(10 * time.Second)
			_, err = io.CopyN(io.Discard, in, 20<<10) // a list of 2 MB would take 1,000 seconds
		}
		require.Less(t, time.Since(began), 2*time.Minute)
	})
}

// H6: over HTTP/2 net/http takes the first of several lengths. A proxy in front may take another.
func TestH6_OneLengthOverHTTP2(t *testing.T) {
	r := startRun(t, []kindwright.Option{kindwright.Authorize(authz.AlwaysAllow())}, kindwright.Listen("127.0.0.1:0"))
	for _, lengths := range [][]string{{"26"}, {"26", "5"}, {"26", "26"}} {
		c := r.speak2(t)
		fields := []string{"x-user", "admin", "content-type", "application/json"}
		for _, n := range lengths {
			fields = append(fields, "content-length", n)
		}
		head := get2(gadgetPath, fields...)
		head[0] = 0x83 // POST
		body := fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, len(lengths))
		_, err := c.Write(append(frame(frameHeaders, endHeaders, 1, head), frame(frameData, endStream, 1, []byte(body))...))
		require.NoError(t, err)
		heads(t, c, 1)
		require.NoError(t, c.Close())
	}
	for name, code := range map[string]int{"c1": 200, "c2": 404} {
		res, err := r.get(t, gadgetPath+"/"+name)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, code, res.StatusCode, name)
	}
	r.end(t)
}
