package conformance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
)

const partialList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// Parts of lists are cached in their encoded form. A list under concurrent writes must equal a
// plain list of the same version, in every encoding.
func TestLIST_01_CachedPartsAreNeverStale(t *testing.T) {
	for name, c := range map[string]struct {
		opts   []kindwright.Option
		writes int // each followed by lists in every form
	}{
		"every body is compressed": {nil, max(2, effort.Of(5))},
		"above a threshold":        {[]kindwright.Option{kindwright.HTTP{CompressFrom: 20_000}}, max(1, effort.Of(2))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // one backend, for the parts are above it
				s := startInMemory(t, c.opts...)
				s.namespace("b")
				random := rand.New(rand.NewPCG(7, 7))
				s.widgets(300)
				queries := []string{"", "?limit=150", "?labelSelector=third%3D1", "?fieldSelector=metadata.name%3Dw007", "?labelSelector=none"}
				queries = queries[:max(2, effort.Of(len(queries)))]
				for range c.writes {
					name := fmt.Sprintf("w%03d", random.IntN(300))
					switch random.IntN(4) {
					case 0:
						s.do("DELETE", widgetPath+"/"+name, "")
					case 1:
						s.do("POST", widgetPath, widgetJSON(name+"-x", "third=1", "red", 1))
					case 2:
						s.do("POST", "/apis/shop.example.com/v1/namespaces/b/widgets", widgetJSON(name, "third=1", "red", 1))
					default:
						s.do("PATCH", widgetPath+"/"+name, fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, random.Int()), "Content-Type", "application/merge-patch+json")
					}
					for range 2 { // the second round reads the cache filled by the first
						for _, query := range queries {
							s.sameInEveryForm(t, widgetPath+query)
						}
						s.sameInEveryForm(t, "/apis/shop.example.com/v1/widgets")
					}
				}
			})
		})
	}
}

// A cached part may begin one list and lie in the middle of another. The lists here each begin one
// object later, so every part is reused at every position.
func TestLIST_01_CachedPartsFitAnyPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInMemory(t)
		for i := range 300 {
			s.widget(fmt.Sprintf("w%03d", i), fmt.Sprintf("n=%d", i))
		}
		for range 2 {
			s.get(widgetPath, "Accept-Encoding", "gzip").is(200) // parts are cached from the second request on
		}
		for i := range effort.Of(300) {
			path := fmt.Sprintf("%s?labelSelector=n%%3E%d", widgetPath, i)
			plain := s.get(path).is(200)
			require.Len(t, plain.items(), 299-i)
			require.Equal(t, string(plain.body), string(gunzip(t, s.get(path, "Accept-Encoding", "gzip").is(200).body)), path)
		}
	})
}

// Lists as protobuf are made of cached parts too. One that is longer than what may be held is made
// twice while it is sent; it is the same document.
func TestPATH_19_CachedMessagesAreNeverStale(t *testing.T) {
	for name, opts := range map[string][]kindwright.Option{
		"every body is compressed": nil,
		"above a threshold":        {kindwright.HTTP{CompressFrom: 20_000}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startInMemory(t, append(opts, kindwright.Serve(kinds.ConfigMaps()))...)
			const path = "/api/v1/namespaces/default/configmaps"
			for i := range 300 {
				s.create(path, fmt.Sprintf(`{"metadata":{"name":"c%03d"},"data":{"text":%q}}`, i, strings.Repeat("x", i)))
			}
			random := rand.New(rand.NewPCG(7, 8))
			const last = 2
			lists := last + 1 - len(opts) // the long list once: it is 54 MB
			if effort.Raced {
				lists = last
			}
			for i := range lists {
				name := fmt.Sprintf("c%03d", random.IntN(300))
				switch i {
				case 0:
				case last: // more than a list holds by itself, and than all may hold
					for i := range 60 {
						s.create(path, fmt.Sprintf(`{"metadata":{"name":"long%d"},"data":{"text":%q}}`, i, strings.Repeat("x", 900<<10)))
					}
				default:
					s.do("PATCH", path+"/"+name, fmt.Sprintf(`{"data":{"n":"%d"}}`, i), "Content-Type", "application/merge-patch+json").is(200)
				}
				queries, rounds, encodings := []string{"", "?limit=150", "?limit=3"}, 2, []string{"identity", "gzip"}
				if i == last {
					queries, rounds, encodings = queries[:1], 1, encodings[1:]
				}
				for _, query := range queries {
					plain := s.get(path + query).is(200)
					for range rounds {
						for _, encoding := range encodings {
							a := s.get(path+query, "Accept", asProtobuf, "Accept-Encoding", encoding).is(200)
							body := a.body
							if a.header.Get("Content-Encoding") == "gzip" {
								require.Equal(t, "gzip", encoding)
								body = gunzip(t, body)
							}
							got := messageItems[kinds.ConfigMap](t, body)
							require.Len(t, got, len(plain.items()))
							for i, item := range plain.items() {
								delete(item.(map[string]any), "apiVersion")
								delete(item.(map[string]any), "kind")
								require.Equal(t, item, got[i])
							}
						}
					}
				}
			}
		})
	}
}

// messageItems returns the items of a list.
func messageItems[T any](t *testing.T, document []byte) (items []any) {
	t.Helper()
	e, err := protobuf.Open(document)
	require.NoError(t, err)
	d := described[T](t)
	require.NoError(t, protowire.Each(e.Message, func(f protowire.Field) error {
		if f.Number != 2 {
			return nil
		}
		text, err := d.AppendJSON(nil, f.Bytes, "", "", 2<<20)
		require.NoError(t, err)
		var item any
		require.NoError(t, json.Unmarshal(text, &item))
		items = append(items, item)
		return nil
	}))
	return items
}

// sameInEveryForm compares a list in compressed form, as metadata, and as a table with the plain
// list of the same version.
func (s *server) sameInEveryForm(t *testing.T, path string) {
	t.Helper()
	plain := s.get(path).is(200)
	packed := s.get(path, "Accept-Encoding", "gzip").is(200)
	body := packed.body
	if packed.header.Get("Content-Encoding") == "gzip" {
		body = gunzip(t, body)
	}
	require.Equal(t, plain.next() == "", asAnswer(t, body).next() == "", path)
	if plain.next() == "" { // tokens always differ
		require.Equal(t, string(plain.body), string(body), path)
	}
	var want []any
	for _, item := range plain.items() {
		want = append(want, map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": at(item, "metadata")})
	}
	for _, encoding := range []string{"identity", "gzip"} {
		rows := s.get(path, "Accept", partialList, "Accept-Encoding", encoding).is(200)
		body := rows.body
		if rows.header.Get("Content-Encoding") == "gzip" {
			body = gunzip(t, body)
		}
		got := asAnswer(t, body)
		require.Equal(t, plain.version(), got.version(), path)
		require.Len(t, got.items(), len(want), path)
		for i, item := range got.items() {
			require.Equal(t, want[i], item, path)
		}
	}
	for _, encoding := range []string{"identity", "gzip"} {
		a := s.get(path, "Accept", asProtobuf+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "Accept-Encoding", encoding).is(200)
		body := a.body
		if a.header.Get("Content-Encoding") == "gzip" {
			body = gunzip(t, body)
		}
		got := decodedMessage[meta.PartialObjectMetadataList](t, body)
		require.Equal(t, "PartialObjectMetadataList", got["kind"])
		require.Equal(t, plain.version(), at(got, "metadata", "resourceVersion"), path)
		items, _ := got["items"].([]any)
		require.Len(t, items, len(want), path)
		for i, item := range items {
			require.Equal(t, at(want[i], "metadata"), at(item, "metadata"), path)
		}
	}
	include := []string{"Metadata", "None"}[len(plain.body)%2]
	table := path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "includeObject=" + include
	for _, encoding := range []string{"identity", "gzip"}[len(plain.body)/2%2:][:1] { // alternate between the encodings
		rows := s.get(table, "Accept", tableV1, "Accept-Encoding", encoding).is(200)
		body := rows.body
		if rows.header.Get("Content-Encoding") == "gzip" {
			body = gunzip(t, body)
		}
		got := asAnswer(t, body)
		require.Equal(t, plain.version(), got.version(), table)
		require.Len(t, got.doc["columnDefinitions"], 5)
		list, _ := got.doc["rows"].([]any)
		require.Len(t, list, len(want), table)
		for i, item := range plain.items() {
			object := want[i]
			if include == "None" {
				object = nil
			}
			row, _ := list[i].(map[string]any)
			shown, _ := row["cells"].([]any)
			require.Len(t, shown, 5)
			require.Regexp(t, `^\d+[smhdy]`, shown[4])
			cells := []any{at(item, "metadata", "name"), at(item, "spec", "color"), at(item, "spec", "size"), at(item, "status", "phase"), shown[4]}
			require.Equal(t, map[string]any{"cells": cells, "object": object}, list[i], table)
		}
	}
}

// Cached table rows show the current age of objects.
func TestTABLE_04_KeptRowsAge(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(150)
		for _, step := range []struct {
			wait time.Duration
			want string
		}{{0, "0s"}, {59 * time.Second, "59s"}, {time.Second, "60s"}, {2 * time.Hour, "121m"}, {30 * time.Second, "121m"}, {72 * time.Hour, "3d2h"}} {
			time.Sleep(step.wait)
			for range 3 {
				for _, encoding := range []string{"identity", "gzip"} {
					a := s.get(widgetPath, "Accept", tableV1, "Accept-Encoding", encoding).is(200)
					if encoding == "gzip" {
						a = asAnswer(t, gunzip(t, a.body))
					}
					rows, _ := a.doc["rows"].([]any)
					require.Len(t, rows, 150)
					for _, row := range rows {
						cells, _ := row.(map[string]any)["cells"].([]any)
						require.Equal(t, step.want, cells[4])
					}
				}
			}
		}
	})
}

func asAnswer(t *testing.T, body []byte) *answer {
	t.Helper()
	a := &answer{t: t, code: 200, body: body}
	require.NoError(t, json.Unmarshal(body, &a.doc))
	return a
}
