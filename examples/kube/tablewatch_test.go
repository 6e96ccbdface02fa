package kube

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A watch list can be asked for as Table (WATCH-33). Each event has a row, the bookmark that ends
// the initial events too, and the first has the column definitions. Cells are made for an object
// that is empty but for its version then.
func TestWATCH_33_WatchListsAsTables(t *testing.T) {
	s := serve(t, Options{})
	for _, path := range s.watched(t) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path+
			"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", nil)
		require.NoError(t, err)
		r.Header.Set("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
		answer, err := s.http.Do(r)
		require.NoError(t, err)
		require.Equal(t, 200, answer.StatusCode, path)
		events := bufio.NewScanner(answer.Body)
		events.Buffer(nil, 1<<20)
		for first, more := true, true; more; first = false {
			require.True(t, events.Scan(), "%s: %v", path, events.Err())
			var e map[string]any
			require.NoError(t, json.Unmarshal(events.Bytes(), &e), events.Text())
			require.Equal(t, first, len(list(at(e, "object", "columnDefinitions"))) > 0, events.Text())
			rows := list(at(e, "object", "rows"))
			require.Len(t, rows, 1, events.Text())
			more = word(at(rows[0], "object", "metadata", "annotations", "k8s.io/initial-events-end")) != "true"
			require.Equal(t, more, e["type"] == "ADDED", events.Text())
		}
		require.NoError(t, answer.Body.Close())
	}
}

// watched returns the paths of all resources that can be watched.
func (s *target) watched(t *testing.T) (paths []string) {
	for _, root := range []string{"/api", "/apis"} {
		doc := s.must(t, 200, "GET", root, "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		for _, g := range list(doc["items"]) {
			for _, v := range list(at(g, "versions")) {
				gv := strings.TrimPrefix(word(at(g, "metadata", "name"))+"/"+word(at(v, "version")), "/")
				for _, r := range list(at(v, "resources")) {
					if slices.Contains(words(at(r, "verbs")), "watch") {
						paths = append(paths, root+"/"+gv+"/"+word(at(r, "resource")))
					}
				}
			}
		}
	}
	return paths
}

// Revisions are numbers in tables, as in kube-apiserver.
func TestTABLE_RevisionsAreNumbers(t *testing.T) {
	s := serve(t, Options{})
	const revisions = "/apis/apps/v1/namespaces/default/controllerrevisions"
	s.must(t, 201, "POST", revisions, `{"metadata":{"name":"r"},"revision":3,"data":{}}`)
	table := s.must(t, 200, "GET", revisions, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	require.InDelta(t, 3, list(at(list(table["rows"])[0], "cells"))[2], 0)
}
