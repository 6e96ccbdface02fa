package conformance

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// rows returns the rows of a table.
func (a *answer) rows() []any {
	a.t.Helper()
	a.is(200)
	require.Equal(a.t, "Table", a.at("kind"), "%s", a)
	rows, ok := a.at("rows").([]any)
	require.True(a.t, ok, "%s", a)
	return rows
}

// columns returns the names of the columns of a table.
func (a *answer) columns() []string {
	a.t.Helper()
	a.is(200)
	var names []string
	list, _ := a.at("columnDefinitions").([]any)
	for _, c := range list {
		require.NotEmpty(a.t, at(c, "name"))
		require.Contains(a.t, []any{"string", "integer", "number", "boolean", "date"}, at(c, "type"))
		names = append(names, at(c, "name").(string))
	}
	return names
}

func TestTABLE_01_ListsAndObjects(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(3)
		list := s.get(widgetPath, "Accept", tableAs)
		require.Len(t, list.rows(), 3)
		require.Equal(t, "application/json", list.header.Get("Content-Type"))
		require.Len(t, s.get(widgetPath+"/w001", "Accept", tableAs).rows(), 1)
		// The Accept header of kubectl, and one that prefers the plain form.
		require.Len(t, s.get(widgetPath, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json").rows(), 3)
		require.Equal(t, "WidgetList", s.get(widgetPath, "Accept", "application/json, "+tableAs+";q=0.5").at("kind"))
		// Responses to writes can be tables, but errors cannot.
		require.Len(t, s.do("PUT", widgetPath+"/w001", widgetJSON("w001", "", "blue", 2), "Accept", tableAs).rows(), 1)
		s.get(widgetPath+"/none", "Accept", tableAs).refused(404, "NotFound", "none")
		s.get(widgetPath, "Accept", "application/json;as=Table;g=meta.k8s.io;v=v2").refused(406, "NotAcceptable", "application/json")
		s.get(widgetPath, "Accept", "application/json;as=Chart;g=meta.k8s.io;v=v1").refused(406, "NotAcceptable", "")
		s.get(widgetPath, "Accept", "application/json;as=Table;g=meta.example.dev;v=v1").refused(406, "NotAcceptable", "")
	})
}

func TestTABLE_02_KindAndVersion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.get(widgetPath, "Accept", tableAs)
		require.Equal(t, "Table", a.at("kind"))
		require.Equal(t, "meta.k8s.io/v1", a.at("apiVersion"))
	})
	onEach(t, func(t *testing.T, s *server) {
		a := s.get(widgetPath, "Accept", "application/json;as=Table;g=meta.example.dev;v=v1")
		require.Equal(t, "meta.example.dev/v1", a.is(200).at("apiVersion"))
		s.get(widgetPath, "Accept", tableAs).refused(406, "NotAcceptable", "")
	}, kindwright.Kubernetes{GroupDomain: "example.dev"})
}

func TestTABLE_03_ColumnDefinitions(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, path := range []string{widgetPath, zonePath, "/api/v1/namespaces", eventPath, leasePath, gaugePath, gauge2Path} {
			require.NotEmpty(t, s.get(path, "Accept", tableAs).columns(), path)
		}
		require.Equal(t, []string{"Name", "Status", "Age"}, s.get("/api/v1/namespaces", "Accept", tableAs).columns())
		require.Equal(t, []string{"Name", "Depth", "Age"}, s.get(gauge2Path, "Accept", tableAs).columns(), "each version has its own columns")
	})
}

func TestTABLE_04_ARowPerObject(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(3)
		s.create(widgetPath, widgetJSON("x", "", "blue", 7))
		time.Sleep(90 * time.Second)
		a := s.get(widgetPath, "Accept", tableAs)
		require.Equal(t, []string{"Name", "Color", "Size", "Phase", "Age"}, a.columns())
		var names []string
		for _, row := range a.rows() {
			cells := at(row, "cells").([]any)
			require.Len(t, cells, 5)
			names = append(names, cells[0].(string))
		}
		require.Equal(t, s.get(widgetPath).names(), names)
		require.Equal(t, []any{"x", "blue", 7.0, nil, "90s"}, at(a.rows()[3], "cells"))
		require.Empty(t, s.get("/apis/shop.example.com/v1/namespaces/none/widgets", "Accept", tableAs).rows(), "a list, not null")
		require.Len(t, s.get(widgetPath+"?fieldSelector=spec.color%3Dblue", "Accept", tableAs).rows(), 1)
	})
}

func TestTABLE_05_WithoutColumnsOfItsOwn(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(zonePath, `{"metadata":{"name":"z"}}`)
		a := s.get(zonePath, "Accept", tableAs)
		require.Equal(t, []string{"Name", "Created At"}, a.columns())
		require.Equal(t, "string", at(a.at("columnDefinitions").([]any)[0], "type"))
		require.Equal(t, "name", at(a.at("columnDefinitions").([]any)[0], "format"))
		require.Equal(t, "date", at(a.at("columnDefinitions").([]any)[1], "type"))
		require.Equal(t, []any{"z", "2000-01-01T00:00:00Z"}, at(a.rows()[0], "cells"))
	})
}

func TestTABLE_06_KindsWithoutTables(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(slatePath, `{"metadata":{"name":"a"}}`)
		for _, path := range []string{slatePath, slatePath + "/a"} {
			a := s.get(path, "Accept", tableAs+", application/json").is(200)
			require.Contains(t, []string{"SlateList", "Slate"}, a.at("kind"))
			s.get(path, "Accept", tableAs).refused(406, "NotAcceptable", "application/json")
		}
		require.Equal(t, "Slate", s.watch(slatePath+"?watch=1", "Accept", tableAs+", application/json").expect("ADDED", "a").at("kind"))
		s.get(slatePath+"?watch=1", "Accept", tableAs).refused(406, "NotAcceptable", "")
		require.Equal(t, "PartialObjectMetadataList", s.get(slatePath, "Accept", listAs).is(200).at("kind"), "metadata are another matter")
	})
}

// Tally has columns that do not show a single field.
type Tally struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Done int32 `json:"done,omitempty"`
	All  int32 `json:"all,omitempty"`
}

func TestTABLE_07_ColumnsOfItsOwn(t *testing.T) {
	tallies := registry.Kind[Tally]{
		Group: group, Version: "v1", Plural: "tallies", Table: registry.Table{Columns: []openapi.Column{
			{Name: "Who", Type: "string", Format: "name", Path: []string{"metadata", "name"}},
			{Name: "All", Type: "integer", Description: "how many", Priority: 1, Path: []string{"all"}},
			{Name: "Left", Type: "integer", Paths: [][]string{{"all"}, {"done"}}, Cell: func(_ time.Time, values []any) any {
				all, _ := values[0].(int64)
				done, _ := values[1].(int64)
				return all - done
			}},
		}},
	}
	onEach(t, func(t *testing.T, s *server) {
		const path = "/apis/shop.example.com/v1/namespaces/default/tallies"
		s.create(path, `{"metadata":{"name":"a"},"done":3,"all":10}`)
		s.create(path, `{"metadata":{"name":"b"},"all":4}`)
		a := s.get(path, "Accept", tableAs)
		require.Equal(t, []string{"Who", "All", "Left"}, a.columns())
		require.Equal(t, map[string]any{"name": "All", "type": "integer", "format": "", "description": "how many", "priority": 1.0}, a.at("columnDefinitions").([]any)[1])
		require.Equal(t, []any{"a", 10.0, 7.0}, at(a.rows()[0], "cells"))
		require.Equal(t, []any{"b", 4.0, 4.0}, at(a.rows()[1], "cells"))
	}, kindwright.Serve(tallies))
}

func TestTABLE_08_ObjectsInRows(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		whole := s.widget("a", "x=y")
		for _, c := range s.get(widgetPath, "Accept", tableAs).at("columnDefinitions").([]any) {
			for _, member := range []string{"name", "type", "format", "description", "priority"} {
				require.Contains(t, c, member)
			}
		}
		for _, path := range []string{widgetPath, widgetPath + "/a"} {
			for _, query := range []string{"", "?includeObject=Metadata", "?includeObject="} {
				object := at(s.get(path+query, "Accept", tableAs).rows()[0], "object")
				require.Equal(t, "PartialObjectMetadata", at(object, "kind"))
				require.Equal(t, "meta.k8s.io/v1", at(object, "apiVersion"))
				require.Equal(t, whole.at("metadata"), at(object, "metadata"))
				require.Nil(t, at(object, "spec"))
			}
			require.Nil(t, at(s.get(path+"?includeObject=None", "Accept", tableAs).rows()[0], "object"))
			require.Equal(t, whole.doc, at(s.get(path+"?includeObject=Object", "Accept", tableAs).rows()[0], "object"))
			s.get(path+"?includeObject=All", "Accept", tableAs).refused(400, "BadRequest", "includeObject")
			require.NotEqual(t, "Status", s.get(path+"?includeObject=All").at("kind"), "it is about Tables alone")
		}
	})
}

func TestTABLE_09_TheMetadataOfTheList(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widgets(5)
		first := s.get(widgetPath+"?limit=2", "Accept", tableAs)
		require.Len(t, first.rows(), 2)
		require.Equal(t, s.now(), first.version())
		require.InDelta(t, 3, first.at("metadata", "remainingItemCount"), 0)
		s.widget("late", "")
		second := s.get(widgetPath+"?limit=2&continue="+url.QueryEscape(first.next()), "Accept", tableAs)
		require.Equal(t, first.version(), second.version())
		require.Equal(t, first.columns(), second.columns())
		last := s.get(widgetPath+"?continue="+url.QueryEscape(second.next()), "Accept", tableAs)
		require.Len(t, last.rows(), 1)
		require.Empty(t, last.next())
		one := s.get(widgetPath+"/w000", "Accept", tableAs)
		require.Equal(t, at(one.rows()[0], "object", "metadata", "resourceVersion"), one.version(), "a table of one object has its version")
	})
}

func TestTABLE_10_PartialMetadata(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		whole := s.widget("a", "x=y")
		one := s.get(widgetPath+"/a", "Accept", partialAs).is(200)
		require.Equal(t, map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": whole.at("metadata")}, one.doc)
		list := s.get(widgetPath, "Accept", listAs)
		require.Equal(t, "PartialObjectMetadataList", list.at("kind"))
		require.Equal(t, "meta.k8s.io/v1", list.at("apiVersion"))
		require.Equal(t, []any{one.doc}, list.items())
		require.Equal(t, s.now(), list.version())
		s.get(widgetPath, "Accept", partialAs).refused(406, "NotAcceptable", "")
		s.get(widgetPath+"/a", "Accept", listAs).refused(406, "NotAcceptable", "")
		require.Equal(t, "Widget", s.get(widgetPath+"/a", "Accept", listAs+",application/json").is(200).at("kind"))
		require.Contains(t, string(s.get(widgetPath+"/a", "Accept", "application/yaml;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").is(200).body), "kind: PartialObjectMetadata\n")
		s.widgets(3)
		page := s.get(widgetPath+"?limit=3", "Accept", listAs)
		require.Len(t, page.items(), 3)
		require.Len(t, s.get(widgetPath+"?limit=3&continue="+url.QueryEscape(page.next()), "Accept", listAs).items(), 1)
	})
}

func TestTABLE_11_V1beta1(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		const beta = "application/json;g=meta.k8s.io;v=v1beta1;as="
		table := s.get(widgetPath, "Accept", beta+"Table")
		require.Equal(t, "meta.k8s.io/v1beta1", table.at("apiVersion"))
		require.Equal(t, "meta.k8s.io/v1beta1", at(table.rows()[0], "object", "apiVersion"))
		require.Equal(t, "meta.k8s.io/v1beta1", s.get(widgetPath+"/a", "Accept", beta+"PartialObjectMetadata").is(200).at("apiVersion"))
		require.Equal(t, "meta.k8s.io/v1beta1", s.get(widgetPath, "Accept", beta+"PartialObjectMetadataList").is(200).at("apiVersion"))
	})
}
