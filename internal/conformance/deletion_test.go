package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

const (
	kettlePath = "/apis/shop.example.com/v1/namespaces/default/kettles"
	lampPath   = "/apis/shop.example.com/v1/namespaces/default/lamps"
)

// Kettle sets its own grace period. A client that has emptied it removes it.
type Kettle struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Cooling *int64 `json:"cooling,omitempty"`
	Cold    bool   `json:"cold,omitempty"`
}

func kettles() registry.Kind[Kettle] {
	return registry.Kind[Kettle]{
		Group: group, Version: "v1", Plural: "kettles",
		Rules: registry.Rules[Kettle]{Grace: func(k *Kettle, asked *int64) int64 {
			switch {
			case k.Cold:
				return 0
			case asked != nil:
				return *asked
			case k.Cooling != nil:
				return *k.Cooling
			}
			return 30
		}},
		Deletion: registry.Deletion{AnswerObject: true},
	}
}

// Lamp has a grace period of ten seconds, after which the server removes it. Its dependents are
// orphaned. Some lamps may not be deleted.
type Lamp struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Lit bool `json:"lit,omitempty"`
}

func lamps() registry.Kind[Lamp] {
	return registry.Kind[Lamp]{
		Group: group, Version: "v1", Plural: "lamps",
		Deletion: registry.Deletion{Expire: true, Policy: meta.DeletePropagationOrphan},
		Rules: registry.Rules[Lamp]{
			Grace: registry.GraceSeconds[*Lamp](10),
			BeforeDelete: func(_ context.Context, l *Lamp) error {
				if l.Lit {
					return status.Conflict(meta.GroupResource{Group: group, Resource: "lamps"}, l.Name, "the lamp is lit")
				}
				return nil
			},
		},
	}
}

// graceful are the kinds of these tests with graceful deletion.
func graceful() kindwright.Option { return kindwright.Serve(kettles(), lamps()) }

// seconds returns how long from now an object will be removed.
func seconds(t *testing.T, a *answer) int {
	t.Helper()
	end, err := time.Parse(time.RFC3339, a.text("metadata", "deletionTimestamp"))
	require.NoError(t, err, "%s", a)
	return int(time.Until(end).Round(time.Second) / time.Second)
}

func TestDEL_01_DEL_02_DEL_03_DEL_04_OptionsInTheBodyAndInTheQuery(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(3)
		s.delete(widgetPath + "/w000")
		s.do("DELETE", widgetPath+"/w001", `{}`).is(200)
		s.do("DELETE", widgetPath+"/w002", `{"apiVersion":"v1","kind":"DeleteOptions"}`).is(200)
		require.Empty(t, s.get(widgetPath).names())
		s.widget("a", "")
		s.do("DELETE", widgetPath+"/a", `{"kind":"Widget"}`).refused(400, "BadRequest", "DeleteOptions")
		s.do("DELETE", widgetPath+"/a", `[]`).refused(400, "BadRequest", "DeleteOptions")
		s.do("DELETE", widgetPath+"/a", `{"gracePeriodSeconds":"soon"}`).refused(400, "BadRequest", "DeleteOptions")
		s.do("DELETE", widgetPath+"/a", `{"ignoreStoreReadErrorWithClusterBreakingPotential":false,"dryRun":["All"]}`).is(200)
		s.get(widgetPath + "/a").is(200)

		kettle := func() { s.create(kettlePath, `{"metadata":{"name":"k"}}`) }
		away := func() {
			s.do("DELETE", kettlePath+"/k", `{"gracePeriodSeconds":0}`).is(200)
			s.get(kettlePath + "/k").is(404)
		}
		kettle()
		require.Equal(t, 7, seconds(t, s.delete(kettlePath+"/k?gracePeriodSeconds=7"))) // DEL-02
		away()
		kettle()
		require.Equal(t, 8, seconds(t, s.do("DELETE", kettlePath+"/k", `{"gracePeriodSeconds":8}`).is(200)))
		away()

		for _, path := range []string{"?propagationPolicy=Orphan", ""} { // DEL-03
			body := ""
			if path == "" {
				body = `{"propagationPolicy":"Orphan"}`
			}
			s.create(slatePath, `{"metadata":{"name":"s","finalizers":["example.com/hold"]}}`)
			a := s.do("DELETE", slatePath+"/s"+path, body).is(200)
			require.Equal(t, []any{"example.com/hold", "orphan"}, a.at("metadata", "finalizers"))
			s.settle()
			s.patch(slatePath+"/s", `{"metadata":{"finalizers":null}}`)
			s.get(slatePath + "/s").is(404)
		}

		for _, o := range [][2]string{{"?dryRun=All", ""}, {"", `{"dryRun":["All"]}`}} { // DEL-04
			before := s.get(widgetPath + "/a").version()
			a := s.do("DELETE", widgetPath+"/a"+o[0], o[1]).is(200)
			require.Equal(t, "Success", a.text("status"))
			require.Equal(t, before, s.get(widgetPath+"/a").version())
		}
	}, graceful())
}

func TestDEL_05_DEL_14_TheAnswerToADeletion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		w := s.widget("w", "")
		a := s.delete(widgetPath + "/w")
		require.Equal(t, map[string]any{
			"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success",
			"details": map[string]any{"name": "w", "group": group, "kind": "widgets", "uid": w.text("metadata", "uid")},
		}, a.doc)
		// Events are deleted alike.
		s.create("/api/v1/namespaces/default/events", `{"metadata":{"name":"e"},"involvedObject":{"kind":"Widget","namespace":"default","name":"w"}}`)
		require.Equal(t, "Success", s.delete("/api/v1/namespaces/default/events/e").text("status"))
		// A kind may return the deleted object. An object that is only marked is always returned.
		s.create(kettlePath, `{"metadata":{"name":"k"},"cold":true}`)
		a = s.delete(kettlePath + "/k")
		require.Equal(t, "Kettle", a.text("kind"))
		require.Equal(t, true, a.at("cold"))
		s.get(kettlePath + "/k").is(404)
		s.create(slatePath, `{"metadata":{"name":"s","finalizers":["example.com/hold"]}}`)
		require.Equal(t, "Slate", s.delete(slatePath+"/s").text("kind"))
	}, graceful())
}

func TestDEL_06_DEL_15_ACollectionIsDeletedObjectByObject(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	refuse := ""
	rule := admission.Plugin{Name: "count", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Operation != admission.Delete || r.Resource.Resource != "slates" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		name := fmt.Sprint(at(r.OldObject, "metadata", "name")) // the request has none, as in Kubernetes
		asked[name]++
		if r.Object != nil || r.Name != "" || name == refuse {
			return admission.Denied(r, "not this one")
		}
		return nil
	})}
	onEach(t, func(t *testing.T, s *server) {
		mu.Lock()
		asked, refuse = map[string]int{}, ""
		mu.Unlock()
		const n = 40
		for i := range n {
			s.create(slatePath, fmt.Sprintf(`{"metadata":{"name":"s%03d"}}`, i))
		}
		s.create(strings.Replace(slatePath, "default", "kube-system", 1), `{"metadata":{"name":"elsewhere"}}`)
		w := s.watch(slatePath + "?watch=1&resourceVersion=" + s.get(slatePath).version())

		mu.Lock()
		refuse = "s020"
		mu.Unlock()
		s.do("DELETE", slatePath, "").refused(403, "Forbidden", "not this one")
		require.Len(t, s.get(slatePath).names(), 20, "objects before the failure are gone")
		mu.Lock()
		refuse = ""
		mu.Unlock()
		a := s.delete(slatePath)
		require.Equal(t, map[string]any{
			"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success",
			"details": map[string]any{"group": group, "kind": "slates"},
		}, a.doc)
		require.Empty(t, s.get(slatePath).names())
		require.Equal(t, []string{"kube-system/elsewhere"}, s.get(slatesPath).names())
		for i := range n { // DEL-15, WATCH-15
			w.expect("DELETED", fmt.Sprintf("s%03d", i))
			mu.Lock()
			require.Positive(t, asked[fmt.Sprintf("s%03d", i)], "admission is asked about each")
			mu.Unlock()
		}
		s.delete(slatePath).is(200) // an empty collection
		// It has its own verb.
		s.do("DELETE", slatePath, "", "X-User", "ann", "X-Groups", "none").refused(403, "Forbidden", "cannot deletecollection resource")
		// If a rule of the kind rejects a deletion, the request fails; the object is not skipped
		// like a missing one.
		s.create(lampPath, `{"metadata":{"name":"l"},"lit":true}`)
		s.do("DELETE", lampPath, "").refused(409, "Conflict", "the lamp is lit")
		s.do("DELETE", lampPath+"/l", `{"dryRun":["All"]}`).refused(409, "Conflict", "the lamp is lit")
	}, graceful(), kindwright.Admit(rule))
}

func TestDEL_07_ParametersOfACollection(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		fill := func() {
			s.do("DELETE", widgetPath, "").is(200)
			for i := range 4 {
				s.create(widgetPath, widgetJSON(fmt.Sprintf("w%d", i), fmt.Sprintf("n=%d", i), []string{"red", "blue"}[i%2], 1))
			}
		}
		left := func() []string { return s.get(widgetPath).names() }
		fill()
		s.delete(widgetPath + "?fieldSelector=spec.color%3Dred")
		require.Equal(t, []string{"w1", "w3"}, left())
		s.do("DELETE", widgetPath+"?fieldSelector=no.such%3Dred", "").refused(400, "BadRequest", "no.such")
		fill()
		s.delete(widgetPath + "?labelSelector=n+in+(0,3)")
		require.Equal(t, []string{"w1", "w2"}, left())
		fill()
		s.delete(widgetPath + "?limit=3")
		require.Equal(t, []string{"w3"}, left())
		fill()
		page := s.get(widgetPath + "?limit=2")
		s.delete(widgetPath + "?limit=1&continue=" + page.next())
		require.Equal(t, []string{"w0", "w1", "w3"}, left())
		fill()
		old := s.get(widgetPath).version()
		s.delete(widgetPath + "/w0")
		s.widget("w9", "")
		s.delete(widgetPath + "?resourceVersion=" + old + "&resourceVersionMatch=Exact")
		require.Equal(t, []string{"w9"}, left(), "later objects are not selected, missing ones are skipped")
		fill()
		require.Len(t, left(), 4)
		require.Len(t, left(), 4, "both of a pair of servers have seen them: 0 is any version that a server has")
		s.delete(widgetPath + "?resourceVersion=0")
		require.Empty(t, left())
		s.do("DELETE", widgetPath+"?resourceVersionMatch=Exact", "").refused(422, "Invalid", "resourceVersionMatch")
		fill()
		s.delete(widgetPath + "?sendInitialEvents=true") // READ-05
		require.Empty(t, left())
		fill()
		s.delete(widgetPath + "?timeoutSeconds=20&pretty=true")
		require.Empty(t, left())
		fill()
		s.delete(widgetPath + "?dryRun=All")
		require.Len(t, left(), 4)
		s.delete(widgetPath + "?propagationPolicy=Orphan")
		s.settle()
		require.Empty(t, left())
		for i := range 2 {
			s.create(kettlePath, fmt.Sprintf(`{"metadata":{"name":"k%d"}}`, i))
		}
		s.delete(kettlePath + "?gracePeriodSeconds=9")
		for _, name := range []string{"k0", "k1"} {
			require.Equal(t, 9, seconds(t, s.get(kettlePath+"/"+name)))
		}
		s.do("DELETE", kettlePath, `{"gracePeriodSeconds":0}`).is(200)
		require.Empty(t, s.get(kettlePath).names())
		// An object that was recreated meanwhile is not selected.
		fill()
		old = s.get(widgetPath).version()
		s.delete(widgetPath + "/w2")
		s.widget("w2", "")
		s.delete(widgetPath + "?resourceVersion=" + old + "&resourceVersionMatch=Exact")
		require.Equal(t, []string{"w2"}, left())
	}, graceful())
}

func TestDEL_08_GracefulDeletion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, c := range []struct {
			object, options string
			want            int
		}{
			{``, ``, 30},
			{`,"cooling":50`, ``, 50},
			{`,"cooling":50`, `{"gracePeriodSeconds":20}`, 20},
			{`,"cooling":50`, `{"gracePeriodSeconds":90}`, 90},
			{`,"cooling":-5`, ``, 1},
			{``, `{"gracePeriodSeconds":9223372036854775807}`, 1<<31 - 1},
		} {
			created := s.create(kettlePath, `{"metadata":{"name":"k"}`+c.object+`}`)
			a := s.do("DELETE", kettlePath+"/k", c.options).is(200)
			require.Equal(t, c.want, seconds(t, a))
			require.InDelta(t, c.want, a.at("metadata", "deletionGracePeriodSeconds"), 0)
			require.InDelta(t, 2, a.at("metadata", "generation"), 0, "META-12")
			require.NotEqual(t, created.version(), a.version())
			// Only the client that finishes the work removes the object.
			time.Sleep(2 * time.Minute)
			require.Equal(t, a.version(), s.get(kettlePath+"/k").is(200).version())
			require.Equal(t, "Kettle", s.delete(kettlePath+"/k?gracePeriodSeconds=0").text("kind"))
			s.get(kettlePath + "/k").is(404)
		}
		// The kind may skip the grace period, whatever the request asks for.
		s.create(kettlePath, `{"metadata":{"name":"k"},"cold":true}`)
		s.delete(kettlePath + "/k?gracePeriodSeconds=50")
		s.get(kettlePath + "/k").is(404)
		// Other kinds ignore the period.
		s.widget("w", "")
		s.delete(widgetPath + "/w?gracePeriodSeconds=50")
		s.get(widgetPath + "/w").is(404)
		// A kind with grace periods shows the mark before each removal, as kube-apiserver does for pods.
		s.create(kettlePath, `{"metadata":{"name":"k"}}`)
		w := s.watch(kettlePath + "?watch=1&resourceVersion=" + s.get(kettlePath).version())
		s.delete(kettlePath + "/k?gracePeriodSeconds=0")
		require.Contains(t, w.expect("MODIFIED", "k").line, `"deletionGracePeriodSeconds":0,`)
		require.Contains(t, w.expect("DELETED", "k").line, `"deletionTimestamp":`)
		w.quiet(time.Second)
		// The same as a dry run.
		s.create(kettlePath, `{"metadata":{"name":"k"}}`)
		require.Equal(t, 30, seconds(t, s.delete(kettlePath+"/k?dryRun=All")))
		marked := s.delete(kettlePath + "/k?dryRun=All&gracePeriodSeconds=0")
		require.InDelta(t, 0, marked.at("metadata", "deletionGracePeriodSeconds"), 0)
		require.Equal(t, 0, seconds(t, marked))
		require.Empty(t, s.get(kettlePath+"/k").is(200).text("metadata", "deletionTimestamp"))
		s.delete(kettlePath + "/k")
		require.Equal(t, 5, seconds(t, s.delete(kettlePath+"/k?dryRun=All&gracePeriodSeconds=5")))
		require.Equal(t, 30, seconds(t, s.get(kettlePath+"/k")))
		w.expect("ADDED", "k")
		w.expect("MODIFIED", "k")
		w.quiet(time.Second)
		// An earlier end is shown, too. It is not in the past.
		time.Sleep(10 * time.Second)
		for _, c := range []struct {
			query string
			want  int
		}{{"gracePeriodSeconds=3&dryRun=All", 1}, {"gracePeriodSeconds=0&dryRun=All", 0}, {"gracePeriodSeconds=0", 0}} {
			ended := s.delete(kettlePath + "/k?" + c.query)
			require.InDelta(t, c.want, ended.at("metadata", "deletionGracePeriodSeconds"), 0, c.query)
			require.Equal(t, 0, seconds(t, ended), c.query)
		}
		require.Contains(t, w.expect("MODIFIED", "k").line, `"deletionGracePeriodSeconds":0,`)
		w.expect("DELETED", "k")
		w.quiet(time.Second)
	}, graceful())
}

func TestDEL_08_TheServerEndsGracePeriods(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := start(t, open, graceful())
		s.create(lampPath, `{"metadata":{"name":"a"}}`)
		s.create(lampPath, `{"metadata":{"name":"held","finalizers":["example.com/hold"]}}`)
		for _, name := range []string{"a", "held"} {
			require.Equal(t, 10, seconds(t, s.delete(lampPath+"/"+name+"?propagationPolicy=Background")))
		}
		time.Sleep(9 * time.Second)
		s.get(lampPath + "/a").is(200)
		w := s.watch(lampPath + "?watch=1&resourceVersion=" + s.get(lampPath).version())
		time.Sleep(2 * time.Second)
		w.expect("DELETED", "a")
		w.expect("MODIFIED", "held")
		held := s.get(lampPath + "/held").is(200)
		require.InDelta(t, 0, held.at("metadata", "deletionGracePeriodSeconds"), 0)
		s.patch(lampPath+"/held", `{"metadata":{"finalizers":null}}`)
		s.get(lampPath + "/held").is(404)

		// Removing a finalizer early does not shorten the grace period.
		s.create(lampPath, `{"metadata":{"name":"b","finalizers":["example.com/hold"]}}`)
		s.delete(lampPath + "/b?propagationPolicy=Background")
		s.patch(lampPath+"/b", `{"metadata":{"finalizers":null}}`)
		s.get(lampPath + "/b").is(200)
		// An earlier end is kept.
		s.create(lampPath, `{"metadata":{"name":"c"}}`)
		s.delete(lampPath + "/c?gracePeriodSeconds=600&propagationPolicy=Background")
		s.delete(lampPath + "/c?gracePeriodSeconds=20")
		// All of this continues after a restart.
		time.Sleep(5 * time.Second)
		s.stop()
		s = start(t, open, graceful())
		s.get(lampPath + "/b").is(200)
		time.Sleep(6 * time.Second)
		s.get(lampPath + "/b").is(404)
		s.get(lampPath + "/c").is(200)
		time.Sleep(10 * time.Second)
		s.get(lampPath + "/c").is(404)
	})
}

func TestDEL_09_ATerminatingObjectStaysReadable(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(slatePath, `{"metadata":{"name":"s","finalizers":["example.com/hold"]}}`)
		s.create(kettlePath, `{"metadata":{"name":"s"}}`)
		for _, path := range []string{slatePath, kettlePath} {
			s.delete(path + "/s")
			require.NotEmpty(t, s.get(path+"/s").is(200).text("metadata", "deletionTimestamp"))
			require.Equal(t, []string{"s"}, s.get(path).names())
			s.patch(path+"/s", `{"metadata":{"labels":{"still":"here"}}}`)
			s.do("POST", path, `{"metadata":{"name":"s"}}`).refused(409, "AlreadyExists", "object is being deleted")
		}
		again := s.get(slatePath + "/s").version()
		s.delete(slatePath + "/s")
		require.Equal(t, again, s.get(slatePath+"/s").version(), "a second DELETE has no effect")
		s.do("PATCH", slatePath+"/s", `{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}`, "Content-Type", "application/merge-patch+json").
			refused(422, "Invalid", "no new finalizers can be added if the object is being deleted")
	}, graceful())
}

// A write that removes the last finalizer, of any kind, removes the object in the same request and
// returns it.
func TestDEL_09_TheLastFinalizerGoes(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		w := s.watch(slatePath + "?watch=1&resourceVersion=" + s.get(slatePath).version())
		for kind, off := range map[string]func() *answer{
			"PUT":   func() *answer { return s.do("PUT", slatePath+"/s", `{"metadata":{"name":"s"}}`) },
			"merge": func() *answer { return s.patch(slatePath+"/s", `{"metadata":{"finalizers":null}}`) },
			"json": func() *answer {
				return s.do("PATCH", slatePath+"/s", `[{"op":"remove","path":"/metadata/finalizers"}]`, "Content-Type", "application/json-patch+json")
			},
			"strategic": func() *answer {
				return s.do("PATCH", slatePath+"/s", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/hold"]}}`, "Content-Type", "application/strategic-merge-patch+json")
			},
			"apply": func() *answer {
				return s.do("PATCH", slatePath+"/s?fieldManager=ann&force=true", `{"apiVersion":"shop.example.com/v1","kind":"Slate","metadata":{"name":"s"}}`, "Content-Type", "application/apply-patch+yaml")
			},
		} {
			body := `{"apiVersion":"shop.example.com/v1","kind":"Slate","metadata":{"name":"s","finalizers":["example.com/hold"]}}`
			if kind == "apply" {
				s.do("PATCH", slatePath+"/s?fieldManager=ann", body, "Content-Type", "application/apply-patch+yaml").is(201)
			} else {
				s.create(slatePath, body)
			}
			s.delete(slatePath + "/s")
			a := off().is(200)
			require.Equal(t, "Slate", a.text("kind"), "%s", kind)
			require.NotEmpty(t, a.text("metadata", "deletionTimestamp"), "%s", kind)
			s.get(slatePath + "/s").is(404)
			w.expect("ADDED", "s")
			w.expect("MODIFIED", "s")
			w.expect("DELETED", "s")
		}
	})
}

func TestDEL_10_PoliciesAndTheirFinalizers(t *testing.T) {
	const hold = "example.com/hold"
	onEach(t, func(t *testing.T, s *server) {
		for _, c := range []struct {
			name, path string
			before     string
			options    string
			want       []any
		}{
			{"nothing said", slatePath, "", `{}`, []any{hold}},
			{"Background", slatePath, "", `{"propagationPolicy":"Background"}`, []any{hold}},
			{"Foreground", slatePath, "", `{"propagationPolicy":"Foreground"}`, []any{hold, "foregroundDeletion"}},
			{"Orphan", slatePath, "", `{"propagationPolicy":"Orphan"}`, []any{hold, "orphan"}},
			{"orphanDependents", slatePath, "", `{"orphanDependents":true}`, []any{hold, "orphan"}},
			{"no orphanDependents", slatePath, "orphan", `{"orphanDependents":false}`, []any{hold}},
			{"its own finalizer stands", slatePath, "foregroundDeletion", `{}`, []any{"foregroundDeletion", hold}},
			{"a request beats it", slatePath, "foregroundDeletion", `{"propagationPolicy":"Orphan"}`, []any{hold, "orphan"}},
			{"and takes it off", slatePath, "orphan", `{"propagationPolicy":"Background"}`, []any{hold}},
			{"the kind's own policy", lampPath, "", `{"gracePeriodSeconds":0}`, []any{hold, "orphan"}},
			{"a finalizer beats it", lampPath, "foregroundDeletion", `{"gracePeriodSeconds":0}`, []any{"foregroundDeletion", hold}},
			{"and so does a request", lampPath, "", `{"gracePeriodSeconds":0,"propagationPolicy":"Background"}`, []any{hold}},
		} {
			finalizers := `"` + hold + `"`
			if c.before != "" {
				finalizers = `"` + c.before + `",` + finalizers
			}
			s.create(c.path, `{"metadata":{"name":"x","finalizers":[`+finalizers+`]}}`)
			answered := s.do("DELETE", c.path+"/x", c.options)
			require.Contains(t, []int{200, 202}, answered.code)
			require.Equal(t, c.want, answered.at("metadata", "finalizers"), c.name)
			s.settle()
			s.patch(c.path+"/x", `{"metadata":{"finalizers":null}}`)
			s.get(c.path + "/x").is(404)
		}
		s.widget("w", "")
		for _, options := range []string{`{"propagationPolicy":"Backwards"}`, `{"propagationPolicy":""}`, `{"propagationPolicy":"orphan"}`} {
			s.do("DELETE", widgetPath+"/w", options).refused(422, "Invalid", "propagationPolicy")
		}
		s.do("DELETE", widgetPath+"/w?propagationPolicy=Backwards", "").refused(422, "Invalid", "propagationPolicy")
		// Events own nothing, so the collector would never remove the finalizer.
		s.create("/api/v1/namespaces/default/events", `{"metadata":{"name":"e"},"involvedObject":{"kind":"Widget","namespace":"default","name":"w"}}`)
		s.deleteWith("/api/v1/namespaces/default/events/e", "Orphan")
		s.get("/api/v1/namespaces/default/events/e").is(404)
		// Having both finalizers is invalid.
		s.do("POST", slatePath, `{"metadata":{"name":"y","finalizers":["orphan","foregroundDeletion"]}}`).refused(422, "Invalid", "exclude each other")
		// While an object is being deleted, another deletion may change the policy, but an update
		// may not.
		s.create(slatePath, `{"metadata":{"name":"z","finalizers":["`+hold+`"]}}`)
		s.delete(slatePath + "/z")
		s.do("PATCH", slatePath+"/z", `{"metadata":{"finalizers":["`+hold+`","orphan"]}}`, "Content-Type", "application/merge-patch+json").refused(422, "Invalid", "no new finalizers")
		require.Equal(t, []any{hold, "orphan"}, s.deleteWith(slatePath+"/z", "Orphan").at("metadata", "finalizers"))
	}, graceful())
}

func TestDEL_11_Preconditions(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		first := s.widget("w", "")
		s.delete(widgetPath + "/w")
		second := s.widget("w", "")
		s.do("DELETE", widgetPath+"/w", `{"preconditions":{"uid":"`+first.text("metadata", "uid")+`"}}`).refused(409, "Conflict", "the UID in the precondition")
		s.do("DELETE", widgetPath+"/w", `{"preconditions":{"resourceVersion":"`+first.version()+`"}}`).refused(409, "Conflict", "the ResourceVersion in the precondition")
		s.do("DELETE", widgetPath+"/w", `{"preconditions":{"resourceVersion":"x"}}`).refused(400, "BadRequest", "preconditions")
		for _, never := range []string{`{"resourceVersion":"0"}`, `{"resourceVersion":""}`, `{"uid":""}`} { // no object has these
			s.do("DELETE", widgetPath+"/w", `{"preconditions":`+never+`}`).refused(409, "Conflict", "in precondition")
			s.do("DELETE", widgetPath, `{"preconditions":`+never+`}`).refused(409, "Conflict", "in precondition")
			s.do("DELETE", widgetPath+"/absent", `{"preconditions":`+never+`}`).refused(404, "NotFound", "")
		}
		s.get(widgetPath + "/w").is(200)
		third := s.patch(widgetPath+"/w", `{"metadata":{"labels":{"a":"b"}}}`)
		s.do("DELETE", widgetPath+"/w", `{"preconditions":{"uid":"`+second.text("metadata", "uid")+`","resourceVersion":"`+second.version()+`"}}`).refused(409, "Conflict", "ResourceVersion")
		s.do("DELETE", widgetPath+"/w", `{"dryRun":["All"],"preconditions":{"uid":"`+first.text("metadata", "uid")+`"}}`).refused(409, "Conflict", "UID")
		s.do("DELETE", widgetPath+"/w", `{"preconditions":{"uid":"`+second.text("metadata", "uid")+`","resourceVersion":"`+third.version()+`"}}`).is(200)
		// For a collection, each object must meet them.
		s.widgets(3)
		s.do("DELETE", widgetPath, `{"preconditions":{"uid":"`+s.get(widgetPath+"/w000").text("metadata", "uid")+`"}}`).refused(409, "Conflict", "UID")
		require.Equal(t, []string{"w001", "w002"}, s.get(widgetPath).names())
		// The same holds after the deletion has begun.
		k := s.create(kettlePath, `{"metadata":{"name":"k"}}`)
		s.delete(kettlePath + "/k")
		s.do("DELETE", kettlePath+"/k", `{"gracePeriodSeconds":0,"preconditions":{"resourceVersion":"`+k.version()+`"}}`).refused(409, "Conflict", "ResourceVersion")
	}, graceful())
}

// Clients tell a lost race by these words of kube-apiserver. Some actions have other ones.
func TestDEL_11_WordsOfPreconditions(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		w := s.widget("w", "")
		uid, version := w.text("metadata", "uid"), w.version()
		for _, path := range []string{widgetPath + "/w", widgetPath} {
			a := s.do("DELETE", path, `{"preconditions":{"uid":"other"}}`)
			require.Equal(t, "Widget", a.at("details", "kind"), "others name the resource")
			a.refused(409, "Conflict", `Operation cannot be fulfilled on Widget.shop.example.com "w": the UID in the precondition (other) `+
				"does not match the UID in record ("+uid+"). The object might have been deleted and then recreated")
			s.do("DELETE", path, `{"preconditions":{"resourceVersion":"1"}}`).refused(409, "Conflict", "the ResourceVersion in the precondition (1) "+
				"does not match the ResourceVersion in record ("+version+"). The object might have been modified")
		}
		s.do("DELETE", widgetPath+"/w?uid=other", "").refused(409, "Conflict", "the UID in the precondition (other)")
	})
}

// A deletion with preconditions never removes a successor of the object.
func TestDEL_11_WhileTheObjectIsRecreated(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		var running sync.WaitGroup
		uids := make(chan string, 1000)
		running.Go(func() {
			defer close(uids)
			for range 50 {
				uids <- s.widget("w", "").text("metadata", "uid")
				s.do("DELETE", widgetPath+"/w", "")
			}
			s.widget("w", "")
		})
		for uid := range uids {
			a := s.do("DELETE", widgetPath+"/w", `{"preconditions":{"uid":"`+uid+`"}}`)
			require.Contains(t, []int{200, 404, 409}, a.code)
			if a.code == 200 {
				require.Equal(t, uid, a.text("details", "uid"))
			}
		}
		running.Wait()
		s.get(widgetPath + "/w").is(200)
	})
}

// Kubernetes takes the options of the body and ignores those of the query. Here nothing is lost: the
// two agree, or one of them has no option, or the request is rejected.
func TestDEL_12_S2_QueryAndBodyAgree(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(slatePath, `{"metadata":{"name":"s","finalizers":["example.com/hold"]}}`)
		uid := s.get(slatePath+"/s").text("metadata", "uid")
		s.untouched(slatePath, func() {
			for query, body := range map[string]string{
				"dryRun=All": `{"propagationPolicy":"Foreground"}`,
				"dryRun=All&propagationPolicy=Foreground":              `{"propagationPolicy":"Foreground"}`,
				"dryRun=All&gracePeriodSeconds=0":                      `{"gracePeriodSeconds":0}`,
				"propagationPolicy=Orphan":                             `{"propagationPolicy":"Foreground"}`,
				"propagationPolicy=Background&gracePeriodSeconds=3":    `{"propagationPolicy":"Background","gracePeriodSeconds":4}`,
				"propagationPolicy=Orphan&ignored=true":                `{"orphanDependents":true}`,
				"orphanDependents=true":                                `{"orphanDependents":false}`,
				"orphanDependents=true&dryRun=All":                     `{"propagationPolicy":"Orphan","dryRun":["All"]}`,
				"uid=" + uid:                                           `{"gracePeriodSeconds":0}`,
				"uid=other&dryRun=All":                                 `{"dryRun":["All"],"preconditions":{"uid":"` + uid + `"}}`,
				"gracePeriodSeconds=0&propagationPolicy=Orphan&pretty": `{"gracePeriodSeconds":0}`,
			} {
				for _, path := range []string{slatePath, slatePath + "/s"} {
					s.do("DELETE", path+"?"+query, body).refused(400, "BadRequest", "disagree about")
				}
			}
			s.do("DELETE", slatePath+"/s?dryRun=All", `{"dryRun":["All"],"propagationPolicy":"Orphan"}`).is(200)
			s.do("DELETE", slatePath+"?dryRun=All&dryRun=All", `{"kind":"DeleteOptions","apiVersion":"v1"}`).is(200)
			s.do("DELETE", slatePath+"/s?dryRun=All&uid="+uid, `{"dryRun":["All"],"preconditions":{"uid":"`+uid+`"}}`).is(200)
		})
		s.create(kettlePath, `{"metadata":{"name":"k"}}`)
		require.Equal(t, 30, seconds(t, s.do("DELETE", kettlePath+"/k", `{}`).is(200)))
		require.Equal(t, 7, seconds(t, s.do("DELETE", kettlePath+"/k?gracePeriodSeconds=7", `{}`).is(200)), "the query counts beside a body without options")
		s.do("DELETE", kettlePath+"/k", `{"orphanDependents":true,"propagationPolicy":"Orphan"}`).refused(422, "Invalid", "orphanDependents and")
		for _, body := range []string{"", `{}`} {
			s.do("DELETE", kettlePath+"/k?orphanDependents=true&propagationPolicy=Orphan", body).refused(422, "Invalid", "orphanDependents and")
		}
	}, graceful())
}

func TestDEL_13_NegativeGraceAndAccepted(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(kettlePath, `{"metadata":{"name":"k"}}`)
		a := s.delete(kettlePath + "/k?gracePeriodSeconds=-7")
		require.Equal(t, 1, seconds(t, a))
		require.InDelta(t, 1, a.at("metadata", "deletionGracePeriodSeconds"), 0)
		s.delete(kettlePath + "/k?gracePeriodSeconds=0")

		for _, c := range []struct {
			finalizers, options string
			code                int
		}{
			{``, `{"orphanDependents":false}`, 200},
			{`"example.com/hold"`, `{"orphanDependents":false}`, 202},
			{`"example.com/hold"`, `{}`, 200},
			{`"example.com/hold"`, `{"propagationPolicy":"Background"}`, 200},
			{`"example.com/hold"`, `{"orphanDependents":true}`, 200},
		} {
			s.create(slatePath, `{"metadata":{"name":"s","finalizers":[`+c.finalizers+`]}}`)
			s.do("DELETE", slatePath+"/s", c.options).is(c.code)
			s.settle()
			s.do("PATCH", slatePath+"/s", `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
		}
	}, graceful())
}

func TestMETA_15_GraceIsOnlyShortened(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(kettlePath, `{"metadata":{"name":"k","deletionGracePeriodSeconds":5}}`)
		require.Nil(t, s.get(kettlePath+"/k").at("metadata", "deletionGracePeriodSeconds"), "only the server sets the field")
		period := func(a *answer) (int, any) { return seconds(t, a), a.at("metadata", "deletionGracePeriodSeconds") }
		check := func(a *answer, want float64) {
			t.Helper()
			left, given := period(a.is(200))
			require.InDelta(t, want, given, 0)
			require.Equal(t, int(want), left)
		}
		check(s.delete(kettlePath+"/k?gracePeriodSeconds=30"), 30)
		version := s.get(kettlePath + "/k").version()
		check(s.delete(kettlePath+"/k?gracePeriodSeconds=60"), 30)
		check(s.delete(kettlePath+"/k?gracePeriodSeconds=30&propagationPolicy=Foreground"), 30)
		check(s.delete(kettlePath+"/k"), 30)
		require.Equal(t, version, s.get(kettlePath+"/k").version(), "the object must not change")
		check(s.delete(kettlePath+"/k?gracePeriodSeconds=10"), 10)
		require.InDelta(t, 2, s.get(kettlePath+"/k").at("metadata", "generation"), 0)
		check(s.patch(kettlePath+"/k", `{"metadata":{"deletionGracePeriodSeconds":99,"deletionTimestamp":null,"labels":{"a":"b"}}}`), 10)
		// The period counts from the first request.
		time.Sleep(4 * time.Second)
		a := s.delete(kettlePath + "/k?gracePeriodSeconds=7")
		require.Equal(t, 3, seconds(t, a))
		s.delete(kettlePath + "/k?gracePeriodSeconds=0")
		s.get(kettlePath + "/k").is(404)
		// With finalizers, the object stays after the period has ended.
		s.create(kettlePath, `{"metadata":{"name":"h","finalizers":["example.com/hold"]}}`)
		check(s.delete(kettlePath+"/h"), 30)
		check(s.delete(kettlePath+"/h?gracePeriodSeconds=0"), 0)
		s.patch(kettlePath+"/h", `{"metadata":{"finalizers":null}}`)
		s.get(kettlePath + "/h").is(404)
	}, graceful())
}

// A watch shows every way in which an object can go (WATCH-15).
func TestWATCH_15_AndMoreWays(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("n")
		const path = "/apis/shop.example.com/v1/namespaces/n/slates"
		owner := s.create(strings.Replace(widgetPath, "default", "n", 1), `{"metadata":{"name":"owner"}}`)
		s.create(path, `{"metadata":{"name":"alone"}}`)
		s.create(path, `{"metadata":{"name":"one","labels":{"a":"b"}}}`)
		s.create(path, `{"metadata":{"name":"held","finalizers":["example.com/hold"]}}`)
		s.owned(path, "owned", "", ref(owner))
		s.create(path, `{"metadata":{"name":"last"}}`)
		s.create("/api/v1/namespaces/default/events", `{"metadata":{"name":"event"},"involvedObject":{"kind":"Widget","namespace":"default","name":"w"}}`)
		s.create(strings.Replace(lampPath, "default", "n", 1), `{"metadata":{"name":"lamp"}}`)
		from := s.get(slatesPath).version()
		w := s.watch(slatesPath + "?watch=1&resourceVersion=" + from)
		lamp := s.watch("/apis/shop.example.com/v1/lamps?watch=1&resourceVersion=" + from)

		s.delete(path + "/alone")
		w.expect("DELETED", "alone")
		s.delete(path + "?labelSelector=a%3Db")
		w.expect("DELETED", "one")
		s.delete(path + "/held")
		w.expect("MODIFIED", "held")
		s.patch(path+"/held", `{"metadata":{"finalizers":null}}`)
		w.expect("DELETED", "held")
		s.delete(strings.Replace(widgetPath, "default", "n", 1) + "/owner")
		w.expect("DELETED", "owned")
		s.do("DELETE", strings.Replace(lampPath, "default", "n", 1)+"/lamp", `{"propagationPolicy":"Background"}`).is(200)
		lamp.expect("MODIFIED", "lamp")
		time.Sleep(11 * time.Second)
		lamp.expect("DELETED", "lamp")
		s.delete("/api/v1/namespaces/n")
		w.expect("DELETED", "last")
		time.Sleep(55 * time.Minute)
		events := s.watch("/api/v1/events?watch=1&resourceVersion=" + s.get("/api/v1/events").version())
		time.Sleep(6 * time.Minute)
		for e := events.change(); e.name() != "event"; e = events.change() {
			require.Equal(t, "DELETED", e.kind)
		}
		s.get("/api/v1/namespaces/default/events/event").is(404)
	}, graceful())
}
