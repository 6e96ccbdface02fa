package log

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/meta"
)

// record is a record of about n bytes.
func record(id string, n int) []byte {
	e := audit.Event{
		APIVersion: "audit.k8s.io/v1", Kind: "Event", Level: audit.LevelMetadata, AuditID: id, Stage: audit.StageResponseComplete,
		RequestURI: "/" + strings.Repeat("x", n), Verb: "get", User: audit.UserInfo{Username: "u\n", Groups: []string{"a", "b"}},
		SourceIPs: []string{"::1"}, ResponseStatus: &meta.Status{Code: 200},
		RequestReceivedTimestamp: meta.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 4, 0, time.UTC)),
		StageTimestamp:           meta.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
	return e.AppendJSON(nil)
}

// linesOf returns the records of a file. Each line must be one.
func linesOf(t *testing.T, text []byte) (ids []string) {
	t.Helper()
	for line := range bytes.Lines(text) {
		require.True(t, bytes.HasSuffix(line, []byte("\n")))
		e, err := audit.ParseEvent(line)
		require.NoError(t, err, "%s", line)
		ids = append(ids, e.AuditID)
	}
	return ids
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}

func TestAUD_17_18_ManyWritersShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "audit.json")
	l, err := Open(path, Options{})
	require.NoError(t, err)
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			for i := range 100 {
				if err := l.Write(t.Context(), record(fmt.Sprintf("%d-%d", w, i), 10*i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	require.NoError(t, l.Close())
	ids := linesOf(t, read(t, path))
	require.Len(t, ids, 1600)
	latest := map[string]int{}
	for _, id := range ids {
		var w, i int
		_, err := fmt.Sscanf(id, "%d-%d", &w, &i)
		require.NoError(t, err)
		who := fmt.Sprint(w)
		require.Equal(t, latest[who], i, "each writer's records are in its order")
		latest[who]++
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestAUD_34_FilesAreReplaced(t *testing.T) {
	for _, pack := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "audit.json")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "audit-2001-01-01T00-00-00.000.json"), nil, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "audit-other.json"), nil, 0o600))
		l, err := Open(path, Options{MaxSize: 1, MaxBackups: 2, MaxAge: 7, Compress: pack})
		require.NoError(t, err)
		for i := range 50 {
			require.NoError(t, l.Write(t.Context(), record(fmt.Sprint(i), 100<<10)))
		}
		require.NoError(t, l.Close())
		names, err := filepath.Glob(filepath.Join(dir, "audit-2*"))
		require.NoError(t, err)
		require.Len(t, names, 2, "two are kept, and none from 2001")
		require.FileExists(t, filepath.Join(dir, "audit-other.json"))
		total := 0
		for _, name := range append(names, path) {
			text := read(t, name)
			if name != path {
				require.Equal(t, pack, strings.HasSuffix(name, ".json.gz"))
			}
			if strings.HasSuffix(name, ".gz") {
				z, err := gzip.NewReader(bytes.NewReader(text))
				require.NoError(t, err)
				text, err = io.ReadAll(z)
				require.NoError(t, err)
			}
			require.LessOrEqual(t, len(text), 1<<20)
			total += len(linesOf(t, text))
			info, err := os.Stat(name)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		}
		require.Greater(t, total, 20)
	}
}

// The lines are those of kube-apiserver, which programs take apart: they begin with the time at which the
// request came, and a client that says nothing about itself has an empty name.
func TestAUD_19_TheLegacyFormatHasOneLinePerRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := Open(path, Options{Format: Legacy})
	require.NoError(t, err)
	e, err := audit.ParseEvent(record("1", 1))
	require.NoError(t, err)
	require.NotEqual(t, e.StageTimestamp, e.RequestReceivedTimestamp)
	require.NoError(t, l.Write(t.Context(), e.AppendJSON(nil)))
	e.RequestReceivedTimestamp = meta.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 4, 120_300_000, time.UTC))
	e.UserAgent, e.ObjectRef = "kubectl", &audit.ObjectReference{Namespace: "team"}
	e.ImpersonatedUser = &audit.UserInfo{Username: "alice", Groups: []string{"g"}}
	e.User, e.SourceIPs, e.ResponseStatus = audit.UserInfo{Groups: []string{"nobody's"}}, nil, nil
	require.NoError(t, l.Write(t.Context(), e.AppendJSON(nil)))
	require.NoError(t, l.Close())
	require.Equal(t, `2026-01-02T03:04:04Z AUDIT: id="1" stage="ResponseComplete" ip="::1" method="get" user="u\n" groups="\"a\",\"b\"" `+
		`as="<self>" asgroups="<lookup>" user-agent="" namespace="<none>" uri="/x" response="200"`+"\n"+
		`2026-01-02T03:04:04.1203Z AUDIT: id="1" stage="ResponseComplete" ip="<unknown>" method="get" user="<none>" groups="<none>" `+
		`as="alice" asgroups="\"g\"" user-agent="kubectl" namespace="team" uri="/x" response="<deferred>"`+"\n", string(read(t, path)))
}

func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]Options{
		`invalid audit log format xml, allowed formats are "legacy,json"`:                           {Format: "xml"},
		`invalid audit log mode fast, allowed modes are "batch,blocking,blocking-strict"`:           {Mode: "fast"},
		`invalid audit batch log buffer size -1, must be a positive number`:                         {Mode: audit.ModeBatch, Batch: audit.Batch{BufferSize: -1}},
		`invalid audit truncate log max batch size 1, must be greater than max event size (102400)`: {Truncate: audit.Truncation{Enabled: true, MaxBatchBytes: 1}},
		`invalid audit truncate log max event size -1, must be a positive number`:                   {Truncate: audit.Truncation{Enabled: true, MaxEventBytes: -1}},
		`--audit-log-maxage -1 can't be a negative number`:                                          {MaxAge: -1},
	} {
		_, err := Open(filepath.Join(t.TempDir(), "a"), o)
		require.ErrorContains(t, err, want)
	}
	_, err := Open(t.TempDir(), Options{})
	require.Error(t, err, "a directory")
	l, err := Open("-", Options{})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.file.write(nil), errClosed)
}

// small is a disk that takes so many bytes.
type small struct {
	bytes.Buffer
	room int
	cuts bool // it can truncate
}

func (*small) Stat() (os.FileInfo, error) { return nil, errors.ErrUnsupported } // a pipe has no size

func (s *small) Write(p []byte) (int, error) {
	n := min(len(p), s.room)
	s.room -= n
	s.Buffer.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (s *small) Truncate(size int64) error {
	if !s.cuts {
		return errors.New("it cannot")
	}
	s.room += s.Len() - int(size)
	s.Buffer.Truncate(int(size))
	return nil
}

func (s *small) Close() error { return nil }

// A full disk tears no line: what was written in part is cut off, or ended before the next record.
func TestAFullDiskTearsNoLine(t *testing.T) {
	for _, mode := range []audit.Mode{audit.ModeBlocking, audit.ModeBlockingStrict, audit.ModeBatch} {
		for _, cuts := range []bool{true, false} {
			disk := &small{room: 1000, cuts: cuts}
			l := &Log{options: Options{Mode: mode, Format: JSON}, file: newWriter(&rotating{current: disk})}
			l.begin()
			stored := map[string]bool{}
			for i := range 20 {
				if i == 15 && mode != audit.ModeBatch {
					disk.room += 1000
				}
				id := fmt.Sprintf("id-%02d", i)
				err := l.Write(t.Context(), record(id, 10))
				if mode == audit.ModeBlockingStrict && err != nil {
					require.ErrorIs(t, err, syscall.ENOSPC)
					continue
				}
				require.NoError(t, err)
				stored[id] = true
			}
			require.NoError(t, l.Close())
			whole := 0
			for line := range bytes.Lines(disk.Bytes()) {
				e, err := audit.ParseEvent(line)
				if err != nil {
					require.False(t, cuts, "%s", line)
					continue
				}
				whole++
				delete(stored, e.AuditID)
			}
			name, lost := l.Losses()
			require.Equal(t, "log", name)
			require.EqualValues(t, 20-whole, lost, "each lost record is counted")
			require.GreaterOrEqual(t, whole, 2)
			if mode == audit.ModeBlockingStrict {
				require.Empty(t, stored, "what was said to be stored is there")
			}
		}
	}
}

// A process that was killed within a write has left a part of a line. The next record begins a line
// of its own.
func TestAUD_01_ATornLineIsEndedAtTheNextStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"kind":"Ev`), 0o644)) //nolint:gosec // to be tightened
	l, err := Open(path, Options{})
	require.NoError(t, err)
	require.NoError(t, l.Write(t.Context(), record("1", 1)))
	require.NoError(t, l.Close())
	text := read(t, path)
	require.Equal(t, "{\"kind\":\"Ev\n", string(text[:12]))
	require.Equal(t, []string{"1"}, linesOf(t, text[12:]))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestAUD_28_LongRecordsAreCutOrLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	l, err := Open(path, Options{Mode: audit.ModeBatch, Truncate: audit.Truncation{Enabled: true, MaxEventBytes: 1000}})
	require.NoError(t, err)
	e, err := audit.ParseEvent(record("1", 1))
	require.NoError(t, err)
	e.RequestObject = audit.Raw(`"` + strings.Repeat("x", 2000) + `"`)
	require.NoError(t, l.Write(t.Context(), e.AppendJSON(nil)))
	require.NoError(t, l.Write(t.Context(), record("2", 2000)))
	require.NoError(t, l.Close())
	require.Equal(t, []string{"1"}, linesOf(t, read(t, path)))
	_, lost := l.Losses()
	require.EqualValues(t, 1, lost)
}

// BenchmarkWrite is 16 goroutines that write to one file in blocking mode.
func BenchmarkWrite(b *testing.B) {
	l, err := Open(filepath.Join(b.TempDir(), "audit.json"), Options{})
	require.NoError(b, err)
	line := record("1", 700)
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := l.Write(b.Context(), line); err != nil {
				b.Error(err)
			}
		}
	})
	require.NoError(b, l.Close())
}
