package crd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
)

// tableDefinition returns a definition of the kind Table with columns and a schema of spec.
func tableDefinition(columns, spec string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"tables.shop.example.com"},
"spec":{"group":"shop.example.com","scope":"Cluster","names":{"plural":"tables","kind":"Table"},
"versions":[{"name":"v1","served":true,"storage":true,"additionalPrinterColumns":[` + columns + `],
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":` + spec + `}}}}]}}`
}

const anything = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`

type columnsAndRows struct {
	ColumnDefinitions []map[string]any
	Rows              []struct{ Cells []any }
}

func (c columnsAndRows) names() (out []any) {
	for _, d := range c.ColumnDefinitions {
		out = append(out, d["name"])
	}
	return out
}

func tableOf(t *testing.T, srv *apitest.Server, path string) (out columnsAndRows) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+path, nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	answer, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&out))
	return out
}

const tables = "/apis/shop.example.com/v1/tables"

func createTable(t *testing.T, srv *apitest.Server, name, spec string) {
	t.Helper()
	code, answer := call(t, srv, "POST", tables, `{"apiVersion":"shop.example.com/v1","kind":"Table","metadata":{"name":"`+name+`","labels":{"a.b/c":"d"}},"spec":`+spec+`}`)
	require.Equal(t, 201, code, "%v", answer)
}

func TestCRD_18_ColumnsShowWhatTheirPathsSelect(t *testing.T) {
	type cell struct{ columnType, path, want string }
	const spec = `{"alpha":"foo_123","beta":10,"gamma":"bar","epsilon":[1,2,3],"f":2.5,"big":1000000.5,"yes":true,"none":null,
"when":"2020-01-01T00:00:00Z","never":"","0":"zero","html":{"b":"<&>","a":1.5},"nested":[[1,2],[3]],
"conditions":[{"type":"Live","status":"True"},{"type":"Ready","status":"False"}]}`
	cells := []cell{
		{"string", ".spec.alpha", `"foo_123"`},
		{"integer", ".spec.beta", `10`},
		{"number", ".spec.beta", `10`},
		{"string", ".spec.beta", `"10"`},
		{"integer", ".spec.gamma", `null`},
		{"boolean", ".spec.gamma", `null`},
		{"string", ".spec.epsilon", `"[1,2,3]"`},
		{"integer", ".spec.epsilon", `null`},
		{"string", ".spec.epsilon[*]", `"1"`},
		{"integer", ".spec.epsilon[*]", `1`},
		{"integer", ".spec.epsilon[-1]", `3`},
		{"integer", ".spec.epsilon[9]", `null`},
		{"number", ".spec.f", `2.5`},
		{"integer", ".spec.f", `2`},
		{"string", ".spec.big", `"1.0000005e+06"`},
		{"boolean", ".spec.yes", `true`},
		{"string", ".spec.yes", `"true"`},
		{"string", ".spec.none", `"\u003cno value\u003e"`},
		{"integer", ".spec.none", `null`},
		{"string", ".spec.missing", `null`},
		{"date", ".spec.never", `"\u003cunknown\u003e"`},
		{"date", ".spec.alpha", `"\u003cinvalid\u003e"`},
		{"date", ".spec.beta", `null`},
		{"string", ".spec.0", `"zero"`},
		{"string", ".spec.html", `"{\"a\":1.5,\"b\":\"\\u003c\\u0026\\u003e\"}"`},
		{"string", ".spec.nested[*][0]", `"1"`},
		{"string", `.spec.conditions[?(@.type=="Ready")].status`, `"False"`},
		{"string", `.metadata.labels.a\.b/c`, `"d"`},
		{"string", `.metadata.labels['a\.b/c']`, `"d"`},
		{"string", `..alpha`, `"foo_123"`},
		{"string", `.spec.conditions`, `"[{\"status\":\"True\",\"type\":\"Live\"},{\"status\":\"False\",\"type\":\"Ready\"}]"`},
	}
	var columns []string
	for i, c := range cells {
		path, err := json.Marshal(c.path)
		require.NoError(t, err)
		columns = append(columns, fmt.Sprintf(`{"name":"C%d","type":%q,"jsonPath":%s}`, i, c.columnType, path))
	}
	columns = append(columns, `{"name":"Created At","type":"date","jsonPath":".spec.when","priority":3,"description":"when"}`)
	srv := start(t, crd.Kinds())
	establish(t, srv, tableDefinition(strings.Join(columns, ","), anything))
	createTable(t, srv, "a", spec)

	got := tableOf(t, srv, tables)
	require.Equal(t, "Name", got.ColumnDefinitions[0]["name"])
	require.Equal(t, map[string]any{
		"name": "C0", "type": "string", "format": "", "priority": 0.0, "description": "Custom resource definition column (in JSONPath format): .spec.alpha",
	}, got.ColumnDefinitions[1])
	for i, c := range cells {
		text, err := json.Marshal(got.Rows[0].Cells[i+1])
		require.NoError(t, err)
		require.Equal(t, c.want, string(text), "%s as %s", c.path, c.columnType)
	}
	last := len(cells) + 1
	require.Equal(t, map[string]any{"name": "Created At", "type": "date", "format": "", "priority": 3.0, "description": "when"}, got.ColumnDefinitions[last])
	require.Regexp(t, `^[0-9]+y([0-9]+d)?$`, got.Rows[0].Cells[last], "an age, as all dates in the columns of definitions")
}

// Where a schema says what a field is, the cell is a part of the JSON; it is the same cell.
func TestCRD_18_ASchemaDoesNotChangeCells(t *testing.T) {
	const (
		columns = `{"name":"A","type":"string","jsonPath":".spec.a"},{"name":"B","type":"string","jsonPath":".spec.b"},{"name":"C","type":"string","jsonPath":".spec.c"},{"name":"D","type":"string","jsonPath":".spec.d"},{"name":"E","type":"string","jsonPath":".spec.e"}`
		typed   = `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"boolean"},"d":{"type":"string","nullable":true},"e":{"type":"number"}}}`
		spec    = `{"a":"<x>","b":-3,"c":false,"d":null,"e":1e21}`
	)
	var cells [][]any
	for _, schema := range []string{anything, typed} {
		srv := start(t, crd.Kinds())
		establish(t, srv, tableDefinition(columns, schema))
		createTable(t, srv, "a", spec)
		cells = append(cells, tableOf(t, srv, tables).Rows[0].Cells)
	}
	require.Equal(t, []any{"a", "<x>", "-3", "false", "<no value>", "1e+21"}, cells[0])
	require.Equal(t, cells[0], cells[1])
}

func TestREAD_21_ColumnsByDefault(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, tableDefinition("", anything))
	require.Equal(t, []any{"Name", "Created At"}, tableOf(t, srv, tables).names())

	srv = start(t, crd.Kinds(crd.AgeColumn()))
	establish(t, srv, tableDefinition("", anything))
	require.Equal(t, []any{"Name", "Age"}, tableOf(t, srv, tables).names())
}

// A path that cannot be parsed ends the table. The objects are served nevertheless.
func TestCRD_18_ABadPathEndsTheTable(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, tableDefinition(`{"name":"A","type":"string","jsonPath":".spec.a"},{"name":"B","type":"string","jsonPath":".spec[?("},{"name":"C","type":"string","jsonPath":".spec.c"}`, anything))
	createTable(t, srv, "a", `{"a":"b"}`)
	got := tableOf(t, srv, tables)
	require.Equal(t, []any{"Name", "A"}, got.names())
	require.Equal(t, []any{"a", "b"}, got.Rows[0].Cells)
}

// A definition can have any number of columns, each of which shows all of an object. What they show
// together is bounded: a thousand of them would otherwise take gigabytes for one object of a megabyte.
func TestCRD_18_S1_ColumnsOfOneRowShareARoom(t *testing.T) {
	const text, many = 200 << 10, 60
	var columns []string
	for i := range many {
		columns = append(columns, fmt.Sprintf(`{"name":"C%d","type":"string","jsonPath":".spec"}`, i))
	}
	srv := start(t, crd.Kinds())
	establish(t, srv, tableDefinition(strings.Join(columns, ","), anything))
	createTable(t, srv, "a", `{"text":"`+strings.Repeat("x", text)+`"}`)
	shown := 0
	for _, cell := range tableOf(t, srv, tables).Rows[0].Cells[1:] {
		if cell != nil {
			shown++
		}
	}
	require.Positive(t, shown)
	require.Less(t, shown, many/4)
}

// A short path can search an object in very many ways. The columns of a row share the steps of that, and
// a list of such rows ends with its request.
func TestCRD_18_S1_ATableEndsWithItsRequest(t *testing.T) {
	var columns []string
	for i := range 400 {
		columns = append(columns, fmt.Sprintf(`{"name":"C%d","type":"string","jsonPath":".spec%s"}`, i, strings.Repeat("..a", 8)))
	}
	columns = append(columns, `{"name":"Last","type":"string","jsonPath":".spec.a"}`)
	srv := start(t, crd.Kinds())
	establish(t, srv, tableDefinition(strings.Join(columns, ","), anything))
	deep := strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)
	for i := range 30 {
		createTable(t, srv, fmt.Sprintf("a%d", i), deep)
	}
	row := tableOf(t, srv, tables+"/a0").Rows[0].Cells
	require.Nil(t, row[len(row)-1], "the steps of the row are taken")

	r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+tables+"?timeout=100ms", nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	answer, err := srv.Client().Do(r)
	require.NoError(t, err)
	_, err = io.ReadAll(answer.Body)
	require.NoError(t, answer.Body.Close())
	require.True(t, err != nil || answer.StatusCode == http.StatusGatewayTimeout, "the answer breaks off: %d", answer.StatusCode)
}
