package copy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/storage"
)

// Obstacles is why a source cannot be copied as it is. Nothing was written.
type Obstacles struct {
	TooLarge   []string // keys of records that the target has no room for
	Limit      int      // of the target, in bytes
	Unreadable []string // keys of records that cannot be read
	Cause      error    // of the first one of them
}

// mostNames is how many records an error names.
const mostNames = 50

// Error names the records, and what to do about them.
func (o *Obstacles) Error() string {
	var parts []string
	if n := len(o.TooLarge); n > 0 {
		parts = append(parts, fmt.Sprintf("%d records are larger than the %d bytes that the target takes: %s; "+
			"make them smaller, or raise the target's limit", n, o.Limit, listed(o.TooLarge)))
	}
	if n := len(o.Unreadable); n > 0 {
		parts = append(parts, fmt.Sprintf("%d records cannot be read (%v): %s; leave them out, or make them readable first", n, o.Cause, listed(o.Unreadable)))
	}
	return strings.Join(parts, "; ")
}

func listed(keys []string) string {
	names := make([]string, 0, len(keys))
	for _, key := range keys[:min(len(keys), mostNames)] {
		names = append(names, Name(key))
	}
	if more := len(keys) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// Name is how people call the record of a key: "example.dev/widgets team/a" for an object.
func Name(key string) string {
	storageName, namespace, name, ok := storage.SplitObjectKey(key)
	switch {
	case !ok:
		return key
	case namespace == "":
		return storageName + " " + name
	}
	return storageName + " " + namespace + "/" + name
}

// Contents is what an examination found.
type Contents struct {
	Records  int
	Bytes    int64    // of keys and values
	LeftOut  []string // keys of records that cannot be read
	Revision storage.Revision
}

// Examine reads all of a source and returns an [*Obstacles] if something in it cannot be copied into a
// store with given limits. With leaveOut, records that cannot be read are no obstacle. It writes
// nothing.
func Examine(ctx context.Context, from storage.Backend, limits storage.Limits, leaveOut bool) (Contents, error) {
	rev, err := from.Revision(ctx)
	if err != nil {
		return Contents{}, err
	}
	c := Contents{Revision: rev}
	obstacles := Obstacles{Limit: largest(limits)}
	for r, err := range records(ctx, from, 0) {
		if err != nil {
			return c, fmt.Errorf("reading the source: %w", err)
		}
		c.Records++
		c.Bytes += int64(len(r.Key) + len(r.Value))
		obstacles.add(r, limits)
	}
	if leaveOut {
		c.LeftOut, obstacles.Unreadable = obstacles.Unreadable, nil
	}
	return c, obstacles.err()
}

// largest is the size of record that surely fits.
func largest(l storage.Limits) int { return min(l.MaxValueBytes, l.MaxCommitBytes) }

func fits(r storage.Record, l storage.Limits) bool {
	return len(r.Value) <= l.MaxValueBytes && len(r.Key)+len(r.Value) <= l.MaxCommitBytes
}

func (o *Obstacles) add(r storage.Record, l storage.Limits) {
	switch {
	case r.Err != nil:
		if o.Cause == nil {
			o.Cause = r.Err
		}
		o.Unreadable = append(o.Unreadable, r.Key)
	case !fits(r, l):
		o.TooLarge = append(o.TooLarge, r.Key)
	}
}

func (o *Obstacles) err() error {
	if len(o.TooLarge)+len(o.Unreadable) == 0 {
		return nil
	}
	slices.Sort(o.TooLarge)
	return o
}
