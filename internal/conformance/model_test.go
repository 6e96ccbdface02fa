package conformance

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// named is a resource that discovery names.
type named struct {
	path string         // of its collection, in the namespace default where it has namespaces
	said map[string]any // by discovery
}

func (r named) can(verb string) bool { return strings.Contains(fmt.Sprint(r.said["verbs"]), verb) }

// resources returns what a server serves, without subresources.
func (s *server) resources() (out []named) {
	s.t.Helper()
	versions := []string{"/api/v1"}
	groups, _ := s.get("/apis").is(200).at("groups").([]any)
	for _, g := range groups {
		all, _ := at(g, "versions").([]any)
		for _, v := range all {
			versions = append(versions, "/apis/"+at(v, "groupVersion").(string))
		}
	}
	for _, version := range versions {
		list, _ := s.get(version).is(200).at("resources").([]any)
		for _, r := range list {
			name := at(r, "name").(string)
			if strings.Contains(name, "/") {
				continue
			}
			path := version + "/" + name
			if at(r, "namespaced") == true {
				path = version + "/namespaces/default/" + name
			}
			out = append(out, named{path, r.(map[string]any)})
		}
	}
	require.Greater(s.t, len(out), 8)
	return out
}

// One process answers for every area of the specification.
func TestMODEL_02_OneServerServesTheWhole(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "x=y")
		s.widget("b", "")
		require.Len(t, s.get(widgetPath+"?limit=1&labelSelector=x").items(), 1)
		require.NotEmpty(t, s.get(widgetPath+"?limit=1").next(), "chunks")
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + s.get(widgetPath).version())
		s.do("POST", widgetPath+"?dryRun=All", widgetJSON("c", "", "red", 1)).is(201)
		s.patch(widgetPath+"/a", `{"spec":{"size":2}}`)
		w.expect("MODIFIED", "a")
		s.do("PATCH", widgetPath+"/d?fieldManager=m", `{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":"d"},"spec":{"size":1}}`, "Content-Type", "application/apply-patch+yaml").is(201)
		s.get(widgetPath+"/c").refused(404, "NotFound", "")
		require.Equal(t, "Table", s.get(widgetPath, "Accept", tableAs).at("kind"))
		for _, path := range []string{"/healthz", "/livez", "/readyz", "/version", "/api", "/apis", "/openapi/v2", "/openapi/v3", "/metrics"} {
			s.get(path).is(200)
		}
		for path, kind := range map[string]string{"/api/v1/namespaces/default/events": "EventList", "/apis/events.k8s.io/v1/namespaces/default/events": "EventList", "/apis/coordination.k8s.io/v1/leases": "LeaseList"} {
			require.Equal(t, kind, s.get(path).is(200).at("kind"))
		}
		for path, spec := range map[string]string{
			"/apis/authorization.k8s.io/v1/subjectaccessreviews":     `{"user":"ann","nonResourceAttributes":{"verb":"get","path":"/"}}`,
			"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": `{"nonResourceAttributes":{"verb":"get","path":"/"}}`,
			"/apis/authentication.k8s.io/v1/selfsubjectreviews":      `{}`,
		} {
			s.do("POST", path, `{"spec":`+spec+`}`).is(201)
		}
	})
}

// Everything is below the base address of the server, and what documents name is, too.
func TestMODEL_04_APrefixIsPartOfTheBaseAddress(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		list := s.get("/shop/").is(200)
		paths, _ := list.at("paths").([]any)
		require.Greater(t, len(paths), 10)
		for _, path := range paths {
			require.True(t, strings.HasPrefix(path.(string), "/shop/"), path)
			s.get(path.(string)).is(200)
		}
		links, _ := s.get("/shop/openapi/v3").is(200).at("paths").(map[string]any)
		require.NotEmpty(t, links)
		for _, link := range links {
			url := at(link, "serverRelativeURL").(string)
			require.True(t, strings.HasPrefix(url, "/shop/openapi/v3/"), url)
			document := s.get(url).is(200)
			require.Equal(t, []any{map[string]any{"url": "/shop"}}, document.at("servers"), "what its paths are relative to")
		}
		require.Equal(t, "/shop", s.get("/shop/openapi/v2").is(200).at("basePath"))
		const gnostic = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
		require.Contains(t, string(s.get("/shop/openapi/v2", "Accept", gnostic).is(200).body), "\x22\x05/shop\x42", "field 4, before the paths")
		require.NotEmpty(t, s.create("/shop"+widgetPath, widgetJSON("a", "", "red", 1)).version())
		for _, path := range []string{"/shop" + widgetPath, "/shop/healthz", "/shop/livez", "/shop/readyz", "/shop/version", "/shop/metrics", "/shop/api/v1/namespaces"} {
			s.get(path).is(200)
			s.get(strings.TrimPrefix(path, "/shop")).is(404)
			s.get("/shop" + path).is(404)
		}
		w := s.watch("/shop" + widgetPath + "?watch=1&resourceVersion=" + s.get("/shop"+widgetPath).version())
		s.delete("/shop" + widgetPath + "/a")
		w.expect("DELETED", "a")
	}, kindwright.HTTP{PathPrefix: "/shop"})
}

// A program that asks its own server in process is authenticated, authorized, admitted and validated as others are.
func TestMODEL_05_CallersInProcessAskAsOthersDo(t *testing.T) {
	guard := admission.Plugin{
		Name: "guard", Rules: []admission.Rule{{Groups: []string{group}}},
		Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			if r.Name == "guarded" {
				return status.Forbidden(r.GroupResource(), r.Name, "it is guarded")
			}
			return nil
		}),
	}
	onEach(t, func(t *testing.T, s *server) {
		inProcess := client.InProcess(s.api)
		defer inProcess.Close()
		create := func(user, groups, body string) (int, string) {
			r, err := http.NewRequestWithContext(t.Context(), "POST", "http://server"+widgetPath, strings.NewReader(body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-User", user)
			r.Header.Set("X-Groups", groups)
			res, err := inProcess.RoundTrip(r)
			require.NoError(t, err)
			defer func() { require.NoError(t, res.Body.Close()) }()
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			return res.StatusCode, string(text)
		}
		for _, c := range []struct {
			user, groups, body string
			code               int
			says               string
		}{
			{"", "", widgetJSON("a", "", "red", 1), 403, "system:anonymous"},
			{"bob", "", widgetJSON("a", "", "red", 1), 403, `User \"bob\" cannot create resource \"widgets\"`},
			{"ann", "", widgetJSON("a", "", "mauve", 1), 422, "spec.color"},
			{"ann", "", widgetJSON("guarded", "", "red", 1), 403, "it is guarded"},
			{"ann", "", widgetJSON("a", "", "red", 1), 201, `"uid"`},
		} {
			code, text := create(c.user, c.groups, c.body)
			require.Equal(t, c.code, code, text)
			require.Contains(t, text, c.says)
		}
		require.Equal(t, []string{"a"}, s.get(widgetPath).names())
		target := registry.Target{Resource: meta.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}, Namespace: "default"}
		for body, reason := range map[string]meta.Reason{widgetJSON("guarded", "", "red", 1): meta.ReasonForbidden, widgetJSON("b", "", "mauve", 1): meta.ReasonInvalid} {
			_, err := s.api.Engine().Create(t.Context(), target, []byte(body), registry.WriteOptions{})
			require.Equal(t, reason, status.ReasonOf(err), "%v", err)
		}
		require.Equal(t, []string{"a"}, s.get(widgetPath).names())
	}, kindwright.Admit(guard), kindwright.Authorize(allowing("ann create widgets")))
}

// Whatever can be listed can be watched. The list has its own kind and holds instances of one.
func TestMODEL_10_16_18_19_20_EveryResource(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		s.create(zonePath, `{"metadata":{"name":"a"}}`)
		s.create(gaugePath, `{"metadata":{"name":"a"}}`)
		s.create("/api/v1/namespaces/default/events", `{"metadata":{"name":"a"},"involvedObject":{"namespace":"default"}}`)
		s.create("/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"metadata":{"name":"a"},"spec":{}}`)
		stored := 0
		for _, r := range s.resources() {
			name, kind := at(r.said, "name").(string), at(r.said, "kind").(string)
			require.Equal(t, strings.ToLower(name), name, "MODEL-16: %s", r.path)
			for _, other := range []string{strings.ToUpper(name[:1]) + name[1:], kind, at(r.said, "singularName").(string)} {
				s.get(strings.TrimSuffix(r.path, name) + other).is(404)
			}
			require.Equal(t, r.can("list"), r.can("watch"), "MODEL-10: %s", r.path)
			if !r.can("list") {
				continue
			}
			list := s.get(r.path).is(200)
			require.Equal(t, kind+"List", list.at("kind"), "MODEL-18")
			w := s.watch(r.path + "?watch=1&resourceVersion=0")
			for _, item := range list.items() {
				stored++
				w.expect("ADDED", at(item, "metadata", "name").(string)) // MODEL-10
				one := s.get(r.path + "/" + at(item, "metadata", "name").(string)).is(200)
				require.Equal(t, kind, one.at("kind"), "MODEL-17, MODEL-19")
				require.Equal(t, at(item, "metadata"), one.at("metadata"), "MODEL-19")
				require.NotEmpty(t, one.at("metadata", "uid"), "MODEL-20")
				require.NotEmpty(t, one.at("metadata", "creationTimestamp"), "MODEL-20")
			}
			s.get(r.path+"/none").refused(404, "NotFound", "")
		}
		require.GreaterOrEqual(t, stored, 6)
	})
}

// Many write while a client lists and watches. What it has in the end is what a list has, and it has seen
// each change once.
func TestMODEL_11_AListAndAWatchMissNothing(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(10)
		var writers sync.WaitGroup
		for n := range 4 {
			writers.Go(func() {
				for i := range 40 {
					own := fmt.Sprintf("w%d-%d", n, i)
					s.widget(own, "")
					s.patch(fmt.Sprintf("%s/w00%d", widgetPath, i%10), fmt.Sprintf(`{"metadata":{"labels":{"by":"w%d-%d"}}}`, n, i))
					if i%2 == 0 {
						s.delete(widgetPath + "/" + own)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(15 * time.Millisecond) // in the middle of it
		list := s.get(widgetPath)
		have := map[string]string{}
		for _, item := range list.items() {
			have[at(item, "metadata", "name").(string)] = at(item, "metadata", "resourceVersion").(string)
		}
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + list.version())
		writers.Wait()
		s.widget("last", "")
		seen := map[string]bool{list.version(): true}
		for {
			e := w.next()
			require.False(t, seen[e.version()], "twice: %s", e.line)
			seen[e.version()] = true
			_, had := have[e.name()]
			require.Equal(t, e.kind != "ADDED", had, e.line)
			have[e.name()] = e.version()
			if e.kind == "DELETED" {
				delete(have, e.name())
			}
			if e.name() == "last" {
				break
			}
		}
		want := map[string]string{}
		for _, item := range s.get(widgetPath).items() {
			want[at(item, "metadata", "name").(string)] = at(item, "metadata", "resourceVersion").(string)
		}
		require.Equal(t, want, have)
		require.Greater(t, len(seen), 100, "there were changes after the list")
	})
}

// Chunks, tables and compression combine.
func TestMODEL_12_CompressedChunksOfTables(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(7)
		var names []string
		pages, next := 0, ""
		for {
			a := s.get(widgetPath+"?limit=3&continue="+next, "Accept", tableAs, "Accept-Encoding", "gzip").is(200)
			require.Equal(t, "gzip", a.header.Get("Content-Encoding"))
			plain, err := gzip.NewReader(bytes.NewReader(a.body))
			require.NoError(t, err)
			var table map[string]any
			require.NoError(t, json.NewDecoder(plain).Decode(&table))
			require.Equal(t, "Table", table["kind"])
			rows, _ := table["rows"].([]any)
			require.LessOrEqual(t, len(rows), 3)
			for _, row := range rows {
				names = append(names, at(row, "cells").([]any)[0].(string))
			}
			pages++
			if next, _ = at(table, "metadata", "continue").(string); next == "" {
				break
			}
		}
		require.Equal(t, 3, pages)
		require.Equal(t, []string{"w000", "w001", "w002", "w003", "w004", "w005", "w006"}, names)
	})
}

// Objects, their versions and their uids outlive the process. That they are stored in one version is
// TestSTORE_01. Both backends pass the same tests.
func TestMODEL_14_TheStateOutlivesTheProcess(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := start(t, open)
		s.widgets(3)
		s.patch(widgetPath+"/w001", `{"spec":{"size":9}}`)
		s.delete(widgetPath + "/w002")
		s.create(zonePath, `{"metadata":{"name":"z"}}`)
		paths := []string{widgetPath, zonePath, "/api/v1/namespaces"}
		before := map[string][]any{}
		for _, path := range paths {
			before[path] = s.get(path).items()
		}
		version := s.get(widgetPath).version()
		s.stop()
		s = start(t, open)
		for _, path := range paths {
			require.Equal(t, before[path], s.get(path).items(), path)
		}
		w := s.watch(widgetPath + "?watch=1&resourceVersion=" + version)
		s.widget("later", "")
		w.expect("ADDED", "later")
	})
}

// A resource has one kind in each version. Its subresources may have others.
func TestMODEL_17_OneKindInEachVersion(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		s.create(motorPath, motor("a", `{"power":4}`))
		require.Equal(t, "Motor", s.get(motorPath+"/a").at("kind"))
		require.Equal(t, "Motor", s.get(motorBeta+"/a").at("kind"))
		require.Equal(t, "Scale", s.get(motorPath+"/a/scale").is(200).at("kind"))
		for body, path := range map[string]string{
			strings.Replace(motor("b", `{}`), "Motor", "Widget", 1): motorPath, strings.Replace(motor("b", `{}`), "Motor", "MotorList", 1): motorPath,
			strings.Replace(motor("b", `{}`), "Motor", "motor", 1): motorPath, motor("b", `{}`): motorBeta, widgetJSON("b", "", "red", 1): motorPath,
		} {
			s.do("POST", path, body).refused(400, "BadRequest", "")
			s.do("PUT", motorPath+"/a", strings.Replace(strings.Replace(motor("a", `{}`), "Motor", "Widget", 1), `"b"`, `"a"`, 1)).refused(400, "BadRequest", "")
		}
		require.Equal(t, []string{"a"}, s.get(motorPath).names())
	})
}

// Ledger is a kind that says of itself all that a kind can.
type Ledger struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec LedgerSpec `json:"spec,omitzero"`
}

// LedgerSpec is the desired state of a ledger.
type LedgerSpec struct {
	Book  string `json:"book,omitempty" selectable:"" column:"Book"`
	Pages int32  `json:"pages,omitempty"`
}

func ledgers(told *[]string) registry.Kind[Ledger] {
	return registry.Kind[Ledger]{
		Group: "books.example.com", Version: "v1", Plural: "accounts", Scope: registry.ClusterScoped, StorageName: "bookkeeping",
		Names: registry.Names{Kind: "Account", Singular: "account", ListKind: "AccountSet", ShortNames: []string{"acc"}, Categories: []string{"all", "money"}},
		Rules: registry.Rules[Ledger]{
			Default: func(_ context.Context, l *Ledger) { l.Spec.Pages = max(l.Spec.Pages, 10) },
			Validate: func(_ context.Context, l *Ledger, f *status.Fields) {
				if l.Spec.Pages > 100 {
					f.At("spec", "pages").Invalid(l.Spec.Pages, "too thick")
				}
			},
			Complete: func(_ context.Context, l, _ *Ledger) error {
				if l.Spec.Book == "" {
					l.Spec.Book = "main"
				}
				return nil
			},
			BeforeDelete: func(_ context.Context, l *Ledger) error { *told = append(*told, l.Name); return nil },
		},
	}
}

// What a kind is registered with shows in discovery, in what is stored and in each answer.
func TestMODEL_24_WhatAKindIsRegisteredWith(t *testing.T) {
	var told []string
	onEach(t, func(t *testing.T, s *server) {
		told = nil
		const path = "/apis/books.example.com/v1/accounts"
		list := s.get("/apis/books.example.com/v1").is(200)
		require.Equal(t, "books.example.com/v1", list.at("groupVersion"))
		said, _ := list.at("resources").([]any)
		require.Len(t, said, 1)
		r, _ := said[0].(map[string]any)
		require.NotEmpty(t, r["storageVersionHash"])
		delete(r, "storageVersionHash")
		require.Equal(t, map[string]any{
			"name": "accounts", "singularName": "account", "namespaced": false, "kind": "Account", "shortNames": []any{"acc"}, "categories": []any{"all", "money"},
			"verbs": []any{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		}, r)
		made := s.create(path, `{"metadata":{"name":"a"}}`)
		require.InDelta(t, 10, made.at("spec", "pages"), 0, "defaults")
		require.Equal(t, "main", made.at("spec", "book"), "hooks")
		s.do("POST", path, `{"metadata":{"name":"b"},"spec":{"pages":101}}`).refused(422, "Invalid", "too thick").because("FieldValueInvalid", "spec.pages", "too thick")
		s.create(path, `{"metadata":{"name":"c"},"spec":{"book":"side"}}`)
		require.Equal(t, []string{"c"}, s.get(path+"?fieldSelector=spec.book%3Dside").names(), "field selectors")
		s.get(path+"?fieldSelector=spec.pages%3D10").refused(400, "BadRequest", "")
		require.Equal(t, "AccountSet", s.get(path).at("kind"))
		var columns []string
		definitions, _ := s.get(path, "Accept", tableAs).at("columnDefinitions").([]any)
		for _, d := range definitions {
			columns = append(columns, at(d, "name").(string))
		}
		require.Equal(t, []string{"Name", "Book", "Age"}, columns)
		records, err := s.backend.List(t.Context(), storage.ListRequest{Prefix: storage.ResourcePrefix("bookkeeping"), Limit: 10})
		require.NoError(t, err)
		require.Len(t, records.Records, 2, "where they are stored")
		require.Contains(t, string(records.Records[0].Value), `"apiVersion":"books.example.com/v1","kind":"Account"`, "in which version")
		s.delete(path + "/a")
		require.Equal(t, []string{"a"}, told, "hooks")
	}, kindwright.Serve(ledgers(&told)))
}
