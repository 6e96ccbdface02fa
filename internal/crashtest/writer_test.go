package crashtest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
)

// How often each experiment is repeated. The defaults are the short form.
var (
	kills   = flag.Int("kills", 3, "processes that are killed")
	torn    = flag.Int("torn", 150, "transactions that are torn")
	damaged = flag.Int("damaged", 150, "files that are damaged")
	cuts    = flag.Int("cuts", 0, "power cuts; needs root")
	full    = flag.Int("full", 0, "how often a disk is filled; needs root")
	syncs   = flag.Int("syncs", 0, "system calls that fail; needs strace")
)

const (
	childVariable = "KINDWRIGHT_CRASH_STORE" // the store that a process of this test writes to
	writers       = 6
	keysOfWriter  = 20
	triesAfter    = 20 // a failure
)

// TestMain makes the test binary the process that is killed, too.
func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		if err := write(path, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func keyOf(writer, n int) string {
	return storage.ObjectKey("boats", "ns", fmt.Sprintf("w%d-%d", writer, n%keysOfWriter))
}

func valueOf(n int) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 100+n*37%3000), uint64(n))
}

func numberIn(value []byte) int { return int(binary.BigEndian.Uint64(value[len(value)-8:])) }

// write opens a store and writes to it for ever. It reports each answer in a line.
func write(path string, to io.Writer) error {
	db, err := bbolt.Open(path)
	if err != nil {
		return err
	}
	page, err := db.List(context.Background(), storage.ListRequest{Limit: writers * keysOfWriter})
	if err != nil {
		return err
	}
	var first int
	for _, r := range page.Records {
		first = max(first, numberIn(r.Value)+1)
	}
	var mu sync.Mutex
	tell := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(to, format+"\n", args...) // one write, so that no line is cut
	}
	tell("open")
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			failed := 0
			for n := first; failed < triesAfter; n++ {
				tell("try %d %d", w, n)
				rev, err := db.Commit(context.Background(), []storage.Op{storage.Put(keyOf(w, n), valueOf(n), storage.Any)})
				switch {
				case err == nil:
					tell("ack %d %d %d", w, n, rev)
				case errors.Is(err, storage.ErrUnknownOutcome):
					failed++
					tell("unknown %d %d", w, n)
				default:
					failed++
					tell("refused %d %d", w, n)
				}
			}
		})
	}
	all.Wait()
	tell("done")
	return nil
}

// model is what the writers were told.
type model struct {
	acked   map[string]int          // by key
	maybe   map[string]map[int]bool // tried after that, without an answer that settles it
	highest storage.Revision
	acks    int
	after   int          // how many acknowledgements of a process come before its end, at least
	failed  map[int]bool // writers that were told of a failure
	late    int          // acknowledgements to them after it
}

func newModel() *model {
	return &model{acked: map[string]int{}, maybe: map[string]map[int]bool{}}
}

// read takes the lines of one process. works is called at the first one, or after some
// acknowledgements, and at the latest when there are no more lines.
func (m *model) read(from io.Reader, works func()) error {
	m.failed = map[int]bool{}
	before, awaited := m.highest, m.acks+m.after
	works = sync.OnceFunc(works)
	defer works()
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var w, n int
		var rev uint64
		word, rest, _ := strings.Cut(lines.Text(), " ")
		_, _ = fmt.Sscan(rest, &w, &n, &rev)
		key := keyOf(w, n)
		switch word {
		case "open":
			if m.after == 0 {
				works()
			}
		case "try":
			if m.maybe[key] == nil {
				m.maybe[key] = map[int]bool{}
			}
			m.maybe[key][n] = true
		case "refused":
			m.failed[w] = true
			delete(m.maybe[key], n)
		case "unknown":
			m.failed[w] = true
		case "ack":
			if m.acks++; m.acks == awaited {
				works()
			}
			if m.failed[w] {
				m.late++
			}
			m.acked[key] = n
			delete(m.maybe, key)
			if storage.Revision(rev) <= before {
				return fmt.Errorf("revision %d again", rev)
			}
			m.highest = max(m.highest, storage.Revision(rev))
		}
	}
	return lines.Err()
}

// verify opens the store and returns what is wrong with it.
func (m *model) verify(path string) (wrong []string) {
	db, err := bbolt.Open(path)
	if err != nil {
		return []string{"it does not open: " + err.Error()}
	}
	defer func() {
		if err := db.Close(); err != nil {
			wrong = append(wrong, err.Error())
		}
	}()
	page, err := db.List(context.Background(), storage.ListRequest{Limit: writers * keysOfWriter * 2})
	if err = errors.Join(err, db.Check(context.Background())); err != nil {
		return []string{err.Error()}
	}
	have := map[string]int{}
	for _, r := range page.Records {
		have[r.Key] = numberIn(r.Value)
	}
	for key, n := range m.acked {
		if got, ok := have[key]; !ok || got != n && !m.maybe[key][got] {
			wrong = append(wrong, fmt.Sprintf("%q: %d was acknowledged, found %d", key, n, got))
		}
	}
	for key, got := range have {
		if _, ok := m.acked[key]; !ok && !m.maybe[key][got] {
			wrong = append(wrong, fmt.Sprintf("%q: %d was refused and is there", key, got))
		}
		m.acked[key] = got // what happened, happened
	}
	clear(m.maybe)
	if page.Revision < m.highest {
		wrong = append(wrong, fmt.Sprintf("at revision %d, %d was issued", page.Revision, m.highest))
	}
	return wrong
}

// run starts a process of command that writes to path, calls end once it has opened the store and
// m.after writes were acknowledged, and reads what it said until it has ended.
func (m *model) run(t *testing.T, command []string, path string, end func(*os.Process)) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), childVariable+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	err = m.read(out, func() { go func() { defer close(ended); end(cmd.Process) }() })
	if wait := cmd.Wait(); err != nil || wait != nil && cmd.ProcessState.Exited() && cmd.ProcessState.ExitCode() > 0 {
		t.Fatalf("the writer failed: %v %v", err, wait)
	}
	<-ended
}

// self is the command of a process that writes.
func self(t *testing.T) []string {
	path, err := os.Executable()
	require.NoError(t, err)
	return []string{path}
}

// killAfter ends a process at some moment of its work.
func killAfter(n int) func(*os.Process) {
	return func(p *os.Process) {
		time.Sleep(time.Duration(n*7919%40) * time.Millisecond)
		_ = p.Kill()
	}
}

// row prints a row of the table.
func row(t *testing.T, experiment, result, control string) {
	t.Helper()
	t.Logf("| %s | %s | %s |", experiment, result, control)
}
