package protobuf

import (
	"bytes"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

// walker yields objects and counts the iterations.
type walker struct {
	objects []string
	walks   int
	fails   map[int]error // at the end of an iteration
}

func (s *walker) items() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		s.walks++
		var scratch []byte
		for _, object := range s.objects {
			scratch = append(scratch[:0], object...)
			if !yield(scratch, nil) {
				return
			}
			clear(scratch)
		}
		if err := s.fails[s.walks]; err != nil {
			yield(nil, err)
		}
	}
}

func TestLists(t *testing.T) {
	d := describe[meta.PartialObjectMetadata](t)
	whole := describe[meta.PartialObjectMetadataList](t)
	remaining, none := int64(300), (*int64)(nil)
	for _, c := range []struct{ items, size, walks int }{{0, 0, 1}, {1, 0, 1}, {3, 200, 1}, {200, 1000, 1}, {1000, 5000, 2}, {2, 5 << 20, 2}} {
		for _, remains := range []*int64{none, &remaining} {
			s := walker{}
			for i := range c.items {
				s.objects = append(s.objects, `{"metadata":{"name":"`+strings.Repeat("x", c.size+i)+`"}}`)
			}
			l := List{
				APIVersion: "v1", Kind: "WidgetList", Items: s.items(),
				Metadata: meta.ListMeta{ResourceVersion: "7", Continue: "more", RemainingItemCount: remains},
			}
			var got bytes.Buffer
			require.NoError(t, d.WriteList(&got, l))
			require.Equal(t, c.walks, s.walks)

			metadata := `{"continue":"more","resourceVersion":"7"}`
			if remains != nil {
				metadata = `{"continue":"more","remainingItemCount":300,"resourceVersion":"7"}`
			}
			want, err := whole.AppendObject(nil, "v1", "WidgetList", []byte(`{"items":[`+strings.Join(s.objects, ",")+`],"metadata":`+metadata+`}`))
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got.Bytes()), "%d items", c.items)
		}
	}
}

func TestListsThatBreakOff(t *testing.T) {
	d := describe[meta.PartialObjectMetadata](t)
	long := `{"metadata":{"name":"` + strings.Repeat("x", heldBytes) + `"}}`
	compacted := errors.New("compacted")
	for name, c := range map[string]struct {
		source  walker
		want    string
		nothing bool // is written
	}{
		"in the only walk":   {walker{objects: []string{`{}`}, fails: map[int]error{1: compacted}}, "compacted", true},
		"in the first walk":  {walker{objects: []string{long}, fails: map[int]error{1: compacted}}, "compacted", true},
		"in the second walk": {walker{objects: []string{long}, fails: map[int]error{2: compacted}}, "compacted", false},
		"at a bad object":    {walker{objects: []string{`{}`, `{"metadata":1}`}}, "protobuf: metadata: must be an object", true},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			err := d.WriteList(&got, List{Items: c.source.items()})
			require.EqualError(t, err, c.want)
			require.Equal(t, c.nothing, got.Len() == 0)
		})
	}
}

func TestListsThatChange(t *testing.T) {
	d := describe[meta.PartialObjectMetadata](t)
	long := `{"metadata":{"name":"` + strings.Repeat("x", heldBytes) + `"}}`
	for name, second := range map[string][]string{"shorter": {}, "longer": {long, long}, "another object": {long, `{"metadata":{"name":"x"}}`}} {
		t.Run(name, func(t *testing.T) {
			first, walks := []string{long, `{}`}, 0
			items := func(yield func([]byte, error) bool) {
				if walks++; walks == 2 {
					first = second
				}
				for _, object := range first {
					if !yield([]byte(object), nil) {
						return
					}
				}
			}
			require.ErrorIs(t, d.WriteList(&bytes.Buffer{}, List{Items: items}), errChanged)
		})
	}
}

func TestListsToClientsThatLeave(t *testing.T) {
	d := describe[meta.PartialObjectMetadata](t)
	gone := errors.New("gone")
	for _, size := range []int{10, heldBytes} {
		for allowed := range 10 {
			s := walker{objects: []string{`{"metadata":{"name":"` + strings.Repeat("x", size) + `"}}`, `{}`}}
			client := leaving{allowed, gone}
			if err := d.WriteList(&client, List{Items: s.items()}); client.left >= 0 {
				require.NoError(t, err)
				require.GreaterOrEqual(t, allowed, 2)
				break
			} else {
				require.Equal(t, gone, err)
			}
		}
	}
}

// leaving accepts some chunks and then fails.
type leaving struct {
	left int
	err  error
}

func (l *leaving) Write(p []byte) (int, error) {
	if l.left--; l.left < 0 {
		return 0, l.err
	}
	return len(p), nil
}
