package watch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/random"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// Whatever comes and goes, a change wakes exactly the parked cursors that hear of it, each once,
// and an empty roster keeps nothing.
func TestRosterWakesWhomItConcerns(t *testing.T) {
	random.Check(t, func(t *random.T) {
		fields := []string{"spec.color"}
		r := newRoster(len(fields))
		var cursors []*Cursor
		remove := func(i int) {
			r.remove(cursors[i])
			cursors = slices.Delete(cursors, i, i+1)
		}
		for revision := storage.Revision(gap); revision <= 60*gap; revision += gap {
			switch random.Range(0, 5).Draw(t, "step") {
			case 0:
				if len(cursors) > 0 {
					remove(random.Range(0, len(cursors)-1).Draw(t, "leaves"))
				}
			case 1, 2:
				f := drawFilter(t)
				c := &Cursor{parked: random.Range(0, 4).Draw(t, "parked") > 0}
				r.add(c, &f, fields)
				c.filter = &c.group.filter
				cursors = append(cursors, c)
			default:
				wakes(t, &r, cursors, drawChange(t, revision, fields))
			}
			require.Equal(t, len(cursors), r.count)
		}
		for len(cursors) > 0 {
			remove(len(cursors) - 1)
		}
		require.Empty(t, r.groups)
		require.Empty(t, r.places)
		require.Empty(t, r.labels)
		require.Equal(t, []int{0}, r.fields)
	})
}

// gap is how far apart the revisions of changes are, as after a store was opened again.
const gap = 3

func wakes(t *random.T, r *roster, cursors []*Cursor, c change) {
	want := map[*Cursor]bool{}
	for _, cursor := range cursors {
		if cursor.parked && cursor.filter.touches(&c) {
			want[cursor] = true
		}
	}
	woken := r.unpark(&c, c.revision-gap, nil)
	require.Len(t, woken, len(want))
	for _, cursor := range woken {
		require.True(t, want[cursor])
		require.False(t, cursor.parked)
		require.Equal(t, c.revision-gap, cursor.at, "the store never issued the revisions between")
		cursor.parked = true
	}
}

func drawFilter(t *random.T) Filter {
	labels, err := meta.ParseSelector(random.SampledFrom([]string{
		"", "", "app", "app=x", "app in (x,y)", "app!=x", "!app", "tier=x", "tier=x,app", "app=x,tier in (x,y,z)", "app>1", "app=,tier",
		"app in (a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,x)",
	}).Draw(t, "labels"))
	require.NoError(t, err)
	fields, err := meta.ParseFieldSelector(random.SampledFrom([]string{
		"", "", "", "spec.color=red", "spec.color!=red", "metadata.name=m", "metadata.namespace=b",
	}).Draw(t, "fields"))
	require.NoError(t, err)
	return Filter{
		Namespace: random.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "in"),
		Name:      random.SampledFrom([]string{"", "", "", "m"}).Draw(t, "named"),
		Labels:    labels, Fields: fields,
	}
}

func drawChange(t *random.T, revision storage.Revision, fields []string) change {
	namespace, name := random.SampledFrom([]string{"", "a", "b"}).Draw(t, "namespace"), random.SampledFrom([]string{"m", "n"}).Draw(t, "name")
	entry := func(what string) *Entry {
		labels := map[string]string{}
		for _, key := range []string{"app", "tier"} {
			if value := random.SampledFrom([]string{"none", "none", "", "x", "y", "7"}).Draw(t, what+key); value != "none" {
				labels[key] = value
			}
		}
		e := NewEntry(storage.ObjectKey("widgets", namespace, name), revision, Body{}, Facts{
			Namespace: namespace, Name: name, Labels: meta.NewLabelSet(labels),
			Fields: []string{random.SampledFrom([]string{"", "red", "blue"}).Draw(t, what+"color")},
		})
		e.names = &fields
		return e
	}
	c := change{revision: revision}
	kind := random.Range(0, 2).Draw(t, "kind")
	if kind > 0 {
		c.prev = entry("old ")
	}
	if kind < 2 {
		c.next = entry("new ")
	}
	return c
}

// Cursors that ask for the same are judged once, however they put it.
func TestRosterGroupsEqualFilters(t *testing.T) {
	r := newRoster(0)
	for i, text := range []string{"app=x,tier", "tier,app==x", " app in (x) ,tier"} {
		labels, err := meta.ParseSelector(text)
		require.NoError(t, err)
		c := &Cursor{}
		r.add(c, &Filter{Labels: labels}, nil)
		require.Equal(t, i, c.slot)
	}
	require.Len(t, r.groups, 1)
	require.Len(t, r.places, 1)
	for i := range 100 {
		labels, err := meta.ParseSelector(fmt.Sprint("app=x", i))
		require.NoError(t, err)
		r.add(&Cursor{}, &Filter{Labels: labels}, nil)
	}
	require.Len(t, r.places, 101, "values have places of their own")
}
