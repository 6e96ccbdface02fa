package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// richer is a widget as a newer server has it: our widget does not know half of the fields.
const richer = `{"kind":"Widget","apiVersion":"example.dev/v1",
	"metadata":{"namespace":"default","name":"a","resourceVersion":"5","future":{"x":[1,2]}},
	"spec":{"size":1,"material":"oak","zero":0,"parts":[
		{"name":"leg","count":4,"finish":"oiled"},
		{"name":"top","count":1,"finish":"waxed","grain":{"angle":30}}]},
	"status":{"phase":"","observed":{"when":"now"}},
	"extra":[{"a":null}]}`

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &out), text)
	return out
}

func TestUPDATE_04_UnknownFieldsSurviveARoundTrip(t *testing.T) {
	for name, change := range map[string]struct {
		change func(w *widget)
		want   func(m map[string]any)
	}{
		"nothing": {func(*widget) {}, func(map[string]any) {}},
		"a field": {
			func(w *widget) { w.Spec.Size = 7 },
			func(m map[string]any) { m["spec"].(map[string]any)["size"] = 7.0 },
		},
		"a field to its zero": {
			func(w *widget) { w.Spec.Size = 0 },
			func(m map[string]any) { delete(m["spec"].(map[string]any), "size") },
		},
		"a field that was not there": {
			func(w *widget) { w.Labels = map[string]string{"l": "v"} },
			func(m map[string]any) { m["metadata"].(map[string]any)["labels"] = map[string]any{"l": "v"} },
		},
		"an item of a list": {
			func(w *widget) { w.Spec.Parts[1].Count = 9 },
			func(m map[string]any) { m["spec"].(map[string]any)["parts"].([]any)[1].(map[string]any)["count"] = 9.0 },
		},
		"the order of a list, and a new item": {
			func(w *widget) { w.Spec.Parts = []part{w.Spec.Parts[1], {Name: "door"}, w.Spec.Parts[0]} },
			func(m map[string]any) {
				s := m["spec"].(map[string]any)
				p := s["parts"].([]any)
				s["parts"] = []any{p[1], map[string]any{"name": "door"}, p[0]}
			},
		},
		"an item less": {
			func(w *widget) { w.Spec.Parts = w.Spec.Parts[1:] },
			func(m map[string]any) {
				s := m["spec"].(map[string]any)
				s["parts"] = s["parts"].([]any)[1:]
			},
		},
		"the status": {
			func(w *widget) { w.Status.Phase = "Ready" },
			func(m map[string]any) { m["status"].(map[string]any)["phase"] = "Ready" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := parsed(t, richer)
			change.want(want)

			t.Run("Get and Update", func(t *testing.T) {
				s, c := play(t, reply{body: richer}, reply{body: richer})
				w, err := c.Get(t.Context(), key("a"))
				require.NoError(t, err)
				change.change(w)
				_, err = c.Update(t.Context(), w)
				require.NoError(t, err)
				s.require("GET "+widgetPath+"/a", "PUT "+widgetPath+"/a")
				require.Equal(t, want, parsed(t, s.body(1)))
			})
			t.Run("List and Update of a copy", func(t *testing.T) {
				s, c := play(t, reply{body: list("9", "", richer)}, reply{body: richer})
				l, err := c.List(t.Context(), client.In("default"))
				require.NoError(t, err)
				w := *l.Items[0]
				change.change(&w)
				_, err = c.Update(t.Context(), &w)
				require.NoError(t, err)
				s.require("GET "+widgetPath+"?limit=500", "PUT "+widgetPath+"/a")
				require.Equal(t, want, parsed(t, s.body(1)))
			})
			t.Run("Update of an object that is not remembered", func(t *testing.T) {
				s := &script{t: t, answers: []reply{{body: richer}, {body: richer}, {body: richer}}}
				c := serve(t, s, client.WithMemory(0))
				w, err := c.Get(t.Context(), key("a"))
				require.NoError(t, err)
				change.change(w)
				_, err = c.Update(t.Context(), w)
				require.NoError(t, err)
				s.require("GET "+widgetPath+"/a", "GET "+widgetPath+"/a", "PUT "+widgetPath+"/a")
				require.Equal(t, want, parsed(t, s.body(2)))
			})
			t.Run("Modify", func(t *testing.T) {
				s, c := play(t, reply{body: richer}, reply{body: richer})
				_, err := c.Modify(t.Context(), key("a"), func(w *widget) error { change.change(w); return nil })
				require.NoError(t, err)
				if name == "nothing" {
					s.require("GET " + widgetPath + "/a")
					return
				}
				require.Equal(t, want, parsed(t, s.body(1)))
			})
		})
	}
}

func TestUPDATE_04_ItemsWithoutNamesKeepTheirPlaces(t *testing.T) {
	type port struct {
		Port int `json:"port"`
	}
	type service struct {
		meta.ObjectMeta `json:"metadata"`
		Ports           []port `json:"ports"`
	}
	text := func(ports string) string {
		return `{"kind":"service","apiVersion":"v1","metadata":{"name":"a","namespace":"default","resourceVersion":"1"},"ports":` + ports + `}`
	}
	const before = `[{"port":1,"x":"one"},{"port":2,"x":"two"},{"port":2,"x":"two again"}]`
	for name, c := range map[string]struct {
		ports []port
		want  string
	}{
		"one changed":      {[]port{{1}, {3}, {2}}, `[{"port":1,"x":"one"},{"port":3,"x":"two"},{"port":2,"x":"two again"}]`},
		"the first gone":   {[]port{{2}, {2}}, `[{"port":2,"x":"two"},{"port":2,"x":"two again"}]`},
		"reversed":         {[]port{{2}, {2}, {1}}, `[{"port":2,"x":"two"},{"port":2,"x":"two again"},{"port":1,"x":"one"}]`},
		"other altogether": {[]port{{7}, {8}}, `[{"port":7},{"port":8}]`},
		"none":             {nil, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{t: t, answers: []reply{{body: text(before)}, {body: text(before)}}}
			tr := client.InProcess(s)
			defer tr.Close()
			h := client.For(&http.Client{Transport: tr}, client.Resource[service]{Version: "v1", Plural: "services"})
			_, err := h.Modify(t.Context(), key("a"), func(s *service) error { s.Ports = c.ports; return nil })
			require.NoError(t, err)
			require.JSONEq(t, text(c.want), s.body(1))
		})
	}
}

func TestUPDATE_04_WhatTheStructAlwaysSpellsOutIsNoChange(t *testing.T) {
	s, c := play(t, reply{body: object("a", "5")}, reply{body: object("a", "6")}) // without a spec, which every widget writes
	_, err := c.Modify(t.Context(), key("a"), func(w *widget) error { w.Status.Phase = "Ready"; return nil })
	require.NoError(t, err)
	require.JSONEq(t, object("a", "5", `"status":{"phase":"Ready"}`), s.body(1))
}

func TestUPDATE_04_AMapIsATypeToo(t *testing.T) {
	s := &script{t: t, answers: []reply{{body: richer}, {body: richer}}}
	tr := client.InProcess(s)
	defer tr.Close()
	c := client.For(&http.Client{Transport: tr}, client.Resource[map[string]any]{Group: "example.dev", Version: "v1", Plural: "widgets"})
	_, err := c.Modify(t.Context(), key("a"), func(m *map[string]any) error { (*m)["more"] = 1; return nil })
	require.NoError(t, err)
	want := parsed(t, richer)
	want["more"] = 1.0
	require.Equal(t, want, parsed(t, s.body(1)))
}

func TestUpdateWithoutAVersionReplacesAnyState(t *testing.T) {
	s, c := play(t, reply{body: object("a", "6")})
	w := named("a")
	w.Spec.Size = 2
	_, err := c.Update(t.Context(), w)
	require.NoError(t, err)
	s.require("PUT " + widgetPath + "/a")
	require.JSONEq(t, `{"kind":"Widget","apiVersion":"example.dev/v1","metadata":{"name":"a","namespace":"default"},"spec":{"size":2}}`, s.body(0))
}

func TestUPDATE_02_UpdateOfAnOldVersionIsAConflict(t *testing.T) {
	c := client.For(apitest.New(t, widgets()).Client(), widgets(), client.WithMemory(0))
	old, err := c.Create(t.Context(), named("a"))
	require.NoError(t, err)
	w := *old
	w.Spec.Size = 2
	_, err = c.Update(t.Context(), &w)
	require.NoError(t, err)
	old.Spec.Size = 3
	_, err = c.Update(t.Context(), old)
	require.True(t, status.IsConflict(err), "%v", err)
	got, err := c.Get(t.Context(), key("a"))
	require.NoError(t, err)
	require.EqualValues(t, 2, got.Spec.Size)
}

func TestUPDATE_03_ModifyWinsAgainstConflictingWriters(t *testing.T) {
	srv := apitest.New(t, widgets())
	c := client.For(srv.Client(), widgets())
	_, err := c.Create(t.Context(), named("a"))
	require.NoError(t, err)
	const writers, each = 8, 25
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			c := client.For(srv.Client(), widgets())
			for range each {
				_, err := c.Modify(t.Context(), key("a"), func(w *widget) error { w.Spec.Size++; return nil })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	w, err := c.Get(t.Context(), key("a"))
	require.NoError(t, err)
	require.EqualValues(t, writers*each, w.Spec.Size, "no change was lost, none was made twice")
}

func TestUPDATE_03_ModifySeesWhatTheOtherWriterMade(t *testing.T) {
	srv := apitest.New(t, widgets())
	c := client.For(srv.Client(), widgets())
	_, err := c.Create(t.Context(), named("a"))
	require.NoError(t, err)
	var seen []string
	w, err := c.Modify(t.Context(), key("a"), func(w *widget) error {
		seen = append(seen, w.Labels["by"])
		if len(seen) < 3 { // always overtaken by another writer
			_, err := c.Patch(t.Context(), key("a"), client.MergePatch(meta.RawJSON(fmt.Sprintf(`{"metadata":{"labels":{"by":"rival-%d"}}}`, len(seen)))))
			require.NoError(t, err)
		}
		w.Spec.Size = 9
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"", "rival-1", "rival-2"}, seen)
	require.Equal(t, "rival-2", w.Labels["by"])
	require.EqualValues(t, 9, w.Spec.Size)
}

func TestModifyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers []reply
		for range 100 {
			answers = append(answers, reply{body: object("a", "1")}, refuse(409, meta.ReasonConflict))
		}
		s, c := play(t, answers...)
		began := time.Now()
		calls := 0
		_, err := c.Modify(t.Context(), key("a"), func(w *widget) error { calls++; w.Spec.Size++; return nil })
		require.True(t, status.IsConflict(err), "with the last conflict")
		require.Equal(t, 20, calls)
		require.Len(t, s.asked, 40)
		require.Less(t, time.Since(began), 30*time.Second)
	})
	s, c := play(t, reply{body: object("a", "1")}, reply{body: object("a", "1")}, reply{body: object("a", "1")}, reply{body: object("a", "1")}, refuse(403, meta.ReasonForbidden), refuse(404, meta.ReasonNotFound))
	mine := errors.Join(status.Conflict(meta.GroupResource{Resource: "others"}, "x", "a conflict of another kind"))
	_, err := c.Modify(t.Context(), key("a"), func(*widget) error { return mine })
	require.Equal(t, mine, err, "an error of the change is returned as it is, also a conflict")
	_, err = c.Modify(t.Context(), key("a"), func(w *widget) error { w.Name = "b"; return nil })
	require.ErrorContains(t, err, "change must not modify the name, namespace or version")
	_, err = c.Modify(t.Context(), key("a"), func(*widget) error { return nil })
	require.NoError(t, err, "nothing to write")
	_, err = c.Modify(t.Context(), key("a"), func(w *widget) error { w.Spec.Size++; return nil })
	require.True(t, status.IsForbidden(err))
	_, err = c.Modify(t.Context(), key("a"), func(*widget) error { t.Error("called without an object"); return nil })
	require.True(t, status.IsNotFound(err))
	require.Empty(t, s.answers)
}

func TestUPDATE_04_AStructThatIsEmptiedKeepsWhatItsTypeDoesNotKnow(t *testing.T) {
	type spec struct {
		Steps []string `json:"steps,omitempty"`
	}
	type light struct {
		On bool `json:"on,omitempty"`
	}
	type machine struct {
		meta.ObjectMeta `json:"metadata"`
		Spec            spec   `json:"spec,omitzero"`
		Light           *light `json:"light,omitempty"`
	}
	text := func(rest string) string {
		return `{"kind":"machine","apiVersion":"v1","metadata":{"name":"a","namespace":"default","resourceVersion":"1"}` + rest + `}`
	}
	before := text(`,"spec":{"steps":["one"],"mode":"manual"},"light":{"on":true,"color":"red"}`)
	s := &script{t: t, answers: []reply{{body: before}, {body: before}}}
	tr := client.InProcess(s)
	defer tr.Close()
	h := client.For(&http.Client{Transport: tr}, client.Resource[machine]{Version: "v1", Plural: "machines"})
	_, err := h.Modify(t.Context(), key("a"), func(m *machine) error { m.Spec.Steps, m.Light = nil, nil; return nil })
	require.NoError(t, err)
	require.JSONEq(t, text(`,"spec":{"mode":"manual"}`), s.body(1), "a pointer that is set to nil means to remove what it points to")
}
