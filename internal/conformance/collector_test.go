package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
)

const slatesPath = "/apis/shop.example.com/v1/slates"

// ref returns an owner reference to an object that the server returned, with more members.
func ref(owner *answer, more ...string) string {
	fields := append([]string{
		fmt.Sprintf(`"apiVersion":%q`, owner.text("apiVersion")), fmt.Sprintf(`"kind":%q`, owner.text("kind")),
		fmt.Sprintf(`"name":%q`, owner.text("metadata", "name")), fmt.Sprintf(`"uid":%q`, owner.text("metadata", "uid")),
	}, more...)
	return "{" + strings.Join(fields, ",") + "}"
}

const blocks = `"blockOwnerDeletion":true`

// owned creates an object with owners in the collection at path. metadata is more metadata, such as
// `,"finalizers":["x.y/z"]`.
func (s *server) owned(path, name, metadata string, refs ...string) *answer {
	s.t.Helper()
	return s.create(path, fmt.Sprintf(`{"metadata":{"name":%q,"ownerReferences":[%s]%s}}`, name, strings.Join(refs, ","), metadata))
}

// gone requires that an object is gone once the server is idle.
func (s *server) gone(paths ...string) {
	s.t.Helper()
	s.settle()
	for _, p := range paths {
		s.get(p).is(404)
	}
}

// settle waits until the collector has no immediate work left.
func (s *server) settle() {
	s.t.Helper()
	synctest.Wait()
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func (s *server) deleteWith(path, policy string) *answer {
	s.t.Helper()
	return s.do("DELETE", path, `{"propagationPolicy":"`+policy+`"}`).is(200)
}

// ownersOf returns the names of the owners that an object references.
func ownersOf(a *answer) []string {
	out := []string{}
	refs, _ := a.at("metadata", "ownerReferences").([]any)
	for _, r := range refs {
		out = append(out, fmt.Sprint(at(r, "name")))
	}
	return out
}

func TestGC_01_DependentsOfADeletedOwnerAreDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a, b := s.widget("a", ""), s.widget("b", "")
		zone := s.create(zonePath, `{"metadata":{"name":"z"}}`)
		only := s.owned(slatePath, "only", "", ref(a))
		s.owned(slatePath, "both", "", ref(a), ref(b))
		s.owned(slatePath, "zoned", "", ref(zone))
		s.owned(gaugePath, "below", "", ref(only))
		s.create(slatePath, `{"metadata":{"name":"free"}}`)
		s.settle()
		w := s.watch(slatesPath + "?watch=1&resourceVersion=" + s.get(slatesPath).version())

		s.delete(widgetPath + "/a")
		s.gone(slatePath+"/only", gaugePath+"/below")
		require.Equal(t, []string{"b"}, ownersOf(s.get(slatePath+"/both").is(200)), "one owner is left")
		s.get(slatePath + "/zoned").is(200)
		s.get(slatePath + "/free").is(200)
		seen := map[string]string{}
		for range 2 {
			e := w.change()
			seen[e.name()] = e.kind
		}
		require.Equal(t, map[string]string{"only": "DELETED", "both": "MODIFIED"}, seen)
		w.quiet(time.Minute)

		s.deleteWith(widgetPath+"/b", "Background")
		s.delete(zonePath + "/z")
		s.gone(slatePath+"/both", slatePath+"/zoned")
		s.get(slatePath + "/free").is(200)

		// A dependent created after its owner was deleted goes too.
		s.owned(slatePath, "late", "", ref(a))
		s.gone(slatePath + "/late")
	})
}

func TestGC_02_AForegroundDeletionWaitsForBlockingDependents(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.widget("a", "")
		s.owned(slatePath, "held", `,"finalizers":["example.com/hold"]`, ref(a, blocks))
		s.owned(slatePath, "loose", `,"finalizers":["example.com/hold"]`, ref(a))
		s.owned(gaugePath, "quick", "", ref(a, blocks))
		answered := s.deleteWith(widgetPath+"/a", "Foreground")
		require.Equal(t, []any{"foregroundDeletion"}, answered.at("metadata", "finalizers"))
		require.NotEmpty(t, answered.text("metadata", "deletionTimestamp"))
		s.settle()

		s.get(gaugePath + "/quick").is(404)
		for _, name := range []string{"held", "loose"} {
			require.NotEmpty(t, s.get(slatePath+"/"+name).is(200).text("metadata", "deletionTimestamp"), "%s is being deleted", name)
		}
		s.get(widgetPath + "/a").is(200)
		s.patch(slatePath+"/held", `{"metadata":{"finalizers":null}}`)
		s.gone(slatePath+"/held", widgetPath+"/a")
		s.get(slatePath + "/loose").is(200) // it does not block its owner

		// A dependent that stops blocking releases its owner.
		b := s.widget("b", "")
		s.owned(slatePath, "held", `,"finalizers":["example.com/hold"]`, ref(b, blocks))
		s.deleteWith(widgetPath+"/b", "Foreground")
		s.settle()
		s.get(widgetPath + "/b").is(200)
		s.patch(slatePath+"/held", `{"metadata":{"ownerReferences":[`+ref(b, `"blockOwnerDeletion":false`)+`]}}`)
		s.gone(widgetPath + "/b")

		// All descendants go before the first owner.
		c := s.widget("c", "")
		child := s.owned(slatePath, "child", "", ref(c, blocks))
		s.owned(gaugePath, "grandchild", `,"finalizers":["example.com/hold"]`, ref(child, blocks))
		s.deleteWith(widgetPath+"/c", "Foreground")
		s.settle()
		s.get(slatePath + "/child").is(200)
		s.get(widgetPath + "/c").is(200)
		s.patch(gaugePath+"/grandchild", `{"metadata":{"finalizers":null}}`)
		s.gone(gaugePath+"/grandchild", slatePath+"/child", widgetPath+"/c")
	})
}

func TestGC_02_CirclesAreResolved(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		own := func(path string, refs ...string) {
			s.patch(path, `{"metadata":{"ownerReferences":[`+strings.Join(refs, ",")+`]}}`)
		}
		for _, n := range []int{1, 2, 3, 7} {
			for _, all := range []bool{false, true} {
				var ring []*answer
				var paths []string
				for i := range n {
					ring = append(ring, s.widget(fmt.Sprintf("w%d", i), ""))
					paths = append(paths, fmt.Sprintf("%s/w%d", widgetPath, i))
				}
				for i := range ring {
					own(paths[i], ref(ring[(i+1)%n], blocks))
				}
				s.settle()
				for i := range ring {
					if i == 0 || all {
						s.do("DELETE", paths[i], `{"propagationPolicy":"Foreground"}`) // it may already be gone
					}
				}
				s.gone(paths...)
			}
		}
	})
}

func TestGC_03_OrphansStay(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a, b := s.widget("a", ""), s.widget("b", "")
		s.owned(slatePath, "only", "", ref(a, blocks))
		s.owned(slatePath, "both", "", ref(b), ref(a))
		s.owned(gaugePath, "other", "", ref(a))
		answered := s.deleteWith(widgetPath+"/a", "Orphan")
		require.Equal(t, []any{"orphan"}, answered.at("metadata", "finalizers"))
		s.gone(widgetPath + "/a")
		require.Empty(t, ownersOf(s.get(slatePath+"/only").is(200)))
		require.Equal(t, []string{"b"}, ownersOf(s.get(slatePath+"/both").is(200)))
		require.Empty(t, ownersOf(s.get(gaugePath+"/other").is(200)))

		// The finalizer alone orphans too, for example if it was set in advance.
		c := s.create(widgetPath, `{"metadata":{"name":"c","finalizers":["orphan"]}}`)
		s.owned(slatePath, "of-c", "", ref(c))
		s.delete(widgetPath + "/c")
		s.gone(widgetPath + "/c")
		require.Empty(t, ownersOf(s.get(slatePath+"/of-c").is(200)))
	})
}

func TestZ15_GC_04_AnOwnerInAnotherNamespaceIsAbsent(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("other")
		there := s.create(strings.Replace(widgetPath, "default", "other", 1), `{"metadata":{"name":"a"}}`)
		here := s.widget("a", "")
		s.owned(slatePath, "x", "", ref(there))
		s.owned(slatePath, "y", "", ref(there), ref(here))
		s.gone(slatePath + "/x")
		require.Equal(t, []string{here.text("metadata", "uid")}, uids(s.get(slatePath+"/y").is(200)))
		s.get(strings.Replace(widgetPath, "default", "other", 1) + "/a").is(200)

		// An event explains why.
		var told []any
		for _, e := range s.get("/api/v1/namespaces/default/events").items() {
			if at(e, "reason") == "OwnerRefInvalidNamespace" {
				told = append(told, at(e, "involvedObject", "name"))
				require.Equal(t, "Warning", at(e, "type"))
				require.Equal(t, "ownerRef [shop.example.com/v1/Widget, namespace: default, name: a, uid: "+there.text("metadata", "uid")+
					`] does not exist in namespace "default"`, at(e, "message"))
			}
		}
		require.ElementsMatch(t, []any{"x", "y"}, told)

		// A cluster-scoped object cannot refer to a namespaced owner: it is kept.
		s.owned(zonePath, "z", "", ref(here))
		s.delete(widgetPath + "/a")
		s.gone(slatePath + "/y")
		s.get(zonePath + "/z").is(200)
	})
}

// uids returns the uids of the owners that an object references.
func uids(a *answer) []string {
	out := []string{}
	refs, _ := a.at("metadata", "ownerReferences").([]any)
	for _, r := range refs {
		out = append(out, fmt.Sprint(at(r, "uid")))
	}
	return out
}

func TestGC_05_OwnerReferencesNeedRights(t *testing.T) {
	// The rights of a user besides writing slates: "delete slates/a", "update
	// widgets/w/finalizers".
	rights := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Resource == "slates" && a.Verb != "delete" || a.User.In(a.Verb+":"+a.Resource+"/"+a.Name+"/"+a.Subresource) {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "no rule", nil
	})
	onEach(t, func(t *testing.T, s *server) {
		w, v := s.widget("w", ""), s.widget("v", "")
		z := s.create(zonePath, `{"metadata":{"name":"z"}}`)
		as := func(groups string) []string { return []string{"X-User", "ann", "X-Groups", groups} }
		doc := func(name string, refs ...string) string {
			return fmt.Sprintf(`{"metadata":{"name":%q,"ownerReferences":[%s]}}`, name, strings.Join(refs, ","))
		}
		// A new object may have owners unless it blocks their deletion.
		s.do("POST", slatePath, doc("a", ref(w)), as("none")...).is(201)
		s.do("POST", slatePath, doc("b", ref(w, blocks)), as("none")...).refused(403, "Forbidden", "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on")
		s.do("POST", slatePath, doc("b", ref(w, blocks)), as("update:widgets/w/finalizers")...).is(201)
		s.do("POST", slatePath, doc("c", ref(z, blocks)), as("update:zones/z/finalizers")...).is(201)
		s.do("POST", slatePath, doc("d", strings.Replace(ref(w, blocks), "Widget", "Wodget", 1)), as("update:widgets/w/finalizers")...).refused(403, "Forbidden", "cannot find the resource of")

		// Changing references requires the right to delete.
		put := func(refs ...string) string { return doc("a", refs...) }
		s.do("PUT", slatePath+"/a", put(ref(w)), as("none")...).is(200)
		s.do("PUT", slatePath+"/a", put(ref(v)), as("none")...).refused(403, "Forbidden", "cannot set an ownerRef on a resource you can't delete: no rule")
		s.do("PUT", slatePath+"/a", put(), as("none")...).refused(403, "Forbidden", "can't delete")
		s.do("PUT", slatePath+"/a", put(ref(w), ref(v)), as("delete:slates/a/")...).is(200)
		s.do("PUT", slatePath+"/a", put(ref(w), ref(v, blocks)), as("delete:slates/a/")...).refused(403, "Forbidden", "can't set finalizers on")
		s.do("PUT", slatePath+"/a", put(ref(w), ref(v, blocks)), as("delete:slates/a/ update:widgets/v/finalizers")...).is(200)
		s.do("PUT", slatePath+"/a", put(ref(v, blocks)), as("delete:slates/a/")...).is(200) // it blocked before
		s.do("PATCH", slatePath+"/a", `{"metadata":{"ownerReferences":null}}`, append(as("none"), "Content-Type", "application/merge-patch+json")...).refused(403, "Forbidden", "can't delete")

		// The collector has the right.
		s.delete(widgetPath + "/w")
		s.gone(slatePath + "/b")
	}, kindwright.Authorize(rights), kindwright.Access{CheckOwnerReferences: true})

	onEach(t, func(_ *testing.T, s *server) { // without the option
		w := s.widget("w", "")
		s.do("POST", slatePath, `{"metadata":{"name":"b","ownerReferences":[`+ref(w, blocks)+`]}}`, "X-User", "ann", "X-Groups", "none").is(201)
	}, kindwright.Authorize(rights))
}

// A reference may name its owner in any version, even one that is no longer served. Dependents go
// in whatever version they were created.
func TestGC_01_OwnersInSeveralVersions(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(gaugePath, `{"metadata":{"name":"g"}}`)
		s.create(gaugePath, `{"metadata":{"name":"h"}}`)
		s.owned(slatePath, "one", "", ref(s.get(gaugePath+"/g")))
		s.owned(slatePath, "two", "", ref(s.get(gauge2Path+"/g"), blocks))
		s.owned(slatePath, "both", "", ref(s.get(gauge2Path+"/g")), ref(s.get(gaugePath+"/h")))
		s.owned(gauge2Path, "below", "", ref(s.get(gauge2Path+"/g"), blocks))
		s.settle()
		require.Equal(t, []string{"both", "one", "two"}, s.get(slatePath).names())
		s.deleteWith(gauge2Path+"/g", "Foreground")
		s.gone(slatePath+"/one", slatePath+"/two", gaugePath+"/below", gaugePath+"/g")
		require.Equal(t, []string{"h"}, ownersOf(s.get(slatePath+"/both")))
		s.deleteWith(gauge2Path+"/h", "Orphan")
		s.gone(gaugePath + "/h")
		require.Empty(t, ownersOf(s.get(slatePath+"/both")))
	})
}

// Kinds installed at run time are collected too.
func TestGC_01_KindsThatComeAndGo(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		w := s.widget("w", "")
		require.NoError(t, s.api.Install(t.Context(), kettles()))
		kettle := s.create(kettlePath, `{"metadata":{"name":"k","ownerReferences":[`+ref(w)+`]},"cold":true}`)
		s.owned(slatePath, "s", "", ref(kettle, blocks))
		s.settle()
		s.get(kettlePath + "/k").is(200)
		s.api.Remove(meta.GroupResource{Group: group, Resource: "kettles"})
		s.delete(widgetPath + "/w")
		time.Sleep(time.Hour)
		s.get(slatePath + "/s").is(200)
		require.NoError(t, s.api.Install(t.Context(), kettles()))
		s.gone(kettlePath+"/k", slatePath+"/s")
	})
}

// A namespace terminates while its objects wait for each other. The namespace controller and the
// collector do not block one another.
func TestGC_02_ANamespaceEnds(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		in := func(path string) string { return strings.Replace(path, "default", "n", 1) }
		for _, first := range []string{"", "Foreground", "Orphan"} {
			s.namespace("n")
			zone := s.create(zonePath, `{"metadata":{"name":"z"}}`)
			owner := s.create(in(widgetPath), `{"metadata":{"name":"a","finalizers":["orphan"]}}`)
			other := s.create(in(widgetPath), `{"metadata":{"name":"b","finalizers":["foregroundDeletion"]}}`)
			child := s.owned(in(slatePath), "child", `,"finalizers":["foregroundDeletion"]`, ref(owner, blocks), ref(other, blocks), ref(zone))
			for i := range 20 {
				s.owned(in(gaugePath), fmt.Sprintf("g%d", i), "", ref(child, blocks), ref(other, blocks))
			}
			s.patch(in(widgetPath)+"/b", `{"metadata":{"ownerReferences":[`+ref(child, blocks)+`]}}`) // circular ownership
			if first != "" {
				s.deleteWith(in(widgetPath)+"/b", first)
			}
			s.do("DELETE", "/api/v1/namespaces/n", "").is(200)
			time.Sleep(time.Minute)
			s.get("/api/v1/namespaces/n").is(404)
			s.get(zonePath + "/z").is(200)
			s.delete(zonePath + "/z")
			s.settle()
			require.Zero(t, s.api.CollectorStats().Owned, "the index must be empty")
			require.Zero(t, s.api.CollectorStats().Unsettled)
		}
	})
}

// A namespace can own cluster-scoped objects, under the same policies.
func TestGC_02_GC_03_ANamespaceOwns(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, policy := range []string{"Background", "Foreground", "Orphan"} {
			ns := s.namespace("n")
			s.owned(zonePath, "z", "", ref(ns, blocks))
			s.create(strings.Replace(slatePath, "default", "n", 1), `{"metadata":{"name":"s"}}`)
			s.settle()
			s.get(zonePath + "/z").is(200)
			s.do("DELETE", "/api/v1/namespaces/n", `{"propagationPolicy":"`+policy+`"}`).is(200)
			s.gone("/api/v1/namespaces/n")
			if policy == "Orphan" {
				require.Empty(t, ownersOf(s.get(zonePath+"/z").is(200)))
			} else {
				s.get(zonePath + "/z").is(404)
			}
		}
	})
}

// References may contain anything, of any length. A uid may have 1024 bytes.
func TestGC_04_LongReferences(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		long, uid := strings.Repeat("x", 100_000), strings.Repeat("u", 1024)
		r := s.do("POST", zonePath, `{"metadata":{"name":"z","ownerReferences":[{"apiVersion":"v1","kind":"Widget","name":"w","uid":"u`+uid+`"}]}}`).is(422)
		require.Contains(t, r.text("message"), "metadata.ownerReferences[0].uid: Too long: may not be more than 1024 bytes")
		s.create(zonePath, `{"metadata":{"name":"z","ownerReferences":[{"apiVersion":"shop.example.com/v1","kind":"Widget","name":"`+long+`","uid":"`+uid+`"}]}}`)
		s.create(slatePath, `{"metadata":{"name":"s","ownerReferences":[{"apiVersion":"`+long+`/v1","kind":"`+long+`","name":"n","uid":"u"}]}}`)
		s.create(slatePath, `{"metadata":{"name":"t","ownerReferences":[{"apiVersion":"shop.example.com/v1","kind":"Widget","name":"`+long+`","uid":"`+uid+`"}]}}`)
		s.gone(slatePath + "/t")
		s.get(slatePath + "/s").is(200)
		s.get(zonePath + "/z").is(200)
		for _, e := range s.get("/api/v1/events").items() {
			message, _ := at(e, "message").(string)
			require.Less(t, len(message), 1000)
		}
	})
}

// Dependents with a grace period keep their owner until they are gone.
func TestGC_02_GracefulDependents(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		w := s.widget("w", "")
		s.owned(lampPath, "lamp", "", ref(w, blocks))
		s.owned(kettlePath, "kettle", "", ref(w, blocks))
		s.deleteWith(widgetPath+"/w", "Foreground")
		s.settle()
		require.NotEmpty(t, s.get(lampPath+"/lamp").is(200).text("metadata", "deletionTimestamp"))
		require.Equal(t, []any{"foregroundDeletion"}, s.get(widgetPath+"/w").is(200).at("metadata", "finalizers"))
		time.Sleep(10 * time.Second)
		s.get(lampPath + "/lamp").is(404)
		s.get(widgetPath + "/w").is(200)
		s.do("DELETE", kettlePath+"/kettle", `{"gracePeriodSeconds":0}`).is(200)
		s.gone(widgetPath + "/w")
	}, graceful())
}

// Admission sees the requests of the collector with its identity.
func TestGC_01_AdmissionSeesTheCollector(t *testing.T) {
	seen := make(chan string, 100)
	rule := admission.Plugin{Name: "see", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Operation == admission.Delete && r.Resource.Resource == "slates" {
			o, _ := r.Options.(meta.DeleteOptions)
			seen <- fmt.Sprint(r.User.Name, " ", r.User.In("system:masters"), " ", at(r.OldObject, "metadata", "name"), " ", *o.PropagationPolicy, " ", o.Preconditions.UID != nil && o.Preconditions.ResourceVersion != nil)
		}
		return nil
	})}
	onEach(t, func(t *testing.T, s *server) {
		s.owned(slatePath, "s", "", ref(s.widget("w", "")))
		s.delete(widgetPath + "/w")
		s.gone(slatePath + "/s")
		require.Equal(t, "system:serviceaccount:kube-system:generic-garbage-collector true s Background true", <-seen)
	}, kindwright.Admit(rule))
}

// Without the collector nothing is collected.
func TestGC_01_WithoutTheCollector(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.owned(slatePath, "s", "", ref(s.widget("w", "")))
		s.delete(widgetPath + "/w")
		s.widget("v", "")
		s.deleteWith(widgetPath+"/v", "Orphan")
		time.Sleep(time.Hour)
		s.get(slatePath + "/s").is(200)
		require.Equal(t, []any{"orphan"}, s.get(widgetPath+"/v").is(200).at("metadata", "finalizers"))
		require.Equal(t, kindwright.CollectorStats{}, s.api.CollectorStats())
	}, kindwright.Housekeeping{NoGarbageCollection: true})
}
