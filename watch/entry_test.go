package watch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

func entryAt(t testing.TB, o widget, revision storage.Revision) *watch.Entry {
	t.Helper()
	e, err := decode(storage.Record{Key: storage.ObjectKey("widgets", o.Namespace, o.Name), Value: o.encode(), Revision: revision})
	require.NoError(t, err)
	return e
}

func resourceVersion(t *testing.T, data []byte) string {
	t.Helper()
	var o struct {
		Metadata struct{ ResourceVersion, Name string }
	}
	require.NoError(t, json.Unmarshal(data, &o), "%s", data)
	require.Equal(t, "n", o.Metadata.Name)
	return o.Metadata.ResourceVersion
}

func TestEntryJSONCarriesItsRevision(t *testing.T) {
	for _, revision := range []storage.Revision{1, 9, 10, 999, 1000, math.MaxUint64} {
		e := entryAt(t, widget{Namespace: "ns", Name: "n"}, revision)
		want := strconv.FormatUint(uint64(revision), 10)
		require.Equal(t, want, resourceVersion(t, e.AppendJSON(nil)))
		require.Equal(t, "7", resourceVersion(t, e.AppendJSONAt(nil, 7)))
		require.Equal(t, "left alone", string(e.AppendJSON([]byte("left alone"))[:10]))

		var written bytes.Buffer
		n, err := e.WriteTo(&written)
		require.NoError(t, err)
		require.Equal(t, int64(written.Len()), n)
		require.Equal(t, string(e.AppendJSON(nil)), written.String())
	}
}

// failingWriter takes a number of bytes and then fails.
type failingWriter struct{ room int }

var errFull = errors.New("no room")

func (w *failingWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		n := w.room
		w.room = 0
		return n, errFull
	}
	w.room -= len(p)
	return len(p), nil
}

func TestWriteToStopsAtTheFirstError(t *testing.T) {
	e := entryAt(t, widget{Namespace: "ns", Name: "n"}, 5)
	whole := len(e.AppendJSON(nil))
	for room := range whole {
		n, err := e.WriteTo(&failingWriter{room})
		require.ErrorIs(t, err, errFull)
		require.Equal(t, int64(room), n)
	}
	_, err := e.WriteTo(&failingWriter{whole})
	require.NoError(t, err)
}

func TestWritingAnEntryAllocatesNothing(t *testing.T) {
	e := entryAt(t, widget{Namespace: "ns", Name: "n", Labels: map[string]string{"app": "x"}}, 1<<40)
	buf := make([]byte, 0, 4096)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = e.WriteTo(io.Discard)
		buf = e.AppendJSON(buf[:0])
		buf = watch.Event{Type: meta.Deleted, Entry: e, Revision: 1 << 41}.AppendFrame(buf[:0])
	}))
	f := watch.Filter{Namespace: "ns", Labels: labels(t, "app=x,!other"), Fields: fields(t, "metadata.name!=m")}
	require.True(t, f.Matches(e))
	require.Zero(t, testing.AllocsPerRun(100, func() { f.Matches(e) }))
}

func TestEntryRemembersWhatItWasMadeOf(t *testing.T) {
	o := widget{Namespace: "ns", Name: "n", Labels: map[string]string{"b": "2", "a": "1"}, Color: "red"}
	e := entryAt(t, o, 5)
	require.Equal(t, "/r/widgets/ns/n\x01/", e.Key())
	require.Equal(t, storage.Revision(5), e.Revision())
	require.Equal(t, "n", e.Name())
	require.Equal(t, meta.LabelSet{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}, e.Labels())
	require.Equal(t, string(o.encode()), string(e.Body().Prefix)+string(e.Body().Suffix))
	require.Greater(t, e.Size(), len(o.encode()))
}

func TestWATCH_14_FrameHasTypeAndObject(t *testing.T) {
	e := entryAt(t, widget{Name: "n"}, 5)
	frame := watch.Event{Type: meta.Modified, Entry: e, Revision: 5}.AppendFrame([]byte("x"))
	require.Equal(t, `x{"type":"MODIFIED","object":`+string(e.AppendJSON(nil))+"}\n", string(frame))
	frame = watch.Event{Type: meta.Bookmark, Revision: 12}.AppendFrame(nil)
	require.Equal(t, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}`+"\n", string(frame))
}

func TestFilterKeyPrefix(t *testing.T) {
	for _, c := range []struct {
		filter watch.Filter
		want   string
	}{
		{watch.Filter{}, "/r/widgets/"},
		{watch.Filter{Name: "n"}, "/r/widgets/"},
		{watch.Filter{Namespace: "ns"}, "/r/widgets/ns/"},
		{watch.Filter{Namespace: "ns", Name: "n"}, "/r/widgets/ns/n\x01/"},
		{watch.Filter{Fields: fields(t, "metadata.namespace=ns")}, "/r/widgets/ns/"},
		{watch.Filter{Namespace: "ns", Fields: fields(t, "metadata.name=n")}, "/r/widgets/ns/n\x01/"},
		{watch.Filter{Fields: fields(t, "metadata.name!=n,metadata.namespace!=ns")}, "/r/widgets/"},
		{watch.Filter{Fields: fields(t, "metadata.namespace=")}, "/r/widgets/"},
	} {
		require.Equal(t, c.want, c.filter.KeyPrefix("widgets"))
	}
}
