package kindwright

import (
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	turnBytes   = 16 << 10              // what a connection brings before other goroutines get their turn
	leavingRest = 10 * time.Millisecond // for that long if it is to end soon
)

// fairListener gives its connections turns.
//
// The two goroutines with which net/http reads the frames of an HTTP/2 connection wake each other for each frame. Go
// counts that as one time slice, of 10 ms. Ten clients that send frames as fast as they can would keep each request of
// another client waiting for five of these on two processors, at each of its steps (H1, H2).
type fairListener struct{ net.Listener }

// Accept returns the next connection.
func (l fairListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &fairConn{Conn: c, yield: yield}, nil
}

func yield(leaving bool) {
	if leaving {
		time.Sleep(leavingRest)
	} else {
		runtime.Gosched()
	}
}

// fairConn yields whenever it has brought turnBytes. One goroutine at a time may read.
type fairConn struct {
	net.Conn

	yield   func(leaving bool)
	brought int         // since the last turn
	leaving atomic.Bool // its client was told to send no more
}

// Read reads from the connection.
func (c *fairConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.brought += n; c.brought >= turnBytes {
		c.brought = 0
		c.yield(c.leaving.Load())
	}
	return n, err
}
