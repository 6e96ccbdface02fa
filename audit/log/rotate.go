package log

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/internal/files"
)

// mode are the permissions of log files: a record can have secrets in it.
const mode = 0o600

// file is what is needed of an *os.File.
type file interface {
	io.Writer
	Stat() (os.FileInfo, error)
	Truncate(size int64) error
	Close() error
}

// rotating is a file that is replaced when it is too large.
type rotating struct {
	path    string
	most    int64 // 0: never replaced
	backups int
	age     time.Duration
	pack    bool
	trust   time.Duration // for which one look at the file is enough
	now     func() time.Time
	open    func(path string) (file, int64, error)
	failed  func(error) // hears why the file was not replaced; may be nil

	current file
	is      os.FileInfo // which file that is; nil if that is not known
	pipe    bool        // it is a pipe or a device, which is never replaced
	size    int64
	looked  time.Time // when its name was looked at
	trusted time.Time // until then the file itself is not looked at
	torn    bool      // the file ends within a line
	not     time.Time // before this time it is not replaced: the last attempt failed

	tidying sync.WaitGroup // the goroutine that removes and compresses old files
	tidy    sync.Mutex     // held by it
}

func openRotating(path string, o Options) (*rotating, error) {
	r := &rotating{
		path: path, most: int64(o.MaxSize) << 20, backups: o.MaxBackups, age: time.Duration(o.MaxAge) * 24 * time.Hour, pack: o.Compress,
		now: time.Now, open: openFile,
	}
	if o.Mode != audit.ModeBlockingStrict {
		r.trust = trustFor
	}
	if o.Logger.GetSink() != nil {
		r.failed = func(err error) { o.Logger.Error(err, "the audit log cannot be replaced and grows on", "path", path) }
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	err := r.reopen()
	if files.NoReader(err) {
		err = nil // it may come later; until then each record fails
	}
	return r, err
}

// openFile opens a file to append to it. Permissions that others have had are taken away. A pipe that
// nobody reads is not opened: it would take some records, which are gone when it is closed.
func openFile(path string) (file, int64, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|files.NoWait, mode) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return pipe{f, pipeTimeout}, 0, nil // it has no size
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// pipe is a file that somebody else empties: a pipe or a device.
type pipe struct {
	*os.File

	timeout time.Duration
}

// pipeTimeout is how long a pipe that is full may take to be read. Requests wait meanwhile.
const pipeTimeout = 5 * time.Second

// Write fails if nobody reads. A device that cannot wait for a time is waited for.
func (p pipe) Write(lines []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(p.timeout))
	return p.File.Write(lines)
}

func (r *rotating) reopen() (err error) {
	r.current, r.size, err = r.open(r.path)
	if err != nil {
		r.current = nil
		return err
	}
	r.is, r.pipe = nil, false
	if info, err := r.current.Stat(); err == nil {
		r.is, r.pipe = info, !info.Mode().IsRegular()
	}
	r.torn = r.size > 0 && !endsWithBreak(r.path, r.size)
	return nil
}

// lookEvery is how often the name of the file is looked at. Whether it has any costs less, and is asked
// before each write in strict mode, and each millisecond in the other modes.
const (
	lookEvery = 100 * time.Millisecond
	trustFor  = time.Millisecond
)

// look leaves a file that has lost its name. Programs that rotate logs rename them, and people remove
// them: what is written to such a file later is where nobody looks, or nowhere. A file that cannot be
// looked at is written on.
func (r *rotating) look() {
	if r.current == nil || r.is == nil || r.trusts() {
		return
	}
	info, err := r.current.Stat()
	if err != nil {
		return
	}
	if !r.pipe && info.Size() != r.size { // somebody has copied and emptied it
		r.size = info.Size()
		r.torn = r.size > 0 && !endsWithBreak(r.path, r.size)
	}
	if files.Nameless(info) || r.moved() {
		_ = r.current.Close() // all that was written is there
		r.current = nil
	}
}

// trusts reports whether the file was looked at a moment ago. The question costs a system call, which is
// a large part of what a short write costs.
func (r *rotating) trusts() bool {
	if r.trust == 0 {
		return false
	}
	now := r.now()
	if until := r.trusted.Sub(now); 0 < until && until <= r.trust {
		return true
	}
	r.trusted = now.Add(r.trust)
	return false
}

// moved reports whether the path leads to another file, or to none.
func (r *rotating) moved() bool {
	now := r.now()
	if now.Sub(r.looked).Abs() < lookEvery {
		return false
	}
	r.looked = now
	info, err := os.Stat(r.path)
	return errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(info, r.is)
}

// endsWithBreak reports whether the last byte of a file ends a line. The process may have been
// killed within a write.
func endsWithBreak(path string, size int64) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|files.NoWait, 0) //nolint:gosec // the path is the operator's
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was only read
	var last [1]byte
	_, err = f.ReadAt(last[:], size-1)
	return err == nil && last[0] == '\n'
}

// rotatePause is how long a file is not replaced after an attempt has failed.
const rotatePause = time.Minute

// append writes lines. It cuts off what a failed write has left, or ends it with a line break before
// the next lines: each line is a whole record, or can be told from one. A file that cannot be replaced,
// as its directory takes no new names, grows on: records are worth more than a size.
func (r *rotating) append(lines []byte) error {
	r.look()
	if r.most > 0 && r.size > 0 && !r.pipe && r.size+int64(len(lines)) > r.most && !r.now().Before(r.not) {
		if err := r.rotate(); err != nil {
			if r.not = r.now().Add(rotatePause); r.failed != nil {
				r.failed(err)
			}
		}
	}
	if r.current == nil {
		if err := r.reopen(); err != nil {
			return err
		}
	}
	if r.torn {
		n, err := r.current.Write([]byte{'\n'})
		r.size += int64(n)
		if err != nil {
			return err
		}
		r.torn = false
	}
	n, err := r.current.Write(lines)
	if err == nil && n == len(lines) {
		r.size += int64(n)
		return nil
	}
	if err == nil {
		err = io.ErrShortWrite
	}
	if n > 0 && r.current.Truncate(r.size) != nil {
		r.size += int64(n)
		r.torn = lines[n-1] != '\n'
	}
	return err
}

func (r *rotating) close() error {
	defer r.tidying.Wait()
	if r.current == nil {
		return nil
	}
	return r.current.Close()
}

// rotate renames the file and begins a new one. If that fails, the file has its name again, and is
// closed.
func (r *rotating) rotate() error {
	if r.current != nil {
		err := r.current.Close()
		if r.current = nil; err != nil {
			return err
		}
	}
	backup := r.backup()
	if err := files.Rename(r.path, backup); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := r.reopen(); err != nil {
		return errors.Join(err, files.Rename(backup, r.path))
	}
	r.tidying.Go(r.clean)
	return nil
}

// stamp is the time in the name of an old file.
const stamp = "2006-01-02T15-04-05.000"

// backup returns a name that no file has yet.
func (r *rotating) backup() string {
	ext := filepath.Ext(r.path)
	base := strings.TrimSuffix(r.path, ext)
	for at := r.now().UTC(); ; at = at.Add(time.Millisecond) {
		name := base + "-" + at.Format(stamp) + ext
		_, plain := os.Lstat(name)
		_, packed := os.Lstat(name + ".gz")
		if plain != nil && packed != nil { // what cannot be looked at cannot be had either: renaming says so
			return name
		}
	}
}

// old is a replaced file.
type old struct {
	path string
	at   time.Time
}

// olds lists the replaced files, the latest first.
func (r *rotating) olds() []old {
	ext := filepath.Ext(r.path)
	prefix := strings.TrimSuffix(filepath.Base(r.path), ext) + "-"
	entries, err := os.ReadDir(filepath.Dir(r.path))
	if err != nil {
		return nil
	}
	var out []old
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".gz")
		name, isOurs := strings.CutSuffix(name, ext)
		text, begins := strings.CutPrefix(name, prefix)
		if !isOurs || !begins {
			continue
		}
		if at, err := time.Parse(stamp, text); err == nil {
			out = append(out, old{filepath.Join(filepath.Dir(r.path), e.Name()), at})
		}
	}
	slices.SortFunc(out, func(a, b old) int { return b.at.Compare(a.at) })
	return out
}

// clean removes and compresses old files. What fails is tried again after the next rotation.
func (r *rotating) clean() {
	r.tidy.Lock()
	defer r.tidy.Unlock()
	for i, o := range r.olds() {
		switch {
		case r.backups > 0 && i >= r.backups, r.age > 0 && r.now().Sub(o.at) > r.age:
			_ = os.Remove(o.path)
		case r.pack && !strings.HasSuffix(o.path, ".gz"):
			_ = compress(o.path)
		}
	}
}

// compress replaces a file by its compressed form.
func compress(path string) (err error) {
	from, err := os.Open(path) //nolint:gosec // a name that rotate made
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read
	part := path + ".part"
	to, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode) //nolint:gosec // likewise
	if err != nil {
		return err
	}
	z := gzip.NewWriter(to)
	_, err = io.Copy(z, from)
	if err = errors.Join(err, z.Close(), to.Close()); err != nil {
		return errors.Join(fmt.Errorf("compress %s: %w", path, err), os.Remove(part))
	}
	if err := files.Rename(part, path+".gz"); err != nil { // from here on it may be the only copy
		return err
	}
	return os.Remove(path)
}

// stream is a sink that is not a file of ours, such as the standard output.
type stream struct{ to io.Writer }

func (s *stream) append(lines []byte) error {
	n, err := s.to.Write(lines)
	if err == nil && n < len(lines) {
		err = io.ErrShortWrite
	}
	return err
}

func (s *stream) close() error { return nil }
