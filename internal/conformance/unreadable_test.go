package conformance

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	parsed "github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage"
)

// spoil damages the record of a widget.
func (s *server) spoil(namespace, name string) {
	s.t.Helper()
	s.spoilOne("widgets", namespace, name)
}

// spoilOne damages the record of an object.
func (s *server) spoilOne(plural, namespace, name string) {
	s.t.Helper()
	for storageName, err := range storage.New(s.backend).StorageNames(context.Background()) {
		require.NoError(s.t, err)
		if strings.HasSuffix(storageName, plural) {
			key := storage.ObjectKey(storageName, namespace, name)
			_, err := s.backend.Commit(context.Background(), []storage.Op{storage.Put(key, []byte("damaged"), storage.Any)})
			require.NoError(s.t, err)
			return
		}
	}
	s.t.Fatal("there are no " + plural)
}

const despite = "?ignoreStoreReadErrorWithClusterBreakingPotential=true"

// everythingBut allows every verb except one to users other than the admin.
func everythingBut(verb string) authz.Authorizer {
	return authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.Name != "admin" && a.Verb == verb {
			return authz.NoOpinion, "", nil
		}
		return authz.Allow, "", nil
	})
}

// LIST-01, GET-01, KEP-3926: a record that cannot be read takes nothing but itself away, nobody
// misses it unnoticed, and somebody who has the right to can remove it.
func TestObjectsThatCannotBeRead(t *testing.T) {
	var annotated map[string]string
	audit := kindwright.Before("parse", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			if r.Method == http.MethodDelete {
				annotated = parsed.ExchangeFrom(r.Context()).Annotations()
			}
		})
	})
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(3)
		events := s.watch(widgetPath + "?watch=1&resourceVersion=" + s.get(widgetPath).version())
		s.spoil("default", "w001")
		one := widgetPath + "/w001"

		list := s.get(widgetPath).is(200)
		require.Equal(t, []string{"w000", "w002"}, list.names())
		require.Contains(t, list.header.Get("Warning"), "cannot be read from the store and are missing: default/w001")
		require.Contains(t, s.get(widgetPath+"?limit=1").is(200).header.Get("Warning"), "default/w001")
		require.Contains(t, s.get(widgetPath+"?fieldSelector=metadata.name%3Dw001").is(200).header.Get("Warning"), "default/w001")
		require.Empty(t, s.get(widgetPath+"?fieldSelector=metadata.name%3Dw000").is(200).header.Get("Warning"))
		s.get(one).refused(500, "StorageReadError", "cannot be read")
		s.do("PUT", one, widgetJSON("w001", "", "red", 1)).refused(500, "StorageReadError", "cannot be read")
		s.do("PATCH", one, `{}`, "Content-Type", "application/merge-patch+json").refused(500, "StorageReadError", "cannot be read")
		s.do("POST", widgetPath, widgetJSON("w001", "", "red", 1)).refused(409, "AlreadyExists", "w001")
		s.do("DELETE", one, "").refused(500, "StorageReadError", "cannot be read")
		s.patch(widgetPath+"/w000", `{"metadata":{"labels":{"a":"b"}}}`)
		require.Equal(t, "MODIFIED", events.next().kind, "nobody is told that it is gone")

		s.do("DELETE", widgetPath+"/w000"+despite, "").refused(422, "Invalid", "exclusively used to delete corrupt object(s)")
		for _, other := range []string{"dryRun=All", "gracePeriodSeconds=0", "propagationPolicy=Orphan", "orphanDependents=true"} {
			name, _, _ := strings.Cut(other, "=")
			s.do("DELETE", one+despite+"&"+other, "").refused(422, "Invalid", "cannot be set together with ."+name)
		}
		s.do("DELETE", one, `{"ignoreStoreReadErrorWithClusterBreakingPotential":true,"preconditions":{"uid":"x"}}`).
			refused(422, "Invalid", "cannot be set together with .preconditions")
		s.do("DELETE", widgetPath+despite, "").refused(422, "Invalid", "is not allowed with DELETECOLLECTION")
		s.do("DELETE", one+despite, "", "X-User", "eve", "X-Groups", "").refused(403, "Forbidden", "unsafe-delete-ignore-read-errors")
		synctest.Wait()
		require.NotContains(t, annotated, "kindwright.dev/unsafe-delete")
		require.Equal(t, "Success", s.do("DELETE", one+despite, "").is(200).text("status"))
		synctest.Wait()
		require.Contains(t, annotated, "kindwright.dev/unsafe-delete", "the audit record says so")
		gone := events.next()
		require.Equal(t, "DELETED", gone.kind)
		require.Equal(t, "w001", gone.name())
		s.get(one).is(404)
		require.Empty(t, s.get(widgetPath).header.Get("Warning"))
		s.widget("w001", "")
	}, kindwright.Authorize(everythingBut("unsafe-delete-ignore-read-errors")), audit)
}

// STORE-01: what cannot be read stays so over a restart, and the server starts.
func TestObjectsThatCannotBeReadAtStart(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := start(t, open)
		s.widgets(3)
		s.spoil("default", "w001")
		s.stop()
		s = start(t, open)
		list := s.get(widgetPath).is(200)
		require.Equal(t, []string{"w000", "w002"}, list.names())
		require.Contains(t, list.header.Get("Warning"), "default/w001")
		s.get("/readyz").is(200)
		require.Contains(t, string(s.get("/readyz?verbose").is(200).body), "[!]store-records warning: reason withheld\n")
		warning := string(s.get("/readyz/store-records").is(500).body)
		require.Contains(t, warning, "1 stored objects cannot be read and are left out: shop.example.com/widgets default/w001;")
		require.Contains(t, string(s.get("/metrics").is(200).body), `kindwright_storage_unreadable_objects{group="shop.example.com",resource="widgets"} 1`)
		s.delete(widgetPath + "/w001" + despite)
		require.Empty(t, s.get(widgetPath).header.Get("Warning"))
		s.get("/readyz/store-records").is(200)
	})
}

// NS-02: a namespace with an object that cannot be read says so and stays: nobody knows what holds the
// object. Everything else in it goes.
func TestANamespaceWaitsForWhatCannotBeRead(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("n")
		path := strings.Replace(widgetPath, "/default/", "/n/", 1)
		for _, name := range []string{"a", "b"} {
			s.create(path, strings.Replace(widgetJSON(name, "", "red", 1), `"namespace":"default"`, `"namespace":"n"`, 1))
		}
		s.spoil("n", "a")
		s.delete("/api/v1/namespaces/n")
		time.Sleep(time.Minute)
		synctest.Wait()
		s.get(path + "/b").is(404)
		s.get(path+"/a").refused(500, "StorageReadError", "cannot be read")
		require.Contains(t, s.get("/api/v1/namespaces/n").is(200).String(), "cannot be read")
		s.delete(path + "/a" + despite)
		time.Sleep(time.Hour)
		synctest.Wait()
		s.get("/api/v1/namespaces/n").is(404)
	})
}

// POL-01: a policy that cannot be read may forbid anything. While the server remembers it, it is in
// force; after a restart, what it could be about is refused until somebody has removed the record.
func TestAPolicyThatCannotBeRead(t *testing.T) {
	const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := start(t, open, kindwright.Serve(kinds.Policies()))
		s.create(policies, `{"metadata":{"name":"small"},"spec":{"validations":[{"expression":"object.spec.size < 5"}],
			"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["CREATE"],"resources":["widgets"]}]}}}`)
		s.create(policies[:len(policies)-len("policies")]+"policybindings", `{"metadata":{"name":"small"},"spec":{"policyName":"small","validationActions":["Deny"]}}`)
		s.agree(422, "POST", widgetPath+"?dryRun=All", widgetJSON("large", "", "red", 7))
		s.spoilOne("validatingadmissionpolicies", "", "small")
		s.do("POST", widgetPath, widgetJSON("large", "", "red", 7)).refused(422, "Invalid", "small")
		s.widget("one", "")
		s.stop()
		s = start(t, open, kindwright.Serve(kinds.Policies()))
		s.get(widgetPath + "/one").is(200)
		s.do("POST", widgetPath, widgetJSON("two", "", "red", 1)).refused(503, "ServiceUnavailable", "cannot admit this write")
		require.Contains(t, string(s.do("GET", "/readyz?verbose", "").is(500).body), "[-]admission-ValidatingAdmissionPolicy failed")
		s.do("DELETE", policies+"/small"+despite, "").is(200)
		s.agree(201, "POST", widgetPath+"?dryRun=All", widgetJSON("two", "", "red", 1))
		s.widget("two", "")
		s.get("/readyz").is(200)
	})
}
