package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/copy"
)

// copyStore is the command copy.
func copyStore(ctx context.Context, f *flags, out io.Writer) error {
	from, err := parsePlace("--from", f.from)
	if err != nil {
		return err
	}
	to, err := parsePlace("--to", f.to)
	if err != nil {
		return err
	}
	if from == to {
		return usageError{errors.New("--from and --to are the same store")}
	}
	return move(ctx, f, from, to, out)
}

// move copies from one place to another.
func move(ctx context.Context, f *flags, from, to place, out io.Writer) (err error) {
	source, damage, err := from.source(ctx, f)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	for _, d := range damage {
		_, _ = fmt.Fprintf(out, "left out: %v\n", d)
	}
	target, undo, err := to.target(ctx, f, source)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, target.Close())
		}
	}()
	// What is begun is finished, or left as it is for the next time.
	copying, err := copy.Begin(ctx, source, target, f.options(out))
	if err != nil {
		// Nothing was written if the target has no mark: then the file that was made for it goes, too.
		if copy.Unfinished(context.WithoutCancel(ctx), target) == nil {
			closed = true
			return errors.Join(err, target.Close(), undo())
		}
		return goOn(err)
	}
	if f.prepare {
		_, err = fmt.Fprintf(out, "copied up to %s; no server starts on the target before another copy has finished it\n", named(copying.Done().Reached))
		return err
	}
	if f.follow {
		_, _ = fmt.Fprintln(out, "following: stop the servers, then interrupt this program to finish")
		if err := copying.Keep(ctx); err != nil {
			return goOn(err)
		}
		ctx = context.WithoutCancel(ctx)
	}
	result, err := copying.Finish(ctx)
	if err != nil {
		return goOn(err)
	}
	return report(result, out)
}

// goOn is the error of a copy that has begun, with what to do.
func goOn(err error) error {
	return fmt.Errorf("%w; the target is unfinished: run the same command again to go on, or kindwright-store clear", err)
}

// options are those of a copy that prints how far it is.
func (f *flags) options(out io.Writer) copy.Options {
	o := copy.Options{LeaveOutUnreadable: f.leaveOut, Above: storage.Revision(f.above)}
	if out != nil {
		o.Progress = progress(out)
	}
	return o
}

// progress prints how far a copy is.
func progress(out io.Writer) func(copy.Progress) {
	return func(p copy.Progress) {
		if p.Reached == 0 {
			_, _ = fmt.Fprintf(out, "%d records\n", p.Records)
		}
	}
}

func report(r copy.Result, out io.Writer) error {
	for _, key := range r.LeftOut {
		_, _ = fmt.Fprintf(out, "left out: %s cannot be read\n", copy.Name(key))
	}
	_, err := fmt.Fprintf(out, "done: the new store has what the old one had at %s, and goes on above %d\n", named(r.Reached), r.First)
	return err
}

// backUp is the command backup.
func backUp(ctx context.Context, f *flags, out io.Writer) error {
	if _, err := os.Lstat(f.to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--to: %s exists: give the name of a new file", f.to)
	}
	if strings.HasPrefix(f.from, "https://") || strings.HasPrefix(f.from, "http://") {
		return download(ctx, f, out)
	}
	from, err := parsePlace("--from", f.from)
	if err != nil {
		return usageError{fmt.Errorf("--from %q: must be the URL of a server, bbolt:PATH, or etcd:URL/PREFIX", f.from)}
	}
	source, _, err := from.source(ctx, f)
	if errors.Is(err, bbolt.ErrInUse) {
		return fmt.Errorf("--from: %w; a running server is backed up with --from https://…, if it has --serve-backup", err)
	}
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	rev := storage.Revision(0)
	if err = copy.Unfinished(ctx, source); err == nil {
		rev, err = backedUp(ctx, source, f.to)
	}
	if err = errors.Join(err, source.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "done: %s has the store at %s\n", f.to, named(rev))
	return err
}

// backedUp writes a backup file. Nobody sees half of one.
func backedUp(ctx context.Context, from storage.Backend, path string) (storage.Revision, error) {
	dir, err := unfinished(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	made := filepath.Join(dir, "backup.db")
	if db, ok := from.(*bbolt.DB); ok {
		rev, err := db.Backup(ctx, made)
		if err == nil {
			err = publish(made, path)
		}
		return rev, err
	}
	db, err := bbolt.Open(filepath.Join(dir, "store.db"))
	if err != nil {
		return 0, err
	}
	result, err := copy.Copy(ctx, from, db, copy.Options{Snapshot: true})
	if err == nil {
		_, err = db.Backup(ctx, made) // in a form that says what it is
	}
	if err = errors.Join(err, db.Close()); err == nil {
		err = publish(made, path)
	}
	return result.Reached, err
}

// publish gives a finished backup its name, and replaces nothing.
func publish(made, path string) error {
	err := os.Link(made, path)
	if err != nil && !errors.Is(err, fs.ErrExist) { // a file system without hard links
		if _, there := os.Lstat(path); errors.Is(there, fs.ErrNotExist) {
			err = os.Rename(made, path)
		}
	}
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	return files.SyncDirectory(filepath.Dir(path))
}

// unfinished makes the directory that says that a backup is being made, and that has what is not finished
// of it. One that exists may be that of a backup that is running: so it is not cleared but refused.
func unfinished(path string) (string, error) {
	dir := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".unfinished")
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("--to: another backup to %s is running, or was killed: if none is running, remove %s and try again", path, dir)
	}
	if errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("--to: %w; give this process the right to read and write %s", err, filepath.Dir(path))
	}
	if err != nil {
		return "", fmt.Errorf("--to: %w", err)
	}
	return dir, nil
}

// restore is the command restore. The backup itself is only read.
func restore(ctx context.Context, f *flags, out io.Writer) error {
	to, err := parsePlace("--to", f.to)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(to.at); to.kind == "bbolt" && err == nil {
		return fmt.Errorf("--to: %s exists: move it away first, so that it can be put back", to.at)
	}
	path := strings.TrimPrefix(f.from, "bbolt:")
	e, err := bbolt.Examine(path)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	damage := e.Damage
	if err := e.Close(); err != nil {
		return err
	}
	if len(damage) > 0 && !f.leaveOut {
		return fmt.Errorf("--from: %s is no whole backup (%w): take another one, or bring over what can be read of it, with --leave-out-unreadable", path, damage[0])
	}
	return move(ctx, f, place{"bbolt", path}, to, out)
}

// check is the command check.
func check(ctx context.Context, f *flags, out io.Writer) (err error) {
	p, err := parsePlace("--from", f.from)
	if err != nil {
		return err
	}
	var b storage.Backend
	var damage []error
	if p.kind == "bbolt" {
		e, err := bbolt.Examine(p.at)
		if err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		b, damage = e, e.Damage
	} else if b, _, err = p.source(ctx, f); err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	c, err := copy.Examine(ctx, b, b.Limits(), true)
	if err != nil {
		return err
	}
	for _, d := range damage {
		_, _ = fmt.Fprintf(out, "damaged: %v\n", d)
	}
	for _, key := range c.LeftOut {
		_, _ = fmt.Fprintf(out, "unreadable: %s\n", copy.Name(key))
	}
	if err := copy.Unfinished(ctx, b); err != nil {
		return err
	}
	if n := len(damage) + len(c.LeftOut); n > 0 {
		return fmt.Errorf("%d of its parts cannot be read, %d records can: put a backup in its place, or bring over what can be read, with copy --leave-out-unreadable",
			n, c.Records-len(c.LeftOut))
	}
	_, err = fmt.Fprintf(out, "intact: %d records of %d bytes, %s\n", c.Records, c.Bytes, named(c.Revision))
	return err
}

// clearTarget is the command clear.
func clearTarget(ctx context.Context, f *flags, out io.Writer) (err error) {
	p, err := parsePlace("--to", f.to)
	if err != nil {
		return err
	}
	b, err := p.unfinished(ctx, f)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := copy.Clear(ctx, b); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	_, err = fmt.Fprintln(out, "done: the store is empty")
	return err
}
