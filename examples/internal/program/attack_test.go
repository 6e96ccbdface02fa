package program

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// attackVariable is the environment variable that makes the attacks long: how many connections the
// slow ones have. See `make attack`.
const attackVariable = "KINDWRIGHT_ATTACK"

// The sizes of an attack. The short one only shows that the server survives: what it cuts off after
// which time is shown in virtual time, by the tests of rows H1 to H5 of the library.
const (
	shortAttack    = 20
	floods         = 10 // connections of an attack that sends as much as it can
	mostReaped     = 35 * time.Second
	mostResident   = 1 << 30 // bytes of the server while 10,000 connections are open
	floodFor       = 10 * time.Second
	baselineFor    = 5 * time.Second
	uploadBytes    = 3 << 20
	settled        = 64 // descriptors that the server may have beyond those before, when an attack is over
	betweenRequest = 5 * time.Millisecond
)

// target is a server under attack, and its good client.
type target struct {
	t       *testing.T
	p       *process
	good    *client
	address string
	n       int // connections of slow attacks
	long    bool

	baseline time.Duration // the good client's p99 before
}

func newTarget(t *testing.T) *target {
	t.Helper()
	data := t.TempDir()
	file := writeTo(t, t.TempDir(), "tokens.csv", "slow-token,slow,u1,\"tenants\"\n")
	x := &target{t: t, n: int(fromEnvironment(t, attackVariable, shortAttack))} //nolint:gosec // a number of connections
	_, x.long = os.LookupEnv(attackVariable)
	x.p = launch(t, "--listen=127.0.0.1:0", "--data-dir="+data, "--token-auth-file="+file, "--authorization-mode=AlwaysAllow")
	x.p.serving(t)
	x.good = admin(t, filepath.Join(data, "kubeconfig"))
	at, err := url.Parse(x.good.url)
	require.NoError(t, err)
	x.address = at.Host
	a, err := x.good.send(t.Context(), http.MethodPost, widgetsPath, []byte(widget("good")))
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, a.code)
	return x
}

// measure has the good client read until done is closed, at least once, and returns its p99.
func (x *target) measure(done <-chan struct{}) (p99 time.Duration, reads int) {
	x.t.Helper()
	var all []time.Duration
	for {
		begun := time.Now()
		a, err := x.good.send(x.t.Context(), http.MethodGet, widgetsPath+"/good", nil)
		all = append(all, time.Since(begun))
		require.NoError(x.t, err)
		require.Equal(x.t, http.StatusOK, a.code)
		select {
		case <-done:
			slices.Sort(all)
			return all[len(all)*99/100], len(all)
		case <-time.After(betweenRequest):
		}
	}
}

// after returns a channel that is closed after a time, or at once in the short form.
func (x *target) after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	if !x.long {
		close(done)
		return done
	}
	time.AfterFunc(d, func() { close(done) })
	return done
}

// resident returns the memory of the server in bytes, 0 where the system does not tell it so.
func (x *target) resident() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "VmRSS:" {
			n, err := strconv.Atoi(words[1])
			require.NoError(x.t, err)
			return n << 10
		}
	}
	return 0
}

// descriptors returns how many files and connections the server has open.
func (x *target) descriptors() int {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", x.p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	return len(all)
}

// dial opens a TLS connection, nil if the server does not take it.
func (x *target) dial(protocol string) net.Conn {
	c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}}).DialContext(x.t.Context(), "tcp", x.address) //nolint:gosec // an attacker does not care
	if err != nil {
		return nil
	}
	return c
}

// slow opens the connections of a slow attack, and returns the longest time until the server has
// closed one. The short form closes them itself.
func (x *target) slow(protocol, head string, plain bool) time.Duration {
	var longest atomic.Int64
	var all sync.WaitGroup
	room := make(chan struct{}, 64) // handshakes at once, or they wait for each other
	for range x.n {
		all.Go(func() {
			room <- struct{}{}
			var c net.Conn
			if plain {
				c, _ = (&net.Dialer{}).DialContext(x.t.Context(), "tcp", x.address)
			} else {
				c = x.dial(protocol)
			}
			<-room
			if c == nil {
				return
			}
			defer c.Close() //nolint:errcheck // it is an attacker's
			begun := time.Now()
			if _, err := io.WriteString(c, head); err != nil || !x.long {
				return
			}
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				_, _ = io.Copy(io.Discard, c)
			}()
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-closed:
					took := int64(time.Since(begun))
					for old := longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
					}
					return
				case <-tick.C:
					_, _ = c.Write([]byte("x")) // the reader notices what fails
				}
			}
		})
	}
	all.Wait()
	return time.Duration(longest.Load())
}

// flood has some connections send as much as they can, and opens those again that the server closes.
func (x *target) flood(first []byte, next func(i int) []byte) time.Duration {
	var all sync.WaitGroup
	done := x.after(floodFor)
	for range floods {
		all.Go(func() {
			for over := false; !over; {
				if c := x.dial("h2"); c != nil {
					x.floodOne(c, done, first, next)
				}
				select {
				case <-done:
					over = true
				default:
				}
			}
		})
	}
	all.Wait()
	return 0
}

func (x *target) floodOne(c net.Conn, done <-chan struct{}, first []byte, next func(i int) []byte) {
	defer c.Close() //nolint:errcheck // it is an attacker's
	go func() { _, _ = io.Copy(io.Discard, c) }()
	if _, err := c.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), first...)); err != nil {
		return
	}
	var batch []byte
	for i := range 1 << 20 {
		if batch = append(batch, next(i)...); len(batch) < 32<<10 {
			continue
		}
		if _, err := c.Write(batch); err != nil {
			return
		}
		batch = batch[:0]
		select {
		case <-done:
			return
		default:
		}
	}
}

// frame2 is a frame of HTTP/2.
func frame2(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	return append(binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, stream), payload...)
}

// head2 are the headers of a GET of /livez, as HPACK literals.
func head2() []byte { return []byte("\x82\x87\x04\x06/livez\x01\x01h") }

// uploads sends large bodies with a token that nobody has.
func (x *target) uploads() time.Duration {
	var all sync.WaitGroup
	body := make([]byte, uploadBytes)
	count := min(x.n, 1000)
	for range count {
		all.Go(func() {
			c := x.dial("http/1.1")
			if c == nil {
				return
			}
			defer c.Close() //nolint:errcheck // it is an attacker's
			_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer wrong\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", widgetsPath, uploadBytes)
			_, _ = c.Write(body) // the server may close it early
			_, _ = io.Copy(io.Discard, c)
		})
	}
	begun := time.Now()
	all.Wait()
	return time.Since(begun)
}

// attack is one of the attacks. It returns how long the server took to close the last connection.
type attack struct {
	name string
	run  func(x *target) time.Duration
}

func attacks() []attack {
	post := "POST " + widgetsPath + " HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"
	headers := head2()
	settings := frame2(4, 0, 0, nil)
	return []attack{
		{"slow handshakes", func(x *target) time.Duration { return x.slow("", "\x16\x03\x01\x02", true) }},
		{"slow heads", func(x *target) time.Duration { return x.slow("http/1.1", "GET / HTTP/1.1\r\nX-Slow: ", false) }},
		{"slow bodies, anonymous", func(x *target) time.Duration { return x.slow("http/1.1", post+"\r\n{", false) }},
		{"slow bodies, a user", func(x *target) time.Duration {
			return x.slow("http/1.1", post+"Authorization: Bearer slow-token\r\n\r\n{", false)
		}},
		{"rapid reset", func(x *target) time.Duration {
			return x.flood(settings, func(i int) []byte {
				stream := uint32(2*i + 1) //nolint:gosec // small
				return append(frame2(1, 5, stream, headers), frame2(3, 0, stream, []byte{0, 0, 0, 8})...)
			})
		}},
		{"CONTINUATION flood", func(x *target) time.Duration {
			return x.flood(append(settings, frame2(1, 1, 1, headers)...), func(int) []byte { return frame2(9, 0, 1, []byte{0, 1, 'x', 1, 'y'}) })
		}},
		{"unauthenticated uploads", (*target).uploads},
	}
}

// attackerVariable has a test only run one attack: its value is the address of the server and the name of the attack.
const attackerVariable = "KINDWRIGHT_ATTACKER"

// attackOnly is what the process of an attacker does. It prints how long the connections lasted.
func attackOnly(t *testing.T, what string) {
	t.Helper()
	address, name, _ := strings.Cut(what, " ")
	x := &target{t: t, address: address, n: int(fromEnvironment(t, attackVariable, shortAttack)), long: true} //nolint:gosec // a number of connections
	for _, a := range attacks() {
		if a.name == name {
			_, _ = fmt.Fprintf(os.Stdout, "\nreaped %d\n", a.run(x))
			return
		}
	}
	t.Fatalf("there is no attack %q", name)
}

// apart runs an attack in a process of its own, which yields to every other: attackers have machines of
// their own, and take no processor from the server and from its good client.
func (x *target) apart(name string) (reaped time.Duration, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	c := exec.CommandContext(x.t.Context(), "nice", "-n", "19", program, "-test.run", "^"+x.t.Name()+"$", "-test.v", "-test.timeout", "10m") //nolint:gosec // ourselves
	c.Env = append(os.Environ(), attackerVariable+"="+x.address+" "+name)
	out, err := c.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", name, err, out)
	}
	for line := range strings.Lines(string(out)) {
		var took int64
		if _, err := fmt.Sscanf(line, "reaped %d", &took); err == nil {
			return time.Duration(took), nil
		}
	}
	return 0, fmt.Errorf("%s: the attacker did not say how long it took: %s", name, out)
}

// undergo runs an attack while the good client reads, and returns what there is to say of it: how long the last connection
// lasted, the good client's p99, how often it read, and the server's largest memory.
func (x *target) undergo(a attack) (reaped, p99 time.Duration, reads, most int) {
	done, err := make(chan struct{}), error(nil)
	go func() {
		defer close(done)
		if x.long {
			reaped, err = x.apart(a.name)
		} else {
			a.run(x)
		}
	}()
	peak := make(chan struct{})
	go func() {
		defer close(peak)
		for over := false; !over; {
			most = max(most, x.resident())
			select {
			case <-done:
				over = true
			case <-time.After(betweenRequest * 20):
			}
		}
	}()
	p99, reads = x.measure(done)
	<-peak
	require.NoError(x.t, err)
	return reaped, p99, reads, most
}

// TestSEC_H1_H2_H4_H5_S1_AttacksOnTheRunningServer attacks the program. A good client is answered
// all the time. In the long form, everything is reaped in time and memory is bounded.
func TestSEC_H1_H2_H4_H5_S1_AttacksOnTheRunningServer(t *testing.T) {
	if what, ok := os.LookupEnv(attackerVariable); ok {
		attackOnly(t, what)
		return
	}
	x := newTarget(t)
	x.baseline, _ = x.measure(x.after(baselineFor))
	var table bytes.Buffer
	_, _ = fmt.Fprintf(&table, "\n%d connections, %d CPUs; good client before: p99 %s\n%-28s %10s %10s %8s %10s %10s\n", x.n, runtime.NumCPU(), x.baseline.Round(time.Microsecond),
		"attack", "reaped in", "p99", "times", "gets", "resident")
	for _, a := range attacks() {
		before := x.descriptors()
		reaped, p99, reads, most := x.undergo(a)
		_, _ = fmt.Fprintf(&table, "%-28s %10s %10s %8.1f %10d %7d MiB\n", a.name, reaped.Round(time.Millisecond), p99.Round(time.Microsecond), float64(p99)/float64(x.baseline), reads, most>>20)
		if !x.long {
			continue
		}
		if strings.HasPrefix(a.name, "slow") {
			require.LessOrEqual(t, reaped, mostReaped, a.name)
		}
		require.LessOrEqual(t, most, mostResident, a.name)
		require.Eventually(t, func() bool { return x.descriptors() <= before+settled }, mostReaped, 100*time.Millisecond, "%s: connections are left", a.name)
	}
	if x.long {
		t.Log(table.String())
	}
	_, reads := x.measure(x.after(0))
	require.NotZero(t, reads)
	require.NotContains(t, x.p.errOut.String(), "panic")
	x.good.http.CloseIdleConnections()
	require.Zero(t, x.p.interrupt(t))
}
