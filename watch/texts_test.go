package watch_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/random"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// managedObject is the JSON of an object with managed fields, and where things are in it. A manager
// is the text of its entry, with TIME for its time.
func managedObject(name string, padding int, managers []string, times []string) (body watch.Body, facts watch.Facts, without string) {
	head := `{"data":{"x":"` + strings.Repeat("y", padding) + `"},"metadata":{"labels":{"app":"` + name + `"},`
	tail := `"name":"` + name + `","namespace":"ns",`
	prefix := head + `"managedFields":[`
	var at []int
	n := 0
	for i, m := range managers {
		if i > 0 {
			prefix += ","
		}
		for {
			before, after, ok := strings.Cut(m, "TIME")
			prefix += before
			if m = after; !ok {
				break
			}
			at = append(at, len(prefix))
			prefix += times[n%len(times)]
			n++
		}
	}
	body.Managed = watch.Managed{From: len(head), To: len(prefix) + 2, Times: at}
	body.Prefix, body.Suffix = []byte(prefix+`],`+tail), []byte(`"uid":"u-`+name+`"},"spec":{}}`)
	cut := func(b []byte, text string) string { // a part of the body, as a scan finds it
		return unsafe.String(&b[bytes.LastIndex(b, []byte(text))], len(text))
	}
	facts = watch.Facts{
		Name: cut(body.Prefix, name), Namespace: cut(body.Prefix, "ns"), UID: meta.UID(cut(body.Suffix, "u-"+name)),
		Labels: meta.LabelSet{{Key: cut(body.Prefix[:len(head)], "app"), Value: cut(body.Prefix[:len(head)], name)}}, Created: time.Unix(1_700_000_000, 0).UTC(),
	}
	return body, facts, head + tail
}

const stamp = "2023-11-14T22:13:20Z"

// Whatever entries share, each is written as it was given, in every way there is (design rule 10).
func TestSharedTextsChangeNoByte(t *testing.T) {
	texts := watch.NewTexts()
	random.Check(t, func(t *random.T) {
		manager := random.SampledFrom([]string{`{"manager":"a","time":"TIME"}`, `{"manager":"b","time":"TIME"}`, `{"manager":"timeless"}`, `{}`})
		managers := random.SliceOf(manager, 0, 5).Draw(t, "managers")
		times := random.SliceOf(random.SampledFrom([]string{stamp, "2024-01-01T00:00:00Z", "1970-01-01T00:00:01Z"}), 1, 5).Draw(t, "times")
		name := random.StringOf("abcdefghijklmnopqrstuvwxyz", 3, 9).Draw(t, "name")
		revision := storage.Revision(random.Number[uint64]().Draw(t, "revision"))
		body, facts, without := managedObject(name, 3, managers, times)
		plain := watch.NewEntry("/k/", revision, body, facts)
		// What was given is not looked at again.
		given, parts, _ := managedObject(name, 3, managers, times)
		e := texts.NewEntry("/k/", revision, given, parts)
		clear(given.Prefix)
		clear(given.Suffix)
		require.Equal(t, facts, e.Facts())
		body.Managed.Times = nil
		require.Equal(t, body, e.Body())
		require.Equal(t, body, plain.Body())
		splice := fmt.Sprintf(`"resourceVersion":"%d",`, revision)
		whole := string(body.Prefix) + splice + string(body.Suffix)
		for _, e := range []*watch.Entry{plain, e} {
			require.Equal(t, whole, string(e.AppendJSON(nil)))
			require.Len(t, whole, e.Length())
			require.Equal(t, string(body.Prefix)+`"resourceVersion":"7",`+string(body.Suffix), string(e.AppendJSONAt(nil, 7)))
			require.Equal(t, without+`"resourceVersion":"7",`+string(body.Suffix), string(e.AppendUnmanaged(nil, 7)))
			from, to := e.ManagedFields()
			require.Equal(t, without+splice+string(body.Suffix), whole[:from]+whole[to:])
			var written bytes.Buffer
			n, err := e.WriteTo(&written)
			require.NoError(t, err)
			require.Len(t, whole, int(n))
			require.Equal(t, whole, written.String())
			bare := append(bytes.Clone(body.Prefix), body.Suffix...)
			require.True(t, e.IsBare(bare))
			require.False(t, e.IsBare(bare[1:]))
			for _, i := range []int{0, body.Managed.From, body.Managed.To - 3, len(bare) - 1} {
				other := bytes.Clone(bare)
				other[i]++
				require.False(t, e.IsBare(other))
			}
		}
	})
}

// Managers that write many objects cost the room of one, however many others come between and
// whenever they wrote.
func TestTextsAreHeldOnce(t *testing.T) {
	texts := watch.NewTexts()
	fields := strings.Repeat(`"f:x":{},`, 100)
	make := func(i int, manager string) *watch.Entry {
		body, facts, _ := managedObject(fmt.Sprint("n", i), 3, []string{
			`{"fieldsV1":{` + fields + `"f:y":{}},"manager":"` + manager + `","time":"TIME"}`,
			`{"fieldsV1":{"status":{` + fields + `"f:y":{}}},"manager":"status","time":"TIME"}`,
		}, []string{time.Unix(int64(i), 0).UTC().Format(time.RFC3339), stamp})
		return texts.NewEntry("/k/", 1, body, facts)
	}
	perEntry := func(manager func(int) string) int {
		const n = 2000
		all := [n]*watch.Entry{}
		before := live()
		for i := range n {
			all[i] = make(i, manager(i))
		}
		held := live() - before
		runtime.KeepAlive(&all)
		return int(held) / n
	}
	alone := perEntry(func(i int) string { return fmt.Sprint("m", i) })
	same := perEntry(func(int) string { return "m" })
	mixed := perEntry(func(i int) string { return []string{"m", fmt.Sprint("m", i)}[i%2] })
	require.Greater(t, alone, 1000)
	require.Less(t, same, 700)
	require.Less(t, mixed, (alone+same)/2+100)
}

// live is how many bytes the heap holds.
func live() int64 {
	runtime.GC()
	runtime.GC() // what the first one found to clean up
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestTextsOfMany(t *testing.T) {
	texts := watch.NewTexts()
	var running sync.WaitGroup
	for g := range 4 {
		running.Go(func() {
			for i := range 500 {
				manager := fmt.Sprintf(`{"fieldsV1":{%s},"manager":"m%d","time":"TIME"}`, strings.Repeat("x", 1000), i/2%200)
				body, facts, _ := managedObject(fmt.Sprint("n", g, i), 3, []string{manager}, []string{stamp})
				want := string(body.Prefix)
				e := texts.NewEntry("/k/", 1, body, facts)
				if got := string(e.Body().Prefix); got != want {
					t.Errorf("%s instead of %s", got, want)
				}
			}
		})
	}
	running.Wait()
}

// Offsets that are none, and more than is worth sharing, leave the object whole.
func TestTextsThatAreNotShared(t *testing.T) {
	many := []string{}
	for range 50 {
		many = append(many, `{"time":"TIME"}`)
	}
	long := `{"fieldsV1":"` + strings.Repeat("x", 20<<10) + `","time":"TIME"}`
	for _, managers := range [][]string{many, {long}} {
		body, facts, _ := managedObject("n", 3, managers, []string{stamp})
		e := watch.NewTexts().NewEntry("/k/", 1, body, facts)
		require.Equal(t, string(body.Prefix), string(e.Body().Prefix))
	}
	body, facts, _ := managedObject("n", 3, []string{`{"time":"TIME"}`}, []string{stamp})
	for _, times := range [][]int{{body.Managed.From - 1}, {body.Managed.To}, {body.Managed.To - 20, body.Managed.To - 20}, {1 << 40}} {
		body.Managed.Times = times
		e := watch.NewTexts().NewEntry("/k/", 1, body, facts)
		require.Equal(t, string(body.Prefix), string(e.Body().Prefix))
	}
}

// BenchmarkTexts tells what an object of 1 KiB with one manager takes: its JSON, and its entry with
// all that belongs to it.
func BenchmarkTexts(b *testing.B) {
	manager := `{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:payload":{},"f:seq":{}},"f:metadata":{"f:labels":{".":{},` +
		`"f:app":{},"f:tier":{}}}},"manager":"driver","operation":"Update","time":"TIME"}`
	for name, build := range map[string]func(*watch.Texts, string, watch.Body, watch.Facts) *watch.Entry{
		"shared": func(t *watch.Texts, key string, body watch.Body, facts watch.Facts) *watch.Entry {
			return t.NewEntry(key, 1, body, facts)
		},
		"whole": func(_ *watch.Texts, key string, body watch.Body, facts watch.Facts) *watch.Entry {
			return watch.NewEntry(key, 1, body, facts)
		},
	} {
		b.Run(name, func(b *testing.B) {
			texts, all, given := watch.NewTexts(), make([]*watch.Entry, b.N), 0
			before := live()
			b.ResetTimer()
			for i := range b.N {
				body, facts, _ := managedObject(fmt.Sprintf("o-%06d", i), 1000, []string{manager}, []string{stamp})
				all[i] = build(texts, "/k/", body, facts)
				given += len(body.Prefix) + len(body.Suffix)
			}
			b.StopTimer()
			b.ReportMetric(float64(given)/float64(b.N), "json-B/object")
			b.ReportMetric(float64(live()-before)/float64(b.N), "live-B/object")
			runtime.KeepAlive(all)
		})
	}
}
