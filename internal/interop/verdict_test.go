package interop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kindwright/kindwright/storage"
)

// state is an object as the store has it.
type state struct {
	Metadata struct {
		Name                string
		UID                 types.UID
		Annotations, Labels map[string]string
	}
	revision storage.Revision
	born     storage.Revision
}

// verdict compares what calls were told with what the store has done.
type verdict struct {
	*trial
	facts    []fact // in the order of revisions
	of       map[*attempt][]fact
	now      map[string]*state // by key
	ended    []span            // objects whose names the server made
	problems []string
}

// span is an object with a label, from its creation to its end. died is 0 while it is there.
type span struct {
	label      string
	born, died storage.Revision
}

func (v *verdict) wrong(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

// judge decides about all calls.
func (tr *trial) judge(t *testing.T) {
	v := &verdict{trial: tr, of: map[*attempt][]fact{}, now: map[string]*state{}}
	for _, f := range tr.backend.facts {
		if f.by != nil {
			v.facts = append(v.facts, f)
			v.of[f.by] = append(v.of[f.by], f)
		}
	}
	slices.SortStableFunc(v.facts, func(a, b fact) int { return cmp.Compare(a.revision, b.revision) })
	for _, f := range v.facts {
		v.follow(f)
	}
	for _, c := range tr.calls {
		v.call(c)
	}
	require.Empty(t, tr.backend.problems)
	require.Empty(t, v.problems[:min(len(v.problems), 10)], "%d in all", len(v.problems))
	v.requireState(t)
	v.requireCoverage(t)
}

// follow checks one change against the state before it: it adds its note to all that were there.
// Nobody takes a note away, so a change that its writer had not seen and overwrote would miss.
func (v *verdict) follow(f fact) {
	c, old := f.by.call, v.now[f.Key]
	_, _, name, _ := storage.SplitObjectKey(f.Key)
	if c.name != "" && c.name != name {
		v.wrong("%v wrote to %s", c, f.Key)
	}
	if old != nil && (c.seen != "" && c.seen != old.revision.String() || c.uid != "" && c.uid != old.Metadata.UID) {
		v.wrong("%v replaced revision %d, uid %s", c, old.revision, old.Metadata.UID)
	}
	if f.Type == storage.OpDelete {
		v.followEnd(f, old)
		return
	}
	next := &state{revision: f.revision, born: f.revision}
	if err := json.Unmarshal(f.Value[recordHeader:], next); err != nil {
		v.wrong("%v stored what cannot be read: %v", c, err)
		return
	}
	want := map[string]string{c.note: "y"}
	switch {
	case old == nil && c.verb != "create" && c.verb != "apply":
		v.wrong("%v created an object", c)
	case old != nil && c.verb == "create":
		v.wrong("%v replaced an object", c)
	case old != nil:
		maps.Copy(want, old.Metadata.Annotations)
		next.born = old.born
		if next.Metadata.UID != old.Metadata.UID {
			v.wrong("%v changed the uid", c)
		}
	}
	if !maps.Equal(want, next.Metadata.Annotations) {
		v.wrong("%v at revision %d wrote %v in place of %v", c, f.revision, next.Metadata.Annotations, want)
	}
	v.now[f.Key] = next
}

// recordHeader is the length of what precedes the JSON of a stored object.
const recordHeader = 9

func (v *verdict) followEnd(f fact, old *state) {
	c := f.by.call
	switch {
	case old == nil:
		v.wrong("%v deleted %s, which was not there", c, f.Key)
		return
	case c.verb != "delete" && c.verb != "delete many":
		v.wrong("%v deleted", c)
	case c.label != old.Metadata.Labels["party"] && c.verb == "delete many":
		v.wrong("%v deleted an object of %v", c, old.Metadata.Labels)
	}
	v.ended = append(v.ended, old.until(f.revision))
	delete(v.now, f.Key)
}

func (s *state) until(died storage.Revision) span {
	return span{s.Metadata.Labels["party"], s.born, died}
}

// call checks what a call was told.
func (v *verdict) call(c *call) {
	done := 0
	for _, a := range c.attempts {
		n := len(v.of[a])
		done += n
		switch {
		case n > 0 && a.retryAfter != "":
			v.wrong("%v: asked to repeat what was stored", a)
		case n > 0 && a.code >= 400 && !a.unsure.Load() && c.verb != "delete many":
			v.wrong("%v: a failure that was stored", a)
		case n == 0 && a.code != 0 && a.code < 300 && c.verb != "delete many":
			v.wrong("%v: a success that was not stored", a)
		}
	}
	if _, again := apierrors.SuggestsClientDelay(c.err); again && len(v.of[c.attempts[len(c.attempts)-1]]) > 0 {
		v.wrong("%v: the caller is asked to repeat what was stored: %v", c, c.err)
	}
	switch {
	case c.verb == "delete many":
		v.many(c)
	case done > 1:
		v.wrong("%v was carried out %d times", c, done)
	case c.err == nil && done == 0:
		v.wrong("%v succeeded and is not stored", c)
	case c.err == nil && c.note != "":
		v.success(c)
	}
}

// success checks the object in the answer to a call.
func (v *verdict) success(c *call) {
	f := v.of[c.attempts[len(c.attempts)-1]]
	if len(f) != 1 {
		v.wrong("%v succeeded with an attempt that is not the last", c)
		return
	}
	_, _, name, _ := storage.SplitObjectKey(f[0].Key)
	if c.told.name != name || c.told.version != f[0].revision.String() || !c.told.noted {
		v.wrong("%v was told %+v, and %s was stored at revision %d", c, c.told, f[0].Key, f[0].revision)
	}
}

// many checks that a deletion of many that succeeded has left nothing that was there before it.
func (v *verdict) many(c *call) {
	if c.err != nil {
		return
	}
	check := func(l span) {
		if l.label == c.label && l.born <= c.from && (l.died == 0 || l.died > c.to) {
			v.wrong("%v left an object of revision %d, which ended at %d", c, l.born, l.died)
		}
	}
	for _, l := range v.ended {
		check(l)
	}
	for _, s := range v.now {
		check(s.until(0))
	}
}

// requireState requires that the store and the server have exactly what the record says.
func (v *verdict) requireState(t *testing.T) {
	t.Helper()
	stored := map[string]string{}
	for key, s := range v.now {
		_, _, name, _ := storage.SplitObjectKey(key)
		stored[string(s.Metadata.UID)] = name + "@" + s.revision.String()
	}
	served := map[string]string{}
	for _, r := range []schema.GroupVersionResource{widgets, leases} {
		list, err := v.dynamic.Resource(r).Namespace("default").List(context.Background(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, o := range list.Items {
			served[string(o.GetUID())] = o.GetName() + "@" + o.GetResourceVersion()
		}
	}
	require.Equal(t, stored, served)
}

// requireCoverage requires that everything that can go wrong has.
func (v *verdict) requireCoverage(t *testing.T) {
	t.Helper()
	var acknowledged, failed, repeated, unknown, hidden, conflicts int
	for _, c := range v.calls {
		switch {
		case c.err == nil:
			acknowledged++
		case apierrors.IsConflict(c.err):
			conflicts++
		case apierrors.IsTimeout(c.err):
			unknown++
		}
		if c.err != nil {
			failed++
			if len(c.attempts) > 0 && len(v.of[c.attempts[len(c.attempts)-1]]) > 0 {
				hidden++
			}
		}
		if len(c.attempts) > 1 {
			repeated++
		}
	}
	t.Logf("%d calls: %d succeeded, %d failed (%d of these were stored), %d conflicts, %d with an unknown outcome, %d repeated by client-go; %d commits; %d requests and answers lost; mishaps %v",
		len(v.calls), acknowledged, failed, hidden, conflicts, unknown, repeated, len(v.facts), v.lost.Load(), v.backend.met)
	for m, n := range v.backend.met {
		require.NotZero(t, n, "mishap %d has not happened", m)
	}
	for _, n := range []int{acknowledged, hidden, conflicts, unknown, repeated} {
		require.NotZero(t, n)
	}
}
